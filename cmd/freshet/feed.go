package main

// This file holds `freshet feed`, which shows change feeds and reads them.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/show"
	feeds "github.com/freshet/freshet/endpoint/feed"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
)

var headerOption = option{name: "header", value: texts{}, usage: "header field as NAME: VALUE, in place of one that the " +
	"server does not show; may be repeated", member: "-"}

var feedTable = row{use: "feed", short: "Show change feeds, which tell what changes in the data of endpoints",
	example: "freshet feed list\nfreshet feed show wikidata\nfreshet feed check wikidata --for 1m",
	rows: []row{
		{use: "list", short: "List the feeds that are defined or that endpoints use", example: "freshet feed list --json", call: "GET /v1/feeds",
			out: printList("feeds", "NAME\tKIND\tSTATE\tLAG\tEVENTS\tMATCHED\tGAPS\tENDPOINTS\tWHY", func(f feed.Status) []any {
				lag := "-"
				if f.LagSeconds != nil {
					lag = show.Rounded(inSeconds(*f.LagSeconds))
				}
				return []any{f.Name, f.Kind, f.State, lag, f.Events, f.Matched, f.Gaps,
					strings.Join(f.Endpoints, ", "), show.Escape(show.Shortened(f.Error, 80))}
			})},
		{use: "show NAME", short: "Show where a feed is, what it has told, and which proofs were wrong", example: "freshet feed show wikidata",
			call: "GET /v1/feeds/{}", out: printWith(printFeed)},
		{use: "check NAME", short: "Read a feed once, from here, and say what it tells",
			long: `Reads the feed of a running server from this machine for some seconds, and says which
events come. Nothing is stored, and the server is not told. Servers that count
connections count this one, too.`,
			example: "freshet feed check wikidata --for 1m", run: readFeed(false),
			flags: []option{headerOption, {name: "for", value: 10 * time.Second, usage: "how long to read"}}},
		{use: "follow NAME", short: "Print the events of a feed as they come, until interrupted",
			long:    `Reads the feed of a running server from this machine, and prints a line for each event.`,
			example: "freshet feed follow wikidata", run: readFeed(true), flags: []option{headerOption}},
	}}

// printFeed prints a feed for people.
func printFeed(a *remote, f feed.Status) error {
	w := a.w.Stdout
	fmt.Fprintf(w, "%s (%s): %s", f.Name, f.Kind, f.State)
	if f.Error != "" {
		fmt.Fprintf(w, ": %s", show.Escape(f.Error))
	}
	fmt.Fprintln(w)
	line := func(name, format string, a ...any) {
		fmt.Fprintf(w, "  %-12s %s\n", name, show.Escape(fmt.Sprintf(format, a...)))
	}
	if f.URL != "" {
		line("address", "%s", f.URL)
	}
	if f.Position != (feed.Place{}) {
		line("position", "%s", placeText(f.Position, f.Kind))
	}
	if f.LagSeconds != nil {
		line("lag", "%s from publication to here, of the last event", show.Rounded(inSeconds(*f.LagSeconds)))
	}
	if !f.Heard.IsZero() {
		line("heard", "%s", f.Heard.UTC().Format(time.RFC3339))
	}
	line("events", "%d, which matched %d queries and may have touched %d", f.Events, f.Matched, f.Possible)
	line("gaps", "%d; %d events came twice", f.Gaps, f.Duplicates)
	if f.Owner != "" {
		line("node", "%s", f.Owner)
	}
	switch {
	case len(f.Endpoints) == 0:
		line("endpoints", "none: name it in the setting feed of one")
	default:
		line("endpoints", "%s", strings.Join(f.Endpoints, ", "))
	}
	for _, name := range f.Endpoints {
		if lag, ok := f.EndpointLags[name]; ok {
			line("learnt", "half of the events show at %s within %s", name, show.Rounded(inSeconds(lag)))
		}
	}
	for _, x := range f.Wrong {
		line("wrong", "the answer to %s at %s of %s differed although no event had reached it; nothing is proved there until %s", x.Query,
			x.Endpoint, x.At.UTC().Format(time.RFC3339), x.Until.UTC().Format(time.RFC3339))
		line("", "%s", x.Was)
		line("", "%s", x.Now)
	}
	return nil
}

