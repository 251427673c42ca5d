package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/show"
	"github.com/freshet/freshet/notify/client"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/web/api"
)

// nextRun says when the query of the watch runs again.
func nextRun(v *api.Watch) string {
	if v.Query.NextDue == nil {
		return "when it runs again is not known"
	}
	return "it runs again at " + show.Clock(*v.Query.NextDue)
}

var watchEntityRow = row{use: "watch-entity IRI", short: "Watch the properties of an entity",
	long: `Registers a query for the properties of an entity, for what refers to it, or for both, and
prints its id. IRI is the entity or its page on Wikidata, DBpedia, UniProt or Europeana.
The changes come in words, with labels: see --follow.`,
	example: "freshet watch-entity https://www.wikidata.org/wiki/Q42 --labels en,de --follow\n" +
		"freshet watch-entity http://dbpedia.org/resource/Ulm --property http://dbpedia.org/ontology/mayor --both",
	call: "POST /v1/watches", arg: "iri", body: watchOf(watch.Entity), out: registerWatch,
	one: []string{strings.Join(watch.Directions(), " "), "follow preview"}, flags: append([]option{
		{name: "property", value: texts(nil), usage: "only this property; may be given several times", member: "properties"},
		{name: "within", value: "", usage: "only properties whose IRI begins like this"},
		{name: watch.Outgoing, value: false, usage: "the properties of the entity (default)", member: "-"},
		{name: watch.Incoming, value: false, usage: "what refers to the entity", member: "-"},
		{name: watch.Both, value: false, usage: "its properties and what refers to it", member: "-"},
	}, watchFlags...)}

var watchClassRow = memberRow("class", "the instances of a class", watch.Instances,
	`Registers a query for the instances of a class and prints its id. The property that leads
from an instance to the class is rdf:type, or P31 on Wikidata, unless --property names
another one.`, "freshet watch-class http://dbpedia.org/ontology/Volcano --preview\nfreshet watch-class Q8072 --follow")

var watchCategoryRow = memberRow("category", "the members of a category", watch.Members,
	`Registers a query for the members of a category and prints its id. The property that leads
from a member to the category is dcterms:subject, unless --property names another one.`,
	"freshet watch-category http://dbpedia.org/resource/Category:Ulm")

// memberRow returns the row of a command that watches the members of something.
func memberRow(of, members string, kind watch.Kind, long, example string) row {
	return row{use: "watch-" + of + " IRI", short: "Watch " + members, long: long, example: example, call: "POST /v1/watches", arg: "iri",
		body: watchOf(kind), out: registerWatch, one: []string{"follow preview"}, flags: append([]option{
			{name: "property", value: texts(nil), usage: "the property that leads from a member to IRI", member: "properties"},
		}, watchFlags...)}
}

var watchFlags = []option{
	{name: "labels", value: commaTexts(nil), usage: "languages of labels, best first (default en)"},
	{name: "endpoint", value: "", usage: "endpoint to ask (default: the one of the site, else the server's default)"},
	{name: "name", value: "", usage: "your name for the watch"},
	{name: "tag", value: commaTexts(nil), usage: "tag; may be given several times", member: "tags"},
	{name: "max-staleness", value: "", usage: "maximum age of the result, e.g. 10m"},
	{name: "min-interval", value: "", usage: "minimum time between two executions, e.g. 1m"},
	notifyFlag,
	{name: "follow", value: false, usage: "print the changes as they arrive"},
	{name: "preview", value: false, usage: "show what would be watched, and register nothing"},
}

// watchOf adds the kind and the direction of a watch.
func watchOf(kind watch.Kind) func(*remote, *cobra.Command, []string, map[string]any) error {
	return func(_ *remote, c *cobra.Command, _ []string, body map[string]any) error {
		body["kind"] = kind
		for _, d := range watch.Directions() {
			if f := c.Flag(d); f != nil && f.Value.String() == "true" {
				body["direction"] = d
			}
		}
		return nil
	}
}

// registerWatch registers a watch, and follows or only previews it if the flag is given.
func registerWatch(ctx context.Context, a *remote, r sending) error {
	body, _ := r.body.(map[string]any)
	follow, preview := taken(body, "follow"), taken(body, "preview")
	if to, _ := body["notify"].([]string); len(to) > 0 && (preview || follow) {
		return cli.UsageErrorf("--notify: it goes with neither --preview nor --follow")
	}
	switch {
	case preview:
		return namesEndpoint(a.previewWatch(ctx, body))
	case follow:
		return a.followWatch(ctx, body)
	}
	return namesEndpoint(withReceivers(printWatch, func(v api.Watch) string { return v.ID })(ctx, a, r))
}

// taken removes the value of a flag from a body, and reports whether it is true.
func taken(body map[string]any, flag string) bool {
	value, _ := body[flag].(json.RawMessage)
	delete(body, flag)
	return string(value) == "true"
}

// namesEndpoint adds the flag that names an endpoint to an error that wants one.
func namesEndpoint(err error) error {
	if p, ok := errors.AsType[*problem](err); ok && strings.HasSuffix(p.Type, "/"+string(registry.KindUnknownEndpoint)) {
		return fmt.Errorf("%w (--endpoint NAME)", err)
	}
	return err
}

