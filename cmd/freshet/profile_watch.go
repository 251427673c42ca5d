package main

// This file holds `freshet profile watch`, which prints captures and expiries as they happen.

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/show"
)

func watchCaptures(a *remote, c *cobra.Command, args []string) error {
	ctx, v := c.Context(), &captureWatch{remote: a, path: capturesPath(args[0]), printed: map[uint64]bool{}}
	for tries := 0; ; tries++ {
		err := v.follow(ctx)
		var failed *cli.ExitError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errStreamEnded):
			return cli.WithCode(cli.ExitNotFound, err)
		case errors.As(err, &failed) && (tries == 0 || failed.Code != cli.ExitUnreachable && failed.Code != cli.ExitFailure):
			return err
		}
		fmt.Fprintf(v.w.Stderr, "connection lost (%v), coming back\n", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(time.Duration(1<<min(tries, 5))*250*time.Millisecond, 8*time.Second)):
		}
	}
}

// A captureWatch follows an event stream and resumes it after a cut.
type captureWatch struct {
	*remote
	path    string
	last    string          // id of the last event
	printed map[uint64]bool // expired rounds since then, which the server repeats after a cut
}

// A streamed is one event of the stream.
type streamed struct {
	Event string          `json:"event"`
	ID    string          `json:"id,omitempty"`
	Data  json.RawMessage `json:"data"`
}

var errStreamEnded = errors.New("the profile ended")

// follow reads one connection to its end.
func (v *captureWatch) follow(ctx context.Context) error {
	headers := http.Header{"Accept": {"text/event-stream"}}
	if v.last != "" {
		headers.Set("Last-Event-ID", v.last)
	}
	resp, err := v.send(ctx, http.MethodGet, v.path, headers, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, 16<<20)
	for fields := map[string]string{}; in.Scan(); {
		if name, value, _ := strings.Cut(in.Text(), ": "); in.Text() != "" {
			fields[name] = value
			continue
		}
		if fields["event"] != "" {
			if err := v.print(streamed{fields["event"], fields["id"], json.RawMessage(fields["data"])}); err != nil {
				return err
			}
		}
		clear(fields)
	}
	return cmp.Or(in.Err(), errors.New("the server closed the stream"))
}

func (v *captureWatch) print(e streamed) error {
	var m struct {
		Round   uint64    `json:"round"`
		Time    time.Time `json:"time"`
		Reason  string    `json:"reason"`
		Error   string    `json:"error"`
		Results []struct {
			Query string `json:"query"`
			Seq   uint64 `json:"seq"`
		} `json:"results"`
	}
	if err := json.Unmarshal(e.Data, &m); err != nil {
		return err
	}
	if e.Event == "expired" {
		if v.printed[m.Round] {
			return nil
		}
		v.printed[m.Round] = true
	}
	if e.ID != "" {
		v.last = e.ID
		clear(v.printed)
	}
	if e.Event == "complete" && m.Reason == "released" {
		return errStreamEnded
	}
	if v.asJSON {
		return cli.PrintJSON(v.w.Stdout, e)
	}
	switch e.Event {
	case "captured":
		var at []string
		for _, r := range m.Results {
			at = append(at, fmt.Sprintf("%s:%d", r.Query, r.Seq))
		}
		fmt.Fprintf(v.w.Stdout, "%s round %d captured: %s\n", show.Clock(m.Time), m.Round, strings.Join(at, " "))
	case "expired":
		fmt.Fprintf(v.w.Stdout, "%s round %d expired: %s\n", show.Clock(m.Time), m.Round, show.Bounded(m.Error))
	case "gap":
		fmt.Fprintf(v.w.Stderr, "captures were missed (%s)\n", m.Reason)
	}
	return nil
}
