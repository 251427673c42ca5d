package main

// This file holds `freshet watch`, which prints the changes of a query as they arrive.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/client"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

var watchRow = row{use: "watch ID", short: "Print the changes of a query as they arrive",
	long: `Prints each change of a query's result as it arrives, over the same WebSocket
that applications use. It reconnects after interruptions and resumes. With --json
every message is printed unchanged on one line.`,
	example: "freshet watch departures-central\nfreshet watch q_9f… --json | jq .added",
	run:     watchQuery, flags: []option{{name: "rows", value: 10, usage: "maximum number of rows of a result or a change to show"}}}

func watchQuery(a *remote, c *cobra.Command, args []string) error {
	var q api.Query // this request fails at once if there is no server
	if err := a.do(c.Context(), "GET", "/v1/queries/"+url.PathEscape(args[0]), nil, &q); err != nil {
		return err
	}
	if !a.asJSON {
		fmt.Fprintf(a.w.Stderr, "watching %s at %s\n", escapeControls(label(&q)), q.Endpoint)
	}
	return a.followChanges(c.Context(), args[0], func(e client.Event) error { return a.watched(e, intOf(c, "rows")) })
}

// followChanges follows a query until ctx ends.
func (a *remote) followChanges(ctx context.Context, query string, do func(client.Event) error) error {
	token, err := a.token()
	if err != nil {
		return err
	}
	o := client.Options{Server: a.base(), Token: token, Query: query, Trouble: func(err error) {
		fmt.Fprintf(a.w.Stderr, "connection lost (%v), coming back\n", err)
	}}
	return watchError(client.Follow(ctx, o, do))
}

