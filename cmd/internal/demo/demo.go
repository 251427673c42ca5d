// Package demo runs the demo: a server with an embedded endpoint, a city whose data changes, sample queries and followers.
package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/cmd/internal/server"
	"github.com/freshet/freshet/cmd/internal/show"
	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/endpoint/local/city"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A demo is a server with its own endpoints, data, queries and followers.
type demo struct {
	listen, data, engine, slot string
	set                        func(name string) bool // whether the flag was given
	every                      time.Duration
	seed                       uint64
	changesets, nodes          int
	quiet, json                bool
}

// Command returns the command "demo".
func Command(w *cli.Env) *cobra.Command {
	var d demo
	c := &cobra.Command{
		Use: "demo", Short: "Try it: a server with an embedded endpoint, changing data and sample queries", Args: cobra.NoArgs,
		Long: `Runs the server with an embedded SPARQL endpoint over a simulated city (sensors,
departures, events), registers a hundred queries and a profile, and prints the
changes of 16 of them as they arrive. Two more endpoints show other situations: one has too
small a budget for its queries, one is unavailable at times. One client follows
over the WebSocket, another by a webhook. The demo takes 150 to 200 MB of memory.
It leaves no files behind unless --data names a directory. Webhooks and WebSub
callbacks may be on this machine.

With --nodes 3 it runs a cluster: three servers that share their data through an
embedded journal, on the port of --listen and the ones above it.`,
		Example: "  freshet demo\n  freshet demo --listen 127.0.0.1:9000 --every 1s --seed 7\n  freshet demo --nodes 3",
		RunE:    func(c *cobra.Command, _ []string) error { return d.run(c.Context(), w) },
	}
	f := c.Flags()
	d.set = f.Changed
	f.StringVar(&d.listen, "listen", "127.0.0.1:8080", "address to serve on")
	f.StringVar(&d.data, "data", "", "directory of the store (default: a temporary one, removed at the end)")
	f.StringVar(&d.engine, "engine", "", "engine file (default: the one in the program)")
	f.StringVar(&d.slot, "slot", "@every 3s", "schedule of the slots")
	f.DurationVar(&d.every, "every", 2*time.Second, "time between two changesets of the city")
	f.Uint64Var(&d.seed, "seed", 1, "seed of the city")
	f.IntVar(&d.changesets, "changesets", 0, "stop changing the data after this many changesets (0 = never)")
	f.IntVar(&d.nodes, "nodes", 1, "servers of the demo: 1, or 3 or 5 that form a cluster")
	f.BoolVar(&d.json, "json", false, "print each change as one JSON object a line, as the API does")
	f.BoolVar(&d.quiet, "quiet", false, "do not print the changes")
	return c
}

