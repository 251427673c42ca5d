package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/diff"
)

// A follower keeps one result up to date over any number of connections.
type follower struct {
	opts    Options
	address string
	fn      func(Event) error

	// State that is kept between connections.
	state  State // without Document, which Result holds
	result *diff.Result
	known  bool // state is a position to resume from
	stale  bool // by the last status

	// State of one connection.
	conn       *websocket.Conn
	progressed bool   // the server answered a subscribe
	id         string // of the present subscription; messages to others are stale
	subs       int
	parts      []message
}

// A message is any message of the server; Type says which fields count.
type message struct {
	Type         string          `json:"type"`
	ID           string          `json:"id"`
	Query        string          `json:"query"`
	Epoch        string          `json:"epoch"`
	Prev         uint64          `json:"prev"`
	Seq          uint64          `json:"seq"`
	Time         time.Time       `json:"time"`
	CheckedAt    time.Time       `json:"checked_at"`
	Form         diff.Form       `json:"form"`
	Ordered      bool            `json:"ordered"`
	Baseline     bool            `json:"baseline"`
	Jaccard      float64         `json:"jaccard"`
	Hash         string          `json:"hash"`
	PreviousHash string          `json:"previous_hash"`
	Added        json.RawMessage `json:"added"`
	Removed      json.RawMessage `json:"removed"`
	AddedAt      []int           `json:"added_at"`
	RemovedAt    []int           `json:"removed_at"`
	Boolean      bool            `json:"boolean"`
	Previous     bool            `json:"previous"`
	Results      json.RawMessage `json:"results"`
	Part         int             `json:"part"`
	Last         bool            `json:"last"`
	Resumed      bool            `json:"resumed"`
	Reason       string          `json:"reason"`
	State        string          `json:"state"`
	Error        string          `json:"error"`
	Code         string          `json:"code"`
	Message      string          `json:"message"`

	raw json.RawMessage
}

func (f *follower) load(s State) error {
	f.state, f.known = s, true
	f.state.Document = nil
	if len(s.Document) == 0 && s.Seq == 0 {
		return nil
	}
	r, err := diff.Decode(s.Document, s.Form, s.Ordered)
	if err != nil {
		return fmt.Errorf("state to go on from: %w", err)
	}
	f.result = r
	return nil
}

