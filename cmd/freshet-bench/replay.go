package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/cmd/internal/server"
	"github.com/freshet/freshet/notify/client"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// An endToEnd runs the real server over a recording source: it applies changesets,
// runs slots through the API, and counts what subscribers receive.
type endToEnd struct {
	recordingSource
	policy string
	budget time.Duration

	w        *cli.Env
	list     []registry.Query
	ids      []string // by query, as the server names them
	steps    []trace.Step
	srv      *server.Server
	arrivals *bench.ReplayCheck
	memory   []scheduler.Memory
}

const replayEndpoint = "bench"

func replayCommand(w *cli.Env) *cobra.Command {
	r := &endToEnd{w: w}
	var asJSON bool
	c := &cobra.Command{
		Use: "replay", Short: "Replay changesets against the real server, end to end", Args: cobra.NoArgs,
		Long: `Starts the server over the embedded engine, or over any endpoint that takes
updates, registers the queries, follows each over a WebSocket, and then, revision
by revision, applies the changesets and runs a slot through the API. It compares what the
subscribers receive with the true results, which it requests outside of the
budget.`,
		Example: "  freshet bench replay --changesets changesets --base base.nt.gz --queries queries.jsonl --policy " +
			"ttl:max=8:reset --budget 500ms --limit 50",
		RunE: func(c *cobra.Command, _ []string) error {
			if _, err := scheduler.ParsePolicy(r.policy); err != nil {
				return cli.UsageErrorf("--policy: %v", err)
			}
			report, err := r.run(c.Context())
			if err != nil {
				return err
			}
			if err := report.Write(w.Stdout, asJSON); err != nil {
				return err
			}
			if report.Wrong > 0 {
				return fmt.Errorf("subscribers received %d results that were never true", report.Wrong)
			}
			return nil
		},
	}
	r.flags(c)
	f := c.Flags()
	f.StringVar(&r.policy, "policy", registry.DefaultPolicy, "refresh policy")
	f.DurationVar(&r.budget, "budget", time.Duration(registry.DefaultBudget), "execution seconds of a slot")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func (r *endToEnd) run(ctx context.Context) (report bench.ReplayReport, err error) {
	if r.list, r.steps, err = r.open(ctx, r.w); err != nil {
		r.close()
		return report, err
	}
	defer r.close()
	if err := r.load(ctx); err != nil {
		return report, err
	}
	dir, err := os.MkdirTemp("", "freshet-replay-")
	if err != nil {
		return report, err
	}
	defer os.RemoveAll(dir)
	if r.srv, err = r.server(ctx, dir); err != nil {
		return report, err
	}
	defer r.srv.Close()
	ctx, stop := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() { over <- r.srv.Run(ctx) }()
	err = r.play(ctx)
	stop()
	if err = errors.Join(err, <-over); err != nil {
		return report, err
	}
	report = r.arrivals.Report()
	report.Policy, report.BudgetMS = r.policy, r.budget.Milliseconds()
	return report, nil
}

// server starts the server over the source's endpoint on a free port.
func (r *endToEnd) server(ctx context.Context, dir string) (*server.Server, error) {
	conf := config.Default()
	conf.Listen, conf.Data, conf.Contact = "127.0.0.1:0", dir, r.contact
	e := registry.Endpoint{Name: replayEndpoint, URL: r.url, Slot: scheduler.Never, Policy: r.policy,
		Budget: registry.Duration(r.budget), Timeout: registry.Duration(r.timeout)}
	if r.graph != "" {
		e.DefaultGraphURI = []string{r.graph}
	}
	conf.Endpoints = []registry.Endpoint{e}
	if err := conf.Check(); err != nil {
		return nil, err
	}
	return server.New(ctx, &conf, config.Log{Level: "error", Format: "auto"}.Logger(r.w))
}

// play registers and follows all queries and plays the revisions.
func (r *endToEnd) play(ctx context.Context) error {
	r.arrivals = bench.NewReplayCheck(len(r.list))
	r.memory = make([]scheduler.Memory, len(r.list))
	ask, err := r.client()
	if err != nil {
		return cli.UsageErrorf("--endpoint: %v", err)
	}
	defer ask.Close()
	admin := registry.Caller{Name: registry.Anonymous, Role: registry.RoleAdmin}
	for _, q := range r.list {
		got, _, err := r.srv.Registry.Register(admin, registry.Registration{Endpoint: replayEndpoint, Text: q.Text})
		if err != nil {
			return fmt.Errorf("register %s: %w", q.ID, err)
		}
		r.ids = append(r.ids, got.ID)
	}
	ctx, stop := context.WithCancel(ctx)
	followers := make(chan error, len(r.ids))
	for i := range r.ids {
		go func() { followers <- r.follow(ctx, i) }()
	}
	bar := progress(r.w, len(r.steps)+1, "replaying")
	err = r.revisions(ctx, ask, func() { bar.Add(1) })
	bar.Close()
	stop()
	for range r.ids {
		if e := <-followers; e != nil && !errors.Is(e, context.Canceled) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// follow records what a subscriber of a query receives.
func (r *endToEnd) follow(ctx context.Context, i int) error {
	held := false
	return client.Follow(ctx, client.Options{Server: r.srv.URL(), Query: r.ids[i]}, func(e client.Event) error {
		if e.Result != nil && (e.Kind == client.Snapshot || e.Kind == client.Delta) {
			r.arrivals.Receive(i, e.Result.Hash(), e.State.Seq, held && e.Kind == client.Delta)
			held = true
		}
		return nil
	})
}

func (r *endToEnd) revisions(ctx context.Context, ask scheduler.Executor, done func()) error {
	for rev := 0; rev <= len(r.steps); rev++ {
		changed := rev == 0
		if rev > 0 && r.steps[rev-1].Apply != nil {
			changed = true
			if err := r.steps[rev-1].Apply(ctx); err != nil {
				return err
			}
		}
		if changed {
			if err := r.truth(ctx, ask); err != nil {
				return err
			}
		}
		if err := r.tick(ctx); err != nil {
			return fmt.Errorf("revision %d: %w", rev, err)
		}
		done()
	}
	return nil
}

// truth executes all queries, bypassing the server.
func (r *endToEnd) truth(ctx context.Context, ask scheduler.Executor) error {
	for i := range r.list {
		a := ask.Execute(ctx, &r.list[i], r.memory[i], r.timeout)
		if err := ctx.Err(); err != nil {
			return err
		}
		if a.Outcome.Complete() {
			r.memory[i] = a.Memory
			if a.Result != nil {
				r.arrivals.SetTruth(i, a.Result.Hash())
			}
		}
	}
	return nil
}

// tick runs a slot and waits until the subscribers have received its changes.
func (r *endToEnd) tick(ctx context.Context) error {
	var s scheduler.Slot
	if err := r.srv.Call(ctx, http.MethodPost, "/v1/endpoints/"+replayEndpoint+"/tick", nil, &s); err != nil {
		return err
	}
	for i, id := range r.ids {
		var q struct {
			Seq uint64 `json:"seq"`
		}
		if err := r.srv.Call(ctx, http.MethodGet, "/v1/queries/"+id, nil, &q); err != nil {
			return err
		}
		for deadline := time.Now().Add(time.Minute); r.arrivals.ReceivedSeq(i) < q.Seq; time.Sleep(time.Millisecond) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("query %s: its subscriber has not received change %d within a minute", r.list[i].ID, q.Seq)
			}
		}
	}
	r.arrivals.EndSlot(s.Complete, s.Cut, s.Failed, s.Used)
	return nil
}