func (d demo) run(ctx context.Context, w *cli.Env) error {
	log := config.Log{Level: "error", Format: "auto"}.Logger(w) // the pages show the endpoint that fails on purpose
	if d.every <= 0 || d.changesets < 0 {
		return cli.UsageErrorf("--every is a time above 0s, --changesets 0 or more")
	}
	if d.nodes != 1 && d.nodes != 3 && d.nodes != 5 || d.nodes > 1 && d.data != "" {
		return cli.UsageErrorf("--nodes is 1, 3 or 5, and --data is for one node: a demo of a cluster uses a temporary directory")
	}
	ctx, ends := cli.UntilHangup(ctx)
	defer ends()
	fmt.Fprintln(w.Stderr, "starting the embedded SPARQL engine (a few seconds the first time)")
	town := city.New(d.seed)
	s, err := d.serveCity(ctx, w, town)
	defer s.stop()
	if err != nil {
		return err
	}
	conf, done, err := d.config(s.urls)
	if err != nil {
		return err
	}
	defer done()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	nodes, err := d.serve(ctx, conf, log)
	defer nodes.close()
	if err != nil {
		return err
	}
	srv := nodes[0]
	names, err := d.register(srv)
	if err != nil {
		return err
	}
	fmt.Fprintf(w.Stderr, `Freshet %s serving at %s
the city's own endpoint is %s, seed %d
%d queries of the city are shown here as they change, the pages show three endpoints: %s has time
for everything, %s too little for its queries, %s is down for 15 s of every 90 s; Ctrl-C ends
in another terminal: freshet follow %s --endpoint %s%s
%s
`,
		cli.Version(), srv.URL(), s.urls[cityEndpoint], d.seed, len(names), cityEndpoint, archiveEndpoint, partnerEndpoint,
		city.Entities+"gauge/007", cityEndpoint, elsewhere(srv.URL()), nodes.describe())
	const parts = 3
	live := make(chan error, parts)
	until := func(err error) { // the demo ends when one of its parts fails
		if err != nil {
			stop()
		}
		live <- err
	}
	go func() { until(d.live(ctx, town, s.engine)) }()
	go func() { until(d.applications(ctx, srv, nodes[len(nodes)-1])) }()
	go func() { until(d.print(ctx, w, srv, names)) }()
	err = nodes.run(ctx)
	stop()
	for range parts {
		if e := <-live; !errors.Is(e, syscall.EPIPE) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// elsewhere is the flag for a server that is not at the usual address.
func elsewhere(url string) string {
	if url == cli.UsualServer {
		return ""
	}
	return " --server " + url
}

func (d demo) config(urls map[string]string) (*config.Config, func(), error) {
	c := config.Default()
	c.Listen, c.Data = d.listen, d.data
	c.WebSub.AllowCallbackNetworks = []string{"127.0.0.0/8", "::1/128"} // to try callbacks on this machine
	done := func() {}
	if c.Data == "" {
		dir, err := os.MkdirTemp("", "freshet-demo-")
		if err != nil {
			return nil, nil, err
		}
		c.Data, done = dir, func() { os.RemoveAll(dir) }
	}
	c.Endpoints = d.endpoints(urls)
	c.Sources = config.Sources{}
	for _, name := range []string{"listen", "data"} {
		if d.set != nil && d.set(name) {
			c.Sources[name] = config.FromFlag
		}
	}
	if d.set != nil && d.set("slot") {
		for _, e := range c.Endpoints {
			c.Sources["endpoints."+e.Name+".slot"] = config.FromFlag
		}
	}
	err := c.Check()
	if err == nil && c.Safe() != nil {
		err = cli.UsageErrorf("--listen: the demo has no tokens: choose an address of this machine only, such as 127.0.0.1:9000")
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return &c, done, nil
}

// live changes the data of the city.
func (d demo) live(ctx context.Context, town *city.City, e *local.Engine) error {
	for n := 0; d.changesets == 0 || n < d.changesets; n++ {
		if removed, added := town.Next(); len(removed)+len(added) > 0 {
			if err := e.Update(ctx, city.Update(removed, added)); err != nil && ctx.Err() == nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(d.every):
		}
	}
	return nil
}

// print follows all changes and prints a line for each.
func (d demo) print(ctx context.Context, w *cli.Env, srv *server.Server, names map[string]string) error {
	if d.quiet {
		return nil
	}
	f := srv.Waker.FollowAll()
	defer f.Close()
	at, err := srv.Store.History.Head()
	if err != nil {
		return err
	}
	for {
		changes, err := srv.Store.History.All(at, 100)
		if err != nil {
			slog.Debug("reading the changes", "error", err)
			return err
		}
		for _, c := range changes {
			at.Seq = c.Offset
			if names[c.Query] == "" { // of another endpoint
				continue
			}
			if err := d.printChange(w, srv, names[c.Query], c); err != nil {
				return err
			}
		}
		if len(changes) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.C():
		}
	}
}

func (d demo) printChange(w *cli.Env, srv *server.Server, name string, c registry.Change) error {
	if !d.json {
		_, err := fmt.Fprintln(w.Stdout, show.Change(name, c, w.Color))
		return err
	}
	line, err := notify.MarshalChange(c, srv.Format())
	if err != nil {
		return err
	}
	_, err = w.Stdout.Write(append(line, '\n'))
	return err
}
