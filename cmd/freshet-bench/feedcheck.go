package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/freshet/freshet/bench/stream"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/endpoint/feed"
	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/endpoint/pack"
	known "github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
)

// A checkedQuery says whether the result of a query can be proved.
type checkedQuery struct {
	Query      string  `json:"query"`
	Unprovable string  `json:"unprovable,omitempty"`
	Patterns   int     `json:"patterns"`
	Matched    float64 `json:"matched"`  // share of the edits
	Possible   float64 `json:"possible"` // share of the others that leave it open
}

// checkQueries prints which results can be proved, and how often.
func (o *feedOptions) checkQueries(ctx context.Context, seed uint64, documents map[string][]stream.Triple, files []string,
	asJSON bool) error {
	wikidata, err := pack.Find("wikidata")
	if err != nil {
		return err
	}
	events, err := o.readEvents(ctx, seed, documents)
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return cli.UsageErrorf("--check: %v", err)
		}
		q := checkedQuery{Query: filepath.Base(file)}
		patterns, _ := sparql.Patterns(wikidata.Declare(string(text)))
		a, err := sparql.Analyse(wikidata.Declare(string(text)))
		why := sparql.Unprovable(wikidata.Declare(string(text)), err == nil && a.Ordered)
		q.Unprovable, q.Patterns = why, len(patterns)
		for i := range events {
			switch {
			case why != "":
			case events[i].Reach(patterns) == known.Matched:
				q.Matched += 1 / float64(len(events))
			case events[i].Reach(patterns) == known.Possible:
				q.Possible += 1 / float64(len(events))
			}
		}
		if asJSON {
			err = json.NewEncoder(o.w.Stdout).Encode(q)
		} else if why != "" {
			_, err = fmt.Fprintf(o.w.Stdout, "%-16s cannot be proved: %s\n", q.Query, why)
		} else {
			_, err = fmt.Fprintf(o.w.Stdout, "%-16s %3d patterns, matched by %5.1f %% of the edits, left open by %5.1f %%\n", q.Query,
				q.Patterns, 100*q.Matched, 100*q.Possible)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readEvents reads the edits of a stream without faults as the server does.
func (o *feedOptions) readEvents(ctx context.Context, seed uint64, documents map[string][]stream.Triple) (events []known.Event, err error) {
	world, source := stream.NewWorld(seed, o.items, documents), stream.NewServer(seed, stream.Faults{})
	wire, err := local.Listen(ctx, "127.0.0.1:0", source)
	if err != nil {
		return nil, err
	}
	defer wire.Close()
	reader, err := feed.Open(known.Definition{Name: "stream", Kind: known.Wikimedia, URL: wire.URL}, feed.Options{})
	if err != nil {
		return nil, err
	}
	published := make(chan struct{})
	go func() { // once the connection is there
		defer close(published)
		for n, _ := source.Sent(); n == 0 && ctx.Err() == nil; n, _ = source.Sent() {
			time.Sleep(time.Millisecond)
		}
		for range o.events {
			c := world.Next()
			source.Publish(&c, time.Now())
			time.Sleep(time.Millisecond / 2) // more at once would not all be read
		}
	}()
	end := errors.New("all were read")
	err = reader.Follow(ctx, "", func(b known.Batch) error {
		if events = append(events, b.Events...); len(events) >= o.events {
			return end
		}
		return nil
	})
	<-published
	if errors.Is(err, end) {
		err = nil
	}
	return events, err
}
