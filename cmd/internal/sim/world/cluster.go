package main

// This file makes a cluster: servers that share a journal in memory, and what cuts them off from each other.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"

	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/cmd/internal/server"
	"github.com/freshet/freshet/cmd/internal/sim/plan"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock"
	"github.com/freshet/freshet/store/journal"
)

// address is where a node serves clients.
func (w *world) address(node int) string { return fmt.Sprint("127.0.0.1:", 8080+node) }

// server is the address of the node whose turn it is.
func (w *world) server() string { return w.address(int(w.turn.Load()) % max(w.Nodes, 1)) }

// inner is where a node serves the others.
func inner(node int) string { return fmt.Sprint("127.0.0.1:", 9100+node) }

// newOn is server.NewOn, which the product has in the simulation only.
var newOn func(ctx context.Context, conf *config.Config, log *slog.Logger, j journal.Journal, c *clock.Clock) (*server.Server, error)

// contact begins what nodes tell the endpoint of themselves, before their number.
const contact = "mailto:node"

// A cluster is a world with several servers.
type cluster struct{ *world }

// node runs a node, again after each time that it is down.
func (w cluster) node(ctx context.Context, i int) {
	go serve(inner(i), w.link(i))
	for ctx.Err() == nil {
		w.until(ctx, w.up(i))
		until := time.Duration(1 << 62)
		for _, o := range w.Outages {
			if o.Node == i && o.Kind != plan.Off && o.From > w.now() {
				until = min(until, o.From)
			}
		}
		here, leave := context.WithCancel(ctx)
		var files map[string][]byte // of a node that was killed, as they were then
		if until < 1<<62 {
			time.AfterFunc(until-w.now(), func() {
				if w.Out(i, plan.Dead, w.now()) {
					files = contents(nodeDir(i))
				}
				leave()
			})
		}
		err := w.runNode(here, i)
		for file, b := range files {
			if e := os.WriteFile(file, b, 0o600); e != nil {
				err = e
			}
		}
		if err == nil && here.Err() == nil {
			err = errors.New("it ended by itself")
		} else if here.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil // it was still starting
		}
		leave()
		if err != nil {
			w.write(plan.Event{Kind: plan.Failed, N: i, Text: fmt.Sprintf("node %d: %v", i, err)})
			w.until(ctx, w.now()+5*time.Second)
		} else {
			w.write(plan.Event{Kind: plan.Left, N: i})
		}
	}
}

// up is when a node that is down now starts.
func (w cluster) up(i int) time.Duration {
	at := w.now()
	for w.Out(i, plan.Down, at) || w.Out(i, plan.Dead, at) {
		at += time.Second
	}
	return at
}

func nodeDir(i int) string { return fmt.Sprint(data, "/n", i) }

// contents reads the files of a directory.
func contents(dir string) map[string][]byte {
	files := map[string][]byte{}
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		if b, err := os.ReadFile(dir + "/" + e.Name()); err == nil {
			files[dir+"/"+e.Name()] = b
		}
	}
	return files
}

func (w cluster) runNode(ctx context.Context, i int) error {
	dir := nodeDir(i)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	c := w.config(w.address(i), dir)
	c.Contact = fmt.Sprint(contact, i)
	c.Cluster = config.Cluster{Name: "sim", Node: fmt.Sprint("n", i), Role: "worker", Lease: registry.Duration(w.Lease),
		API: map[string]string{}}
	if w.Gateway && i == 0 {
		c.Cluster.Role = "gateway"
	}
	for k := range w.Nodes {
		c.Cluster.API[fmt.Sprint("n", k)] = "http://" + inner(k)
	}
	j := &link{Journal: w.journal.Open(), off: func() bool { return w.Out(i, plan.Off, w.now()) || w.Out(i, plan.Dead, w.now()) }}
	j.ends, j.end = context.WithCancel(context.Background())
	defer j.Close()
	log := newLog().With("node", i)
	s, err := newOn(ctx, c, log, j, clock.New(func() time.Time { return time.Now().Add(-w.Behind[i]) }, clock.Patience, log))
	if err != nil {
		return err
	}
	defer s.Close()
	w.write(plan.Event{Kind: plan.Joined, N: i})
	return s.Run(ctx)
}

// link passes the requests of other nodes to a node, unless it is cut off.
func (w cluster) link(i int) http.Handler {
	node := &url.URL{Scheme: "http", Host: w.address(i)} // which does not see that a proxy is in between
	to := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(node) }}
	to.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.Out(i, plan.Off, w.now()) || w.Out(i, plan.Dead, w.now()) {
			<-r.Context().Done()
			return
		}
		to.ServeHTTP(rw, r)
	})
}

// A link is a node's way to the journal. While it is off, calls wait.
type link struct {
	journal.Journal
	off  func() bool
	ends context.Context // when it is closed
	end  func()
	head journal.Position // the last one that was seen
	seen time.Time
}

// on waits until the link is on.
func (j *link) on(ctx context.Context) error {
	for j.off() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-j.ends.Done():
			return journal.ErrClosed
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// Close implements journal.Journal. It ends what waits for the link.
func (j *link) Close() error {
	j.end()
	return j.Journal.Close()
}

// Append implements journal.Journal. Of the commands that are sent while the link breaks, some arrive.
func (j *link) Append(ctx context.Context, id string, cmd []byte) (uint64, error) {
	if err := j.on(ctx); err != nil {
		return 0, err
	}
	seq, err := j.Journal.Append(ctx, id, cmd)
	if err == nil && j.off() {
		return 0, fmt.Errorf("%w: the link broke", journal.ErrUnknown)
	}
	return seq, err
}

// Read implements journal.Journal.
func (j *link) Read(ctx context.Context, after journal.Position, f func(journal.Entry) error) error {
	return j.Journal.Read(ctx, after, func(e journal.Entry) error {
		if err := j.on(ctx); err != nil {
			return err
		}
		return f(e)
	})
}

// Head implements journal.Journal. For a few seconds a node that is cut off gets what was the head.
func (j *link) Head(ctx context.Context) (journal.Position, error) {
	if j.off() && time.Since(j.seen) < 5*time.Second {
		return j.head, nil
	}
	if err := j.on(ctx); err != nil {
		return journal.Position{}, err
	}
	p, err := j.Journal.Head(ctx)
	if err == nil {
		j.head, j.seen = p, time.Now()
	}
	return p, err
}

// Old implements journal.Journal.
func (j *link) Old(ctx context.Context, bytes int64) (uint64, error) {
	if err := j.on(ctx); err != nil {
		return 0, err
	}
	return j.Journal.Old(ctx, bytes)
}

// Drop implements journal.Journal.
func (j *link) Drop(ctx context.Context, upTo uint64) error {
	if err := j.on(ctx); err != nil {
		return err
	}
	return j.Journal.Drop(ctx, upTo)
}