// connect serves one connection until it ends.
func (f *follower) connect(ctx context.Context) error {
	f.progressed = false
	conn, resp, err := f.dialer().DialContext(ctx, f.address, nil)
	if err != nil {
		if resp != nil {
			return fmt.Errorf("%w: %s", err, strings.TrimSpace(resp.Status+" "+resp.Header.Get("Location")))
		}
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	f.conn, f.parts = conn, nil
	if err := f.send(map[string]any{"type": "init", "token": f.opts.Token, "client": "freshet/notify/client"}); err != nil {
		return err
	}
	quiet := func() { conn.SetReadDeadline(time.Now().Add(silence)) }
	answer := conn.PingHandler()
	conn.SetPingHandler(func(data string) error {
		quiet()
		return answer(data)
	})
	for {
		quiet()
		_, r, err := conn.NextReader()
		if err != nil {
			return err
		}
		b, err := io.ReadAll(reading{r, quiet})
		if err != nil {
			return err
		}
		m := message{raw: b}
		if err := json.Unmarshal(b, &m); err != nil {
			return fmt.Errorf("message of the server: %w", err)
		}
		if err := f.handle(&m); err != nil {
			return err
		}
	}
}

// silence is how long a line may bring nothing: the server pings every 25 s, but not in the middle of a message.
var silence = 70 * time.Second

// reading calls before before each read.
type reading struct {
	io.Reader
	before func()
}

func (r reading) Read(p []byte) (int, error) {
	r.before()
	return r.Reader.Read(p)
}

func (f *follower) send(v any) error {
	f.conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
	return f.conn.WriteJSON(v)
}

func (f *follower) handle(m *message) error {
	if m.Type == "ready" {
		return f.subscribe()
	}
	if m.ID != f.id && (m.ID != "" || m.Type != "error") {
		return nil // of a subscription that was given up
	}
	switch m.Type {
	case "subscribed":
		return f.subscribed(m)
	case "snapshot":
		return f.snapshot(m)
	case "delta":
		return f.delta(m)
	case "alive":
		return f.alive(m)
	case "status":
		f.stale = m.State == "stale"
		return f.emit(Event{Kind: Status, Health: m.State, Reason: m.Reason, Error: m.Error, CheckedAt: m.CheckedAt, Raw: m.raw})
	case "complete":
		return fmt.Errorf("%w: %s", ErrCompleted, ending(m.Reason))
	case "error":
		err := &RefusedError{m.Code, m.Message}
		if m.Code == "unavailable" || m.Code == "limit" {
			return fmt.Errorf("for now: %s", err) // not final
		}
		return err
	}
	return nil // something newer than this client
}

func ending(reason string) string {
	switch reason {
	case "released":
		return "no holder has the query any more"
	case "dropped":
		return "an operator ended it at the server"
	}
	return reason
}

// subscribe resumes from the current position. A new id each time separates the
// messages of the old subscription from those of the new one.
func (f *follower) subscribe() error {
	f.subs++
	f.id, f.parts = "s"+strconv.Itoa(f.subs), nil
	m := map[string]any{"type": "subscribe", "id": f.id, "query": f.opts.Query}
	if f.opts.Query == "" {
		m["query"] = map[string]string{"endpoint": f.opts.Endpoint, "sparql": f.opts.SPARQL}
	}
	if f.known {
		m["resume"] = map[string]any{"epoch": f.state.Epoch, "seq": f.state.Seq}
	}
	if f.opts.Rate > 0 {
		m["rate"] = f.opts.Rate.String()
	}
	return f.send(m)
}

// again replaces the current subscription by a new one from the current position.
func (f *follower) again() error {
	if err := f.send(map[string]any{"type": "unsubscribe", "id": f.id}); err != nil {
		return err
	}
	return f.subscribe()
}

func (f *follower) subscribed(m *message) error {
	f.progressed = true
	f.state.Query = m.Query
	if !m.Resumed {
		f.known, f.result = false, nil
		f.state = State{Query: m.Query, Epoch: m.Epoch, Form: m.Form, Ordered: m.Ordered}
		f.known = m.Seq == 0 // else a snapshot follows
	}
	err := f.emit(Event{Kind: Subscribed, Resumed: m.Resumed, Empty: m.Seq == 0, Reason: m.Reason, Raw: m.raw})
	if err != nil || !f.stale {
		return err
	}
	f.stale = false // each subscription begins as live
	return f.emit(Event{Kind: Status, Health: "live", Raw: fmt.Appendf(nil, `{"type":"status","id":%q,"state":"live"}`, f.id)})
}

// snapshot collects the parts of a result and replaces the old one.
func (f *follower) snapshot(m *message) error {
	if m.Part <= 1 {
		f.parts = nil // what was cut, or replaced on its way, comes again from its beginning
	}
	f.parts = append(f.parts, *m)
	if m.Part > 0 && !m.Last {
		return nil
	}
	r, err := assemble(f.parts)
	f.parts = nil
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	f.move(m, r)
	return f.moved(Event{Kind: Snapshot, Time: m.Time, CheckedAt: m.CheckedAt, Raw: m.raw}, m)
}

func assemble(parts []message) (*diff.Result, error) {
	m := parts[0]
	d := &diff.Delta{Form: m.Form, Ordered: m.Ordered, Baseline: true, NewHash: m.Hash}
	if m.Form == diff.Ask {
		var ask struct{ Boolean bool }
		if err := json.Unmarshal(m.Results, &ask); err != nil {
			return nil, err
		}
		d.Boolean = ask.Boolean
		return d.Apply(nil)
	}
	for _, p := range parts {
		vars, rows, err := diff.ParseRowsJSON(m.Form, p.Results)
		if err != nil {
			return nil, err
		}
		d.Vars, d.OldVars = vars, vars
		d.Added = append(d.Added, rows...)
	}
	if d.Ordered {
		d.AddedAt = make([]int, len(d.Added))
		for i := range d.AddedAt {
			d.AddedAt[i] = i
		}
	}
	return d.Apply(nil)
}

// delta implements rule 1: apply a change that continues from here, drop a known one,
// and subscribe again from here after any other.
func (f *follower) delta(m *message) error {
	if f.known && m.Epoch == f.state.Epoch && m.Seq <= f.state.Seq {
		return nil
	}
	if !f.known || m.Epoch != f.state.Epoch || m.Prev != f.state.Seq {
		return f.again()
	}
	d, err := m.delta()
	if err != nil {
		return fmt.Errorf("delta: %w", err)
	}
	r, err := d.Apply(f.result)
	if err != nil { // we are not where we thought: begin again
		f.known, f.result = false, nil
		return f.again()
	}
	f.move(m, r)
	return f.moved(Event{Kind: Delta, Delta: d, Prev: m.Prev, Time: m.Time, CheckedAt: m.CheckedAt, Raw: m.raw}, m)
}

func (m *message) delta() (*diff.Delta, error) {
	d := &diff.Delta{Form: m.Form, Ordered: m.AddedAt != nil, Baseline: m.Baseline, Jaccard: m.Jaccard,
		Boolean: m.Boolean, Previous: m.Previous, OldHash: m.PreviousHash, NewHash: m.Hash,
		AddedAt: m.AddedAt, RemovedAt: m.RemovedAt}
	if m.Form == diff.Ask {
		return d, nil
	}
	return d, errors.Join(d.SetAdded(m.Added), d.SetRemoved(m.Removed))
}

func (f *follower) move(m *message, r *diff.Result) {
	f.result, f.known = r, true
	f.state.Epoch, f.state.Seq = m.Epoch, m.Seq
	f.state.Form, f.state.Ordered = r.Form(), r.Ordered()
}

// moved reports a new position, and acknowledges it after fn has returned.
func (f *follower) moved(e Event, m *message) error {
	if err := f.emit(e); err != nil || !f.opts.Ack {
		return err
	}
	return f.send(map[string]any{"type": "ack", "id": f.id, "seq": m.Seq})
}

// alive may move past changes that cancelled out.
func (f *follower) alive(m *message) error {
	if f.known && (m.Epoch != f.state.Epoch || m.Seq < f.state.Seq) {
		return f.again()
	}
	f.state.Epoch, f.state.Seq = m.Epoch, m.Seq
	return f.emit(Event{Kind: Alive, CheckedAt: m.CheckedAt, Raw: m.raw})
}

func (f *follower) emit(e Event) error {
	e.State, e.Result = f.state, f.result
	if e.Result != nil {
		e.State.Document = e.Result.Document()
	}
	if err := f.fn(e); err != nil {
		return &handlerError{err}
	}
	return nil
}
