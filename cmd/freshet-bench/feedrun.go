package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/bench/stream"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/cmd/internal/server"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/formats"
	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
)

// A feedRun plays one stream.
type feedRun struct {
	feedOptions
	seed    uint64
	list    []stream.Query
	judge   *stream.Judge
	numbers map[string]int // of the queries, by id
	source  *stream.Server
	engine  *local.Engine
	conf    config.Config
	begun   time.Time
	pending chan published
	next    int64 // the position of the engine

	mu     sync.Mutex
	url    string // of the server, empty while there is none
	shares []float64
	counts execCount // of servers that were stopped
	after  string    // the last change that was heard
}

// A published is an edit that waits until the engine applies it.
type published struct {
	change stream.Change
	next   int64 // the position after it
	at     time.Time
}

// feedPositions are the positions that an endpoint tells: the setting, and the triple for a position.
var feedPositions = map[string]func(next int64, at time.Time) (setting, triple string){
	"offset": func(next int64, _ time.Time) (string, string) {
		return "updateStreamNextOffset", fmt.Sprintf(`<%sDump> <%supdateStreamNextOffset> %d .`, ontology, ontology, next)
	},
	"time": func(_ int64, at time.Time) (string, string) {
		const form = `<%sDump> <%supdatesCompleteUntil> "%s"^^<http://www.w3.org/2001/XMLSchema#dateTime> .`
		return "updatesCompleteUntil", fmt.Sprintf(form, ontology, ontology, at.UTC().Format(time.RFC3339Nano))
	},
	"none": func(int64, time.Time) (string, string) { return "", "" },
}

const ontology = "http://wikiba.se/ontology#"

func (r *feedRun) play(ctx context.Context, documents map[string][]stream.Triple) (*feedReport, error) {
	world := stream.NewWorld(r.seed, r.items, documents)
	r.list = world.Queries(r.queries)
	r.judge, r.numbers, r.pending = stream.NewJudge(r.list), map[string]int{}, make(chan published, r.events)
	r.source = stream.NewServer(r.seed, r.faults())
	log := config.Log{Level: "error", Format: "auto"}.Logger(r.w)
	e, err := cli.OpenEngine(ctx, r.feedOptions.engine, log)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	r.engine = e
	if err := r.load(ctx, world); err != nil {
		return nil, err
	}
	data, err := local.Listen(ctx, "127.0.0.1:0", local.Handler(e, local.HandlerOptions{Logger: log}))
	if err != nil {
		return nil, err
	}
	defer data.Close()
	wire, err := local.Listen(ctx, "127.0.0.1:0", r.source)
	if err != nil {
		return nil, err
	}
	defer wire.Close()
	dir, err := os.MkdirTemp("", "freshet-feed-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := r.configure(dir, data.URL, wire.URL); err != nil {
		return nil, err
	}
	return r.drive(ctx, world)
}

func (r *feedRun) faults() stream.Faults {
	if r.faultless {
		return stream.Faults{}
	}
	return stream.Faults{Drop: 0.1, Double: 0.1, Cut: r.virtual(15 * time.Minute), Disorder: r.virtual(5 * time.Minute),
		Canary: 100, Other: 0.05}
}

// load loads the beginning and sets the first truths.
func (r *feedRun) load(ctx context.Context, world *stream.World) error {
	var b bytes.Buffer
	world.Triples(func(t stream.Triple) { fmt.Fprintln(&b, t) })
	if _, triple := feedPositions[r.position](1, time.Now()); triple != "" {
		fmt.Fprintln(&b, triple)
	}
	if err := r.engine.Load(ctx, &b, "ttl"); err != nil {
		return err
	}
	r.next = 1
	all := make([]int, len(r.list))
	for i := range all {
		all[i] = i
	}
	return r.truths(ctx, all, 0, time.Now())
}