// watchError adds exit codes to the errors of the client.
func watchError(err error) error {
	if r, ok := errors.AsType[*client.RefusedError](err); ok {
		code := cli.ExitFailure
		switch r.Code {
		case "unknown_query":
			code = cli.ExitNotFound
		case "not_allowed":
			code = cli.ExitAuth
		}
		return cli.WithCode(code, err)
	}
	if c, ok := errors.AsType[*websocket.CloseError](err); ok && (c.Code == 4401 || c.Code == 4403) {
		return cli.WithCode(cli.ExitAuth, err)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (a *remote) watched(e client.Event, rows int) error {
	if a.asJSON {
		var line bytes.Buffer
		if err := json.Compact(&line, e.Raw); err != nil {
			return err
		}
		line.WriteByte('\n')
		_, err := a.w.Stdout.Write(line.Bytes())
		return err
	}
	switch e.Kind {
	case client.Subscribed:
		if e.Empty && !e.Resumed {
			fmt.Fprintln(a.w.Stderr, "no result yet; the first one is shown when its endpoint has answered")
		}
	case client.Snapshot:
		fmt.Fprintf(a.w.Stdout, "%s %s: %s now\n", clockTime(e.CheckedAt), e.State.Position(), size(e.Result))
		printFirst(a.w.Stdout, e.Result, rows)
	case client.Delta:
		p := painter(a.w.Color)
		of := " of " + size(e.Result)
		if e.Delta.Form == diff.Ask {
			of = ""
		}
		fmt.Fprintf(a.w.Stdout, "%s %s: %s%s\n", clockTime(e.CheckedAt), e.State.Position(), deltaSize(e.Delta, p), of)
		printDelta(a.w.Stdout, e.Delta, rows, p)
	case client.Status:
		fmt.Fprintln(a.w.Stderr, statusLine(e))
	}
	return nil
}

// printFirst prints the first rows of a result.
func printFirst(w io.Writer, r *diff.Result, most int) {
	if r == nil || r.Form() == diff.Ask {
		return
	}
	n := min(most, r.Len())
	for i := range n {
		fmt.Fprintf(w, "    %s\n", rowText(r.Form(), r.Vars(), r.Row(i)))
	}
	if n > 0 && n < r.Len() {
		fmt.Fprintf(w, "    … %d more\n", r.Len()-n)
	}
}

// statusLine returns since when the result may be stale, and why.
func statusLine(e client.Event) string {
	line := clockTime(e.CheckedAt) + " " + cmp.Or(e.Reason, e.Health)
	if e.Error != "" {
		line += ": " + e.Error
	}
	return line
}

func clockTime(t time.Time) string {
	if t.IsZero() {
		return "--:--:--"
	}
	return t.Local().Format("15:04:05")
}

// quantity writes a number of things.
func quantity(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func size(r *diff.Result) string {
	switch {
	case r == nil:
		return "no result"
	case r.Form() == diff.Ask:
		return fmt.Sprint(r.Boolean())
	case r.Form().Graph():
		return quantity(r.Len(), "triple")
	}
	return quantity(r.Len(), "row")
}

// A painter colours text, if true: green for added, yellow for removed.
type painter bool

func (p painter) added(s string) string   { return p.paint("32", s) }
func (p painter) removed(s string) string { return p.paint("33", s) }
func (p painter) paint(code, s string) string {
	if !p {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func deltaSize(d *diff.Delta, p painter) string {
	if d.Form == diff.Ask {
		return fmt.Sprintf("now %v, before %v", d.Boolean, d.Previous)
	}
	return p.added(fmt.Sprintf("+%d", len(d.Added))) + " " + p.removed(fmt.Sprintf("−%d", len(d.Removed)))
}

// printDelta prints at most max rows of each side.
func printDelta(w io.Writer, d *diff.Delta, max int, p painter) {
	side := func(sign string, rows diff.Rows, vars []string, paint func(string) string) {
		for i, row := range rows {
			if i == max {
				fmt.Fprintf(w, "    … %d more\n", len(rows)-max)
				return
			}
			fmt.Fprintf(w, "  %s\n", paint(sign+" "+rowText(d.Form, vars, row)))
		}
	}
	side("−", d.Removed, d.OldVars, p.removed)
	side("+", d.Added, d.Vars, p.added)
}

// rowText writes one row as text: variables with short terms, or a triple.
func rowText(form diff.Form, vars []string, row []byte) string {
	if form.Graph() {
		return boundedText(string(row))
	}
	var b strings.Builder
	for i, t := range diff.RowTerms(form, vars, row) {
		if t.Kind == diff.Unbound {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("  ")
		}
		fmt.Fprintf(&b, "%s=%s", vars[i], shortTerm(t))
	}
	return b.String()
}

func shortTerm(t diff.Term) string {
	s := boundedText(t.Value)
	switch t.Kind {
	case diff.IRI:
		if i := strings.LastIndexAny(s, "/#"); i > 0 && i < len(s)-1 {
			s = s[i+1:]
		}
		return "<" + s + ">"
	case diff.Blank:
		return "_:" + s
	}
	if t.Lang != "" {
		return s + "@" + t.Lang
	}
	return s
}

// escapeControls replaces characters of an endpoint's text that control a terminal.
func escapeControls(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '·'
		}
		return r
	}, s)
}

// boundedText returns at most 200 characters of a text, with control characters replaced.
func boundedText(s string) string {
	s = escapeControls(s)
	const most = 200
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// changeLine writes one change in a line, with its first rows below.
func changeLine(name string, c registry.Change, color bool) string {
	var b strings.Builder
	p := painter(color)
	if c.Baseline {
		first := quantity(c.Delta.NewLen, "row")
		if c.Delta.Form == diff.Ask {
			first = fmt.Sprint(c.Delta.Boolean)
		} else if c.Delta.Form.Graph() {
			first = quantity(c.Delta.NewLen, "triple")
		}
		fmt.Fprintf(&b, "%s %-26s first result, %s", clockTime(c.Time), name, first)
		return b.String()
	}
	fmt.Fprintf(&b, "%s %-26s #%d %s\n", clockTime(c.Time), name, c.Seq, deltaSize(c.Delta, p))
	printDelta(&b, c.Delta, 2, p)
	return strings.TrimSuffix(b.String(), "\n")
}
