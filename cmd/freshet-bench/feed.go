package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench/stream"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/formats"
)

// feedCommand judges a server that follows a change feed.
func feedCommand(w *cli.Env) *cobra.Command {
	o := feedOptions{w: w}
	var seeds []uint
	var entities, check []string
	var asJSON bool
	c := &cobra.Command{
		Use: "feed", Short: "Judge what the server concludes from a change stream with faults", Args: cobra.NoArgs,
		Long: `Generates a stream of edits in the form of Wikidata's change stream and plays it over
server-sent events on this machine, with faults: messages are dropped, doubled and out of
order, connections are cut, the server forgets messages once, and messages of another
topic and canaries are among them. The embedded engine applies the same edits late, by 0 to
10 minutes. The real server follows the stream and keeps queries up to date that are made
from templates after real ones. Every result that it tells and a sample of its proofs are
compared with what was true at each position of the engine.

--compress divides all times: with 60, slots are one second apart, and the engine is up to
ten seconds late. --entities reads real entities in Turtle, which are edited too. Without
the feed (--polling), the server polls as ever.

--check reads queries instead, one a file, and prints for each
whether its result can be proved, else why not, and which share of the edits of a stream
reaches it: those end a proof.

What must be 0 is lost, false, doubled and wrongly proved; the command fails otherwise.`,
		Example: `  freshet bench feed --events 20000 --queries 2000
  freshet bench feed --position none --seed 1,2,3 --json
  freshet bench feed --entities Q42.ttl,L4082.ttl --events 5000
  freshet bench feed --check log-00.rq,log-01.rq`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			documents, err := readEntities(entities)
			if err != nil {
				return err
			}
			if len(check) > 0 {
				return o.checkQueries(c.Context(), uint64(seeds[0]), documents, check, asJSON)
			}
			for _, s := range seeds {
				run := &feedRun{feedOptions: o, seed: uint64(s)}
				r, err := run.play(c.Context(), documents)
				if err != nil {
					return fmt.Errorf("seed %d: %w", s, err)
				}
				if err := r.write(w.Stdout, asJSON); err != nil {
					return err
				}
				if bad := r.Lost + r.False + r.Doubled + r.Unproved; bad > 0 {
					return fmt.Errorf("seed %d: %d results were lost, false, doubled or wrongly proved", s, bad)
				}
			}
			return nil
		},
	}
	f := c.Flags()
	f.UintSliceVar(&seeds, "seed", []uint{1}, "seeds, one run each")
	f.IntVar(&o.events, "events", 10_000, "edits")
	f.IntVar(&o.rate, "rate", 200, "edits in a second")
	f.IntVar(&o.queries, "queries", 1000, "queries")
	f.IntVar(&o.items, "items", 5000, "generated items that are edited")
	f.Float64Var(&o.compress, "compress", 60, "by how much all times are divided")
	f.StringVar(&o.position, "position", "offset", "what the endpoint tells about its position: offset, time or none")
	f.BoolVar(&o.polling, "polling", false, "do not follow the stream")
	f.BoolVar(&o.faultless, "no-faults", false, "play the stream without faults")
	f.IntVar(&o.restarts, "restarts", 1, "how often the server is stopped and started again")
	f.StringSliceVar(&entities, "entities", nil, "Turtle files of real entities, named by their ids")
	f.StringSliceVar(&check, "check", nil, "files of queries to check, with the prefixes of Wikidata")
	f.StringVar(&o.engine, "engine", "", "the embedded engine, if it is not found by itself")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a seed")
	return c
}

// feedOptions are the flags.
type feedOptions struct {
	w                            *cli.Env
	events, rate, queries, items int
	restarts                     int
	compress                     float64
	position, engine             string
	polling, faultless           bool
}

func (o *feedOptions) check() error {
	switch {
	case o.events < 1, o.rate < 1, o.queries < 1, o.items < 10:
		return cli.UsageErrorf("--events, --rate and --queries are at least 1, --items at least 10")
	case o.compress < 1 || o.compress > 60:
		return cli.UsageErrorf("--compress is from 1 to 60")
	case feedPositions[o.position] == nil:
		return cli.UsageErrorf("--position is offset, time or none")
	}
	return nil
}

// virtual returns a time of the real world in that of the run.
func (o *feedOptions) virtual(d time.Duration) time.Duration {
	return time.Duration(float64(d) / o.compress)
}

// readEntities reads documents of entities. Their names are the ids.
func readEntities(files []string) (map[string][]stream.Triple, error) {
	out := map[string][]stream.Triple{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, cli.UsageErrorf("--entities: %v", err)
		}
		id := strings.TrimSuffix(filepath.Base(file), ".ttl")
		err = formats.Triples(formats.Turtle, text, "", 0, func(s, p, o diff.Term) error {
			if s.Kind != diff.Blank && o.Kind != diff.Blank { // messages have none
				out[id] = append(out[id], stream.Triple{s.String(), p.String(), o.String()})
			}
			return nil
		})
		if err != nil {
			return nil, cli.UsageErrorf("--entities: %s: %v", file, err)
		}
	}
	return out, nil
}

// A feedReport is what one run shows.
type feedReport struct {
	stream.Report
	Seed       uint64  `json:"seed"`
	Position   string  `json:"position"`
	Polling    bool    `json:"polling,omitempty"`
	Seconds    float64 `json:"seconds"`
	Executions int     `json:"executions"` // after the first of each query
	// Causes are why the results of these were not proved.
	Causes map[string]int `json:"causes,omitempty"`
	// Polled is how many executions polling needs for a delay of at most one slot.
	Polled      int     `json:"executions_of_polling"`
	Proved      float64 `json:"proved"` // mean share of the results that were proved within the last minute
	Connections int     `json:"connections"`
	Messages    int     `json:"messages"`
	Processor   float64 `json:"processor_seconds"` // of everything: server, engine and rig
}

func (r *feedReport) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	var why []string
	for _, cause := range slices.SortedFunc(maps.Keys(r.Causes), func(a, b string) int { return r.Causes[b] - r.Causes[a] }) {
		if n := r.Causes[cause]; n > 0 {
			why = append(why, fmt.Sprintf("%s %d (%.2f %%)", cause, n, 100*float64(n)/float64(max(r.Polled, 1))))
		}
	}
	_, err := fmt.Fprintf(w, `seed %d, position %s: %d events, %d queries, %.0f s
must be 0    %d lost, %d false, %d doubled, %d of %d proofs wrong
changes      %d at the endpoint, %d told
delay        %.2f s for half of them, %.2f s for 99 %%
executions   %d, %.2f %% of the %d that polling in every slot needs
             %s
proved       %.1f %% of the results within the last minute
stream       %d connections, %d messages
processor    %.1f s
`, r.Seed, r.Position, r.Events, r.Queries, r.Seconds, r.Lost, r.False, r.Doubled, r.Unproved, r.Claims, r.Changes, r.Received,
		r.DelayP50, r.DelayP99, r.Executions, 100*float64(r.Executions)/float64(max(r.Polled, 1)), r.Polled, strings.Join(why, ", "),
		100*r.Proved, r.Connections, r.Messages, r.Processor)
	return err
}

var errUnsettled = errors.New("the results did not settle")

// settle waits until the results are the true ones, for a while.
func settle(ctx context.Context, j *stream.Judge, most time.Duration) error {
	for end := time.Now().Add(most); ; {
		if j.Stale() == 0 {
			return nil
		}
		if time.Now().After(end) {
			return errUnsettled
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