func (r *feedRun) configure(dir, data, wire string) error {
	r.conf = config.Default()
	r.conf.Listen, r.conf.Data = "127.0.0.1:0", dir
	slot := r.virtual(time.Minute)
	setting, _ := feedPositions[r.position](0, time.Time{})
	e := registry.Endpoint{Name: replayEndpoint, URL: data, Slot: "@every " + slot.String(), Budget: registry.Duration(slot),
		Concurrency: 1, Policy: "rr"}
	if !r.polling {
		e.Feed, e.Position, e.Lag = "stream", setting, registry.Duration(r.virtual(10*time.Minute))
		r.conf.Feeds = []feed.Definition{{Name: "stream", Kind: feed.Wikimedia, URL: wire, Topic: stream.Topic}}
	}
	r.conf.Endpoints = []registry.Endpoint{e}
	return r.conf.Check()
}

// drive runs the server, the stream and the engine until all edits are published, applied and known.
func (r *feedRun) drive(ctx context.Context, world *stream.World) (*feedReport, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	halt, err := r.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := settle(ctx, r.judge, time.Duration(len(r.list))*20*time.Millisecond+time.Minute); err != nil {
		return nil, errors.Join(fmt.Errorf("the first results: %w", err), halt())
	}
	quiet, live := context.WithCancel(ctx)
	defer live()
	go r.canaries(quiet)
	if err := sleepUntil(ctx, time.Now().Add(warm*r.virtual(time.Minute))); err != nil {
		return nil, errors.Join(err, halt())
	}
	first, before := r.executions(ctx), processorTime()
	r.begun = time.Now()
	var work sync.WaitGroup
	var applyErr, watchErr error
	done := make(chan struct{})
	work.Go(func() { r.publish(ctx, world) })
	work.Go(func() { applyErr = r.apply(ctx) })
	work.Go(func() { watchErr = r.watch(ctx, done) })
	for n := range r.restarts {
		at := time.Duration(float64(r.length()) * float64(n+1) / float64(r.restarts+1))
		if sleepUntil(ctx, r.begun.Add(at)) != nil {
			break
		}
		if err = halt(); err == nil {
			halt, err = r.start(ctx)
		}
		if err != nil {
			stop()
			break
		}
	}
	if err == nil {
		err = sleepUntil(ctx, r.begun.Add(r.length()+r.virtual(10*time.Minute)+time.Second))
	}
	_ = settle(ctx, r.judge, 10*r.virtual(time.Minute)+r.virtual(10*time.Minute)+30*time.Second) // what remains is lost
	seconds, count := time.Since(r.begun).Seconds(), r.executions(ctx).less(first)
	close(done)
	stop()
	work.Wait()
	used := processorTime() - before
	if err = errors.Join(err, halt(), applyErr, watchErr); err != nil {
		return nil, err
	}
	out := &feedReport{Report: r.judge.Report(), Seed: r.seed, Position: r.position, Polling: r.polling, Seconds: seconds}
	out.Executions, out.Causes, out.Processor = count.runs, count.causes, used.Seconds()
	out.Polled = int(seconds/r.virtual(time.Minute).Seconds()) * len(r.list)
	for _, s := range r.shares {
		out.Proved += s / float64(len(r.shares))
	}
	out.Connections, out.Messages = r.source.Sent()
	return out, nil
}

// warm is how many slots pass before a run counts: so many positions must be told until one is believed.
const warm = 15

// canaries keep the stream alive, also when no edits come, as a Wikibase is never silent.
func (r *feedRun) canaries(ctx context.Context) {
	for sleepUntil(ctx, time.Now().Add(r.virtual(15*time.Second))) == nil {
		r.source.Canary(time.Now())
	}
}

// length is how long edits are published.
func (r *feedRun) length() time.Duration {
	return time.Duration(float64(r.events) / float64(r.rate) * float64(time.Second))
}

// publish publishes the edits at their rate, and forgets once what is kept.
func (r *feedRun) publish(ctx context.Context, world *stream.World) {
	defer close(r.pending)
	for n := range r.events {
		if sleepUntil(ctx, r.begun.Add(time.Duration(float64(n)/float64(r.rate)*float64(time.Second)))) != nil {
			return
		}
		p := published{change: world.Next(), at: time.Now()}
		p.next = r.source.Publish(&p.change, p.at) + 1
		r.pending <- p
		if n == r.events/3 && !r.faultless {
			r.source.Forget(time.Second)
		}
	}
}

