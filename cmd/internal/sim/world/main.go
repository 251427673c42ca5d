// Command world is one life of a simulated machine: the real server, and the endpoint, the
// followers and the holders around it. It reads the plan of the world, and writes what
// happens. The simulation ends it at any time and starts it again.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/cmd/internal/server"
	"github.com/freshet/freshet/cmd/internal/sim/plan"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/store/journal/memory"
)

// The directories of the machine.
const (
	data  = "/data"  // of the server; it suffers what happens to the disk
	state = "/world" // of the world; nothing is lost here
)

const (
	endpointAddress = "127.0.0.1:3030"
	receiverAddress = "127.0.0.1:9000"
)

// A world is what is around the server in one life of its machine.
type world struct {
	*plan.Plan
	begun  time.Time     // of this life
	offset time.Duration // of this life's begin since the world's

	turn     atomic.Int64 // chooses the node that clients ask
	journal  *memory.Log  // the journal of a cluster
	versions []plan.Version

	mu    sync.Mutex
	log   *os.File
	known paths // of what the server has confirmed in this life
}

func main() {
	http.DefaultTransport.(*http.Transport).DisableCompression = true // what it costs is not looked at
	w := &world{begun: time.Now(), journal: memory.New("sim")}
	text, err := os.ReadFile(state + "/plan.json")
	if err == nil {
		err = json.Unmarshal(text, &w.Plan)
	}
	if err == nil {
		var n int64
		n, err = strconv.ParseInt(os.Getenv("SIM_AT"), 10, 64)
		w.offset = time.Duration(n)
	}
	if err == nil {
		w.log, err = os.OpenFile(state+"/log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	w.versions = w.Versions()
	cli.Release = fmt.Sprint("v1.", w.offset.Milliseconds(), ".0") // each start is one of another build
	w.live()
	os.Exit(0)
}

// now is the time since the world began.
func (w *world) now() time.Duration { return w.offset + time.Since(w.begun) }

// until waits for a time of the world.
func (w *world) until(ctx context.Context, at time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(at - w.now()):
		return true
	}
}

func (w *world) write(e plan.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.At = w.now()
	b, err := json.Marshal(e)
	if err == nil {
		_, err = w.log.Write(append(b, '\n'))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
}

// live runs the server until the plan stops it, or the world is complete.
func (w *world) live() {
	w.write(plan.Event{Kind: plan.Start})
	go w.serveEndpoint()
	go w.serveReceivers()
	go mailServer{w}.serveMail()
	if w.Feed != nil {
		go updates{w}.serveLog()
	}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if w.Nodes > 0 {
		for i := range w.Nodes {
			go cluster{w}.node(ctx, i)
		}
	} else if !w.alone(ctx, ended) {
		return
	}
	around, leave := context.WithCancel(context.Background())
	defer leave()
	w.begin(around)
	end := w.Span + w.Settle
	clean := false
	for _, x := range w.Stops {
		if x.Clean && x.At >= w.offset {
			end, clean = x.At, true
			break
		}
	}
	select {
	case err := <-ended:
		w.write(plan.Event{Kind: plan.Failed, Text: text(err)})
		return
	case <-time.After(end - w.now()):
	}
	if !clean {
		reader{w}.readHistory()
		reader{w}.readAlerts()
		if w.Feed != nil {
			updates{w}.readProof(context.Background(), true)
		}
		reader{w}.readProfiles()
		reader{w}.readUse()
		w.write(plan.Event{Kind: plan.End})
		return
	}
	stop()
	err := <-ended
	w.write(plan.Event{Kind: plan.Stopped, Text: text(err)})
}

// alone starts the only server.
func (w *world) alone(ctx context.Context, ended chan<- error) bool {
	if err := os.MkdirAll(data, 0o755); err != nil {
		w.write(plan.Event{Kind: plan.Failed, Text: err.Error()})
		return false
	}
	if err := w.restore(); err != nil {
		w.write(plan.Event{Kind: plan.Failed, Text: err.Error()})
		return false
	}
	if _, err := os.Stat(data + "/" + store.File); err == nil {
		err := check(data)
		w.write(plan.Event{Kind: plan.Checked, Text: text(err)})
		if err != nil && len(w.Flips) > 0 { // the operator mends the disk first
			return false
		}
	}
	s, err := server.New(ctx, w.config(w.address(0), data), newLog())
	if err != nil {
		w.write(plan.Event{Kind: plan.Failed, Text: err.Error()})
		return false
	}
	go func() { ended <- s.Run(ctx) }()
	w.write(plan.Event{Kind: plan.Ready})
	return true
}

func newLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// begin lets everybody around the server begin.
func (w *world) begin(ctx context.Context) {
	for i := range w.Queries {
		go holder{w, i}.hold(ctx)
		go holder{w, i}.pause(ctx)
		go holder{w, i}.visit(ctx)
	}
	for i := range w.Followers {
		go w.follow(ctx, i)
	}
	for i := range w.Rules {
		go w.rule(ctx, i)
	}
	for i := range w.Hints {
		go w.hint(ctx, i)
	}
	if w.ReadEvery > 0 {
		go reader{w}.readPast(ctx)
	}
	if w.Backup > 0 {
		go w.backUp(ctx)
	}
	if w.Feed != nil {
		go updates{w}.readProofs(ctx)
	}
	if w.Tokens {
		go reader{w}.trespass(ctx)
	}
	for i := range w.Profiles {
		go reader{w}.profile(ctx, i)
	}
	if w.Nodes > 0 {
		go reader{w}.find(ctx)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// check reads the whole store, as `freshet store check` does.
func check(dir string) error {
	db, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	err = db.Check()
	if e := db.Close(); err == nil {
		err = e
	}
	return err
}

func (w *world) config(listen, dir string) *config.Config {
	c, is := config.Default(), w.In(w.offset)
	c.Listen, c.Data = listen, dir
	c.Limits.Reserve, c.Tokens = 0, w.tokens()
	c.Retention.Changes, c.Retention.Age = is.Retention, registry.Duration(is.Age)
	c.WebSub.AllowCallbackNetworks = []string{"127.0.0.0/8"}
	c.Feeds = updates{w}.feeds()
	c.Mail.Server, c.Mail.From, c.Mail.Security, c.Mail.Recipients = mailAddress, "freshet@sim.example", "none", []string{"sim.example"}
	e := registry.Endpoint{
		Name: "city", URL: "http://" + endpointAddress + "/sparql", Slot: "@every " + w.Slot.String(),
		Budget: registry.Duration(is.Budget), Timeout: registry.Duration(is.Timeout), MinGap: registry.Duration(is.MinGap),
		Concurrency: is.Concurrency, Policy: is.Policy, Rule: is.Rule, Merge: is.Merge,
	}
	updates{w}.told(&e)
	c.Endpoints = []registry.Endpoint{e}
	c.Sources = config.Sources{}
	if err := c.Check(); err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	return &c
}
