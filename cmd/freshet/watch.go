package main

// This file holds `freshet watch`, which prints the changes of a query as they arrive.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/gorilla/websocket"
	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/show"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/client"
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
		fmt.Fprintf(a.w.Stderr, "watching %s at %s\n", show.Escape(label(&q)), q.Endpoint)
	}
	return a.followChanges(c.Context(), args[0], func(e client.Event) error { return a.watched(label(&q), e, intOf(c, "rows")) })
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

// watched prints an event of the query with a name.
func (a *remote) watched(name string, e client.Event, rows int) error {
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, e.Raw)
	}
	switch {
	case e.Kind == client.Subscribed:
		if e.Empty && !e.Resumed {
			fmt.Fprintln(a.w.Stderr, "no result yet; the first one is shown when its endpoint has answered")
		}
	case e.Kind == client.Snapshot, e.Kind == client.Delta && e.Delta.Baseline:
		fmt.Fprintf(a.w.Stdout, "%s %s %s: %s now\n", show.Clock(e.CheckedAt), show.Escape(name), e.State.Position(), show.Size(e.Result))
		show.PrintFirst(a.w.Stdout, e.Result, rows)
	case e.Kind == client.Delta:
		p := show.Painter(a.w.Color)
		of := " of " + show.Size(e.Result)
		if e.Delta.Form == diff.Ask {
			of = ""
		}
		fmt.Fprintf(a.w.Stdout, "%s %s %s: %s%s\n", show.Clock(e.CheckedAt), show.Escape(name), e.State.Position(),
			show.DeltaSize(e.Delta, p), of)
		show.PrintDelta(a.w.Stdout, e.Delta, rows, p)
	case e.Kind == client.Status:
		fmt.Fprintln(a.w.Stderr, statusLine(e))
	}
	return nil
}

// statusLine returns since when the result may be stale, and why.
func statusLine(e client.Event) string {
	line := show.Clock(e.CheckedAt) + " " + cmp.Or(e.Reason, e.Health)
	if e.Error != "" {
		line += ": " + e.Error
	}
	return line
}