// lag is how late the engine is at a time: it changes slowly between nothing and ten minutes.
func (r *feedRun) lag(t time.Time) time.Duration {
	x := 0.5 - 0.5*math.Cos(2*math.Pi*t.Sub(r.begun).Seconds()/r.virtual(time.Hour).Seconds())
	return time.Duration(x * float64(r.virtual(10*time.Minute)) * 0.9)
}

// apply applies the edits to the engine, in order and late.
func (r *feedRun) apply(ctx context.Context) error {
	var batch []published
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := r.applyAll(ctx, batch)
		batch = nil
		return err
	}
	for p := range r.pending {
		if due := p.at.Add(r.lag(p.at)); len(batch) > 0 && time.Now().Before(due) {
			if err := flush(); err != nil {
				return err
			}
		}
		if err := sleepUntil(ctx, p.at.Add(r.lag(p.at))); err != nil {
			return nil
		}
		if batch = append(batch, p); len(batch) >= 50 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// applyAll applies edits in one update and finds what is true after it.
func (r *feedRun) applyAll(ctx context.Context, batch []published) error {
	net := map[stream.Triple]bool{}
	for _, p := range batch {
		for _, t := range p.change.Remove {
			net[t] = false
		}
		for _, t := range p.change.Insert {
			net[t] = true
		}
	}
	var remove, insert strings.Builder
	touched := make([]stream.Triple, 0, len(net))
	for t, there := range net {
		to := &remove
		if there {
			to = &insert
		}
		to.WriteString(t.String() + "\n")
		touched = append(touched, t)
	}
	last := batch[len(batch)-1]
	text := "DELETE DATA {" + remove.String() + "};\nINSERT DATA {" + insert.String()
	if _, triple := feedPositions[r.position](last.next, last.at); triple != "" {
		text = "DELETE WHERE { <" + ontology + "Dump> ?p ?o };\n" + text + triple
	}
	if err := r.engine.Update(ctx, text+"}"); err != nil {
		return err
	}
	from := r.next
	r.next = last.next
	if err := r.truths(ctx, r.judge.Touched(touched), from, time.Now()); err != nil {
		return err
	}
	r.judge.Applied(r.next, len(batch))
	return nil
}

// truths executes queries, bypassing the server. Only the results that differ are read.
func (r *feedRun) truths(ctx context.Context, queries []int, from int64, at time.Time) error {
	for _, i := range queries {
		form := diff.Form("SELECT")
		b, err := r.engine.Query(ctx, r.list[i].Text, "json", nil, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", r.list[i].Text, err)
		}
		res, _, err := formats.Decode(formats.JSON, b, form, diff.Options{})
		if err != nil {
			return err
		}
		r.judge.True(i, res.Hash(), from, r.next, at)
	}
	return nil
}

// start starts a server. halt stops it.
func (r *feedRun) start(ctx context.Context) (halt func() error, err error) {
	conf := r.conf
	s, err := server.New(ctx, &conf, config.Log{Level: "error", Format: "auto"}.Logger(r.w))
	if err != nil {
		return nil, err
	}
	for i, q := range r.list {
		if len(r.numbers) == len(r.list) {
			break
		}
		admin := registry.Caller{Name: registry.Anonymous, Role: registry.RoleAdmin}
		got, _, err := s.Registry.Register(admin, registry.Registration{Endpoint: replayEndpoint, Text: q.Text})
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("register %s: %w", q.Text, err)
		}
		r.numbers[got.ID] = i
	}
	run, stop := context.WithCancel(ctx)
	over := make(chan error, 2)
	go func() { over <- s.Run(run) }()
	r.setURL(s.URL())
	go func() { over <- r.follow(run, s.URL()) }()
	return func() error {
		count := r.executions(ctx)
		r.setURL("")
		r.mu.Lock()
		r.counts = count
		r.mu.Unlock()
		stop()
		err := errors.Join(<-over, <-over)
		s.Close()
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		return err
	}, nil
}

func (r *feedRun) setURL(u string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.url = u
}