func printWatch(a *remote, v api.Watch) error {
	fmt.Fprintf(a.w.Stderr, "watching %s\n", show.Escape(v.Describes))
	_, err := fmt.Fprintln(a.w.Stdout, v.ID)
	return err
}

// previewWatch shows what a watch would cover, and its first rows.
func (a *remote) previewWatch(ctx context.Context, body any) error {
	var v api.WatchPreview
	_, err := a.answer(ctx, sending{method: http.MethodPost, path: "/v1/watches/validate?run=1", body: body}, &v)
	if err == nil && !a.asJSON {
		fmt.Fprintf(a.w.Stdout, "would watch %s\nat %s: %s\n", show.Escape(v.Describes), v.Analysis.Endpoint, v.Query)
	}
	return errors.Join(err, a.printRun(v.Analysis.Run, "now "))
}

// followWatch registers a watch and prints its changes in words until ctx ends.
func (a *remote) followWatch(ctx context.Context, body any) error {
	var v api.Watch
	if err := a.do(ctx, http.MethodPost, "/v1/watches", body, &v); err != nil {
		return namesEndpoint(err)
	}
	fmt.Fprintf(a.w.Stderr, "watching %s as %s\n", show.Escape(v.Describes), v.ID)
	if v.Query.Seq == 0 && !a.asJSON {
		fmt.Fprintf(a.w.Stderr, "asking %s; %s\n", show.Escape(v.Query.Endpoint), nextRun(&v))
	}
	var at registry.Position
	return a.followChanges(ctx, v.ID, func(e client.Event) (err error) {
		switch e.Kind {
		case client.Status:
			if !a.asJSON {
				return a.printTrouble(ctx, v.ID, e)
			}
		case client.Snapshot:
			at = registry.Position{Epoch: e.State.Epoch, Seq: e.State.Seq}
			if !a.asJSON {
				return a.printNow(ctx, v.ID, e)
			}
		case client.Delta:
			if e.Delta.Baseline && !a.asJSON {
				at = registry.Position{Epoch: e.State.Epoch, Seq: e.State.Seq}
				return a.printNow(ctx, v.ID, e)
			}
			at, err = a.printSummaries(ctx, v.ID, at, registry.Position{Epoch: e.State.Epoch, Seq: e.State.Seq})
		}
		return err
	})
}

// printNow prints the result in words, and when it is asked for again.
func (a *remote) printNow(ctx context.Context, id string, e client.Event) error {
	var v api.Watch
	if err := a.insist(ctx, watchPath(id), &v); err != nil {
		return err
	}
	fmt.Fprintf(a.w.Stderr, "%s answered; %s; Ctrl-C ends\n", show.Escape(v.Query.Endpoint), nextRun(&v))
	_, err := fmt.Fprintf(a.w.Stdout, "%s %s\n", show.Clock(e.CheckedAt), show.Escape(v.Now))
	return err
}

// printTrouble prints why there is no new result, and when it is asked for again.
func (a *remote) printTrouble(ctx context.Context, id string, e client.Event) error {
	if e.Error == "" {
		return a.watched(id, e, 0)
	}
	var v api.Watch
	if err := a.insist(ctx, watchPath(id), &v); err != nil {
		return err
	}
	e.CheckedAt = time.Now()
	_, err := fmt.Fprintf(a.w.Stderr, "%s; %s\n", statusLine(e), nextRun(&v))
	return err
}

func watchPath(id string) string { return "/v1/watches/" + url.PathEscape(id) }

// printSummaries prints the changes from one position to another in words.
func (a *remote) printSummaries(ctx context.Context, id string, at, until registry.Position) (registry.Position, error) {
	if at == (registry.Position{}) { // there was no result yet
		at.Epoch = until.Epoch
	}
	for at.Epoch == until.Epoch && at.Seq < until.Seq {
		var page struct {
			Changes []json.RawMessage `json:"changes"`
		}
		err := a.insist(ctx, "/v1/watches/"+url.PathEscape(id)+"/changes?after="+url.QueryEscape(at.String()), &page)
		if p, ok := errors.AsType[*problem](err); ok && p.Status == http.StatusGone {
			break // the changes are not kept any more
		}
		if err != nil || len(page.Changes) == 0 {
			return until, err
		}
		for _, raw := range page.Changes {
			var c api.WatchChange
			if err := json.Unmarshal(raw, &c); err != nil {
				return until, err
			}
			if at.Seq = c.Seq; at.Seq > until.Seq {
				break // the next event announces it
			}
			if err := a.printSummary(raw, c); err != nil {
				return until, err
			}
		}
	}
	return until, nil
}

// insist repeats a GET request while the server restarts or is busy.
func (a *remote) insist(ctx context.Context, path string, out any) error {
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 30*time.Second) {
		err := a.do(ctx, http.MethodGet, path, nil, out)
		failed, silent := errors.AsType[*cli.ExitError](err)
		p, answered := errors.AsType[*problem](err)
		if !(silent && failed.Code == cli.ExitUnreachable) && !(answered && p.Status == http.StatusServiceUnavailable) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *remote) printSummary(raw json.RawMessage, c api.WatchChange) error {
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, raw)
	}
	for _, line := range c.Summary {
		if _, err := fmt.Fprintf(a.w.Stdout, "%s %s\n", show.Clock(c.CheckedAt), show.Escape(line)); err != nil {
			return err
		}
	}
	return nil
}