func inSeconds(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// timeWord says what the times of a kind's events are.
func timeWord(k feed.Kind) string {
	if k.Dated() {
		return "published"
	}
	return "read"
}

func placeText(p feed.Place, k feed.Kind) string {
	var parts []string
	if p.Offset > 0 {
		parts = append(parts, fmt.Sprint(p.Offset))
	}
	if p.Topic != "" {
		parts = append(parts, "of "+p.Topic)
	}
	if !p.Time.IsZero() {
		parts = append(parts, timeWord(k)+" at "+p.Time.UTC().Format(time.RFC3339))
	}
	return strings.Join(parts, " ")
}

// A feedReading counts what a feed tells.
type feedReading struct {
	Feed       string `json:"feed"`
	kind       feed.Kind
	Events     int       `json:"events"`
	Whole      int       `json:"whole"` // events that show all that they changed
	Added      int       `json:"added"`
	Removed    int       `json:"removed"`
	Duplicates int       `json:"duplicates"`
	Gap        string    `json:"gap,omitempty"`
	First      time.Time `json:"first,omitzero"`
	Last       time.Time `json:"last,omitzero"`
	Error      string    `json:"error,omitempty"`
}

func (r *feedReading) take(b feed.Batch) {
	r.Duplicates += b.Duplicates
	if b.Gap != "" {
		r.Gap = b.Gap
	}
	for _, e := range b.Events {
		r.Events++
		r.Added, r.Removed = r.Added+len(e.Added), r.Removed+len(e.Removed)
		if !e.All && len(e.Loose) == 0 {
			r.Whole++
		}
		if r.First.IsZero() {
			r.First = e.Time
		}
		r.Last = e.Time
	}
}

func (r *feedReading) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d events", r.Feed, r.Events)
	if r.Events > 0 {
		fmt.Fprintf(&b, " with %d added and %d removed triples, %s from %s to %s; %d of them show all that they changed",
			r.Added, r.Removed, timeWord(r.kind),
			r.First.UTC().Format(time.RFC3339), r.Last.UTC().Format(time.RFC3339), r.Whole)
	}
	if r.Duplicates > 0 {
		fmt.Fprintf(&b, "; %d came twice", r.Duplicates)
	}
	if r.Gap != "" {
		fmt.Fprintf(&b, "; events are missing: %s", r.Gap)
	}
	if r.Error != "" {
		fmt.Fprintf(&b, "; %s", r.Error)
	}
	return show.Escape(b.String())
}

// readFeed returns the command that reads a feed of the server from here.
func readFeed(follow bool) func(a *remote, c *cobra.Command, args []string) error {
	return func(a *remote, c *cobra.Command, args []string) error {
		var f feed.Status
		if err := a.do(c.Context(), "GET", "/v1/feeds/"+url.PathEscape(args[0]), nil, &f); err != nil {
			return err
		}
		if strings.Contains(f.URL, "=…") {
			return cli.UsageErrorf("the address of the feed %s has secrets, which only a token with the role admin shows", f.Name)
		}
		if err := ownHeaders(c, &f.Definition); err != nil {
			return err
		}
		source, err := feeds.Open(f.Definition, feeds.Options{Contact: contact(a.w.Getenv), Version: cli.Version()})
		if err != nil {
			return cli.UsageErrorf("%v", err)
		}
		ctx := c.Context()
		if !follow {
			long, err := c.Flags().GetDuration("for")
			if err != nil {
				return err
			}
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, long)
			defer cancel()
		}
		r := &feedReading{Feed: f.Name, kind: f.Kind}
		cursor := ""
		err = source.Follow(ctx, cursor, func(b feed.Batch) error {
			r.take(b)
			for i := range b.Events {
				if !follow {
					break
				}
				if err := a.printEvent(&b.Events[i], f.Kind); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			r.Error = err.Error()
		}
		interrupted := c.Context().Err()
		if follow {
			return cmp.Or(interrupted, err)
		}
		if a.asJSON {
			err = cli.PrintJSON(a.w.Stdout, r)
		} else {
			_, err = fmt.Fprintln(a.w.Stdout, r)
		}
		err = cmp.Or(err, interrupted)
		if err == nil && r.Error != "" {
			err = cli.WithCode(cli.ExitFailure, errors.New("the feed cannot be read"))
		}
		return err
	}
}

// ownHeaders sets the headers that the user gives in place of those that the server does not show.
func ownHeaders(c *cobra.Command, d *feed.Definition) error {
	given, err := c.Flags().GetStringArray("header")
	if err != nil {
		return err
	}
	for _, text := range given {
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return cli.UsageErrorf("--header: %q is not of the form 'NAME: VALUE'", text)
		}
		if d.Headers == nil {
			d.Headers = map[string]string{}
		}
		maps.DeleteFunc(d.Headers, func(other, _ string) bool { return strings.EqualFold(other, strings.TrimSpace(name)) })
		d.Headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	for name, value := range d.Headers {
		if value == registry.MaskHeaders(map[string]string{name: value})[name] {
			return cli.UsageErrorf("the feed %s sends the header %s, whose value the server does not show: give it with --header "+
				"'%[2]s: VALUE'", d.Name, name)
		}
	}
	return nil
}

func (a *remote) printEvent(e *feed.Event, k feed.Kind) error {
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, e)
	}
	subject := e.Entity
	if subject == "" && len(e.Added)+len(e.Removed) > 0 {
		subject = append(e.Added, e.Removed...)[0].Subject
	}
	text := fmt.Sprintf("%s  %s  +%d −%d", placeText(e.Place, k), subject, len(e.Added), len(e.Removed))
	if e.All {
		text += "  anything may have changed"
	} else if len(e.Loose) > 0 {
		text += "  and what it does not show"
	}
	if e.Edit.Text != "" {
		text += "  " + e.Edit.Text
	}
	_, err := fmt.Fprintln(a.w.Stdout, show.Escape(text))
	return err
}