// A toldChange is an event of the stream of changes.
type toldChange struct {
	Query    string  `json:"query"`
	Seq      uint64  `json:"seq"`
	Hash     string  `json:"hash"`
	Previous *string `json:"previous_hash"`
}

// follow hears all changes of a server, those before too.
func (r *feedRun) follow(ctx context.Context, at string) error {
	r.mu.Lock()
	after := r.after
	r.mu.Unlock()
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/v1/changes?limit=1000&after="+url.QueryEscape(after), nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		var page struct {
			Changes []toldChange `json:"changes"`
			Next    string       `json:"next"`
		}
		err = json.NewDecoder(resp.Body).Decode(&page)
		resp.Body.Close()
		if err != nil {
			return err
		}
		now := time.Now()
		for _, c := range page.Changes {
			previous := ""
			if c.Previous != nil {
				previous = *c.Previous
			}
			r.judge.Receive(r.numbers[c.Query], c.Hash, previous, c.Seq, now)
		}
		r.mu.Lock()
		r.after = page.Next
		r.mu.Unlock()
		if after == page.Next {
			if err := sleepUntil(ctx, now.Add(50*time.Millisecond)); err != nil {
				return nil
			}
		}
		after = page.Next
	}
	return nil
}

// watch looks at proofs from time to time.
func (r *feedRun) watch(ctx context.Context, done <-chan struct{}) error {
	cursor, proved, seen := "", 0, 0
	minute := max(r.virtual(time.Minute), time.Second) + r.virtual(time.Minute)
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return nil
		case <-time.After(500 * time.Millisecond):
		}
		r.mu.Lock()
		at := r.url
		r.mu.Unlock()
		var page struct {
			Queries []struct {
				ID     string      `json:"id"`
				Hash   string      `json:"hash"`
				Proved *feed.Proof `json:"proved"`
			} `json:"queries"`
			Next string `json:"next"`
		}
		if at == "" || getJSON(ctx, at+"/v1/queries?limit=500&cursor="+cursor, &page) != nil {
			continue
		}
		now := time.Now()
		for _, q := range page.Queries {
			seen++
			if p := q.Proved; p != nil && !p.Until.IsZero() {
				r.judge.Claim(r.numbers[q.ID], q.Hash, p.Position.Offset)
				if now.Sub(p.Until) < minute {
					proved++
				}
			}
		}
		if cursor = page.Next; cursor == "" && seen > 0 {
			r.shares = append(r.shares, float64(proved)/float64(seen))
			proved, seen = 0, 0
		}
	}
}

func getJSON(ctx context.Context, at string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// An execCount counts executions of the servers of a run, by why the results were not proved.
type execCount struct {
	runs   int
	causes map[string]int
}

// less returns what was added since an earlier count.
func (c execCount) less(was execCount) execCount {
	out := execCount{c.runs - was.runs, map[string]int{}}
	for cause, n := range c.causes {
		out.causes[cause] = n - was.causes[cause]
	}
	return out
}

// executions returns how many executions the servers of the run have made.
func (r *feedRun) executions(ctx context.Context) execCount {
	r.mu.Lock()
	at, n := r.url, r.counts
	r.mu.Unlock()
	n.causes = maps.Clone(n.causes)
	if n.causes == nil {
		n.causes = map[string]int{}
	}
	if at == "" {
		return n
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/metrics", nil)
	if err != nil {
		return n
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return n
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(io.LimitReader(resp.Body, 10<<20))
	for in.Scan() {
		var x float64
		line := in.Text()
		if _, err := fmt.Sscan(line[strings.LastIndexByte(line, ' ')+1:], &x); err != nil {
			continue
		}
		switch {
		case strings.HasPrefix(line, "freshet_executions_total{") && !strings.Contains(line, `result="skipped"`):
			n.runs += int(x)
		case strings.HasPrefix(line, "freshet_feed_executions_total{"):
			_, cause, _ := strings.Cut(line, `cause="`)
			cause, _, _ = strings.Cut(cause, `"`)
			n.causes[cause] += int(x)
		}
	}
	return n
}

func sleepUntil(ctx context.Context, t time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(t)):
		return nil
	}
}
