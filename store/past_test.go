package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"go.etcd.io/bbolt"
)

// An oldState is a state that a test remembers.
type oldState struct {
	document []byte
	hash     string
	at       time.Time
}

// A pastTest makes histories of four queries, one of each kind, and remembers all states.
type pastTest struct {
	*testing.T
	rnd    *rand.Rand
	dir    string
	opts   Options
	d      *DB
	now    time.Time
	slot   uint64
	states map[string][]oldState // by query; the state after change n at n-1
	rows   map[string][]int
}

var pastForms = map[string]struct {
	form    diff.Form
	ordered bool
}{"q_bag": {diff.Select, false}, "q_list": {diff.Select, true}, "q_ask": {diff.Ask, false}, "q_graph": {diff.Construct, false}}

func newPastTest(t *testing.T, seed uint64, o Options) *pastTest {
	t.Logf("seed %d", seed)
	p := &pastTest{T: t, rnd: rand.New(rand.NewPCG(seed, 1)), dir: t.TempDir(), now: start, states: map[string][]oldState{},
		rows: map[string][]int{}}
	o.Now = func() time.Time { return p.now }
	p.opts = o
	p.d = open(t, p.dir, o)
	for id := range pastForms {
		put(t, p.d, id, "city")
	}
	return p
}

// result returns a result with a row for each number. Some rows have blank nodes.
func (p *pastTest) result(id string, numbers []int) *diff.Result {
	kind := pastForms[id]
	b := diff.NewBuilder(kind.form, diff.Options{Ordered: kind.ordered})
	iri := func(n int) diff.Term { return diff.Term{Kind: diff.IRI, Value: fmt.Sprint("http://x/", n)} }
	node := func(n int) diff.Term {
		if n%3 > 0 {
			return iri(n)
		}
		return diff.Term{Kind: diff.Blank, Value: fmt.Sprint("n", n%7, "x", len(numbers))}
	}
	var errs []error
	switch {
	case kind.form == diff.Ask:
		errs = append(errs, b.SetBoolean(len(numbers)%2 == 0))
	case kind.form.Graph():
		for _, n := range numbers {
			errs = append(errs, b.Triple(node(n), iri(0), node(n/2)))
		}
	default:
		vars := []string{"a", "b"}
		if len(numbers)%10 == 9 { // the head may change, too
			vars = []string{"a"}
		}
		errs = append(errs, b.SetVars(vars))
		for _, n := range numbers {
			errs = append(errs, b.Row([]diff.Term{node(n), {Kind: diff.Literal, Value: fmt.Sprint(n / 2)}}[:len(vars)]...))
		}
	}
	r, err := b.Finish()
	if err := errors.Join(append(errs, err)...); err != nil {
		p.Fatal(err)
	}
	return r
}

// change edits a few rows of a query, or many, or none.
func (p *pastTest) change(id string) {
	rows := p.rows[id]
	edits := p.rnd.IntN(3)
	if p.rnd.IntN(20) == 0 {
		edits = 40
	}
	for range edits {
		if i := p.rnd.IntN(len(rows) + 1); i < len(rows) && p.rnd.IntN(len(rows)) > 8 {
			rows = append(rows[:i:i], rows[i+1:]...)
		} else {
			rows = append(rows[:i:i], append([]int{p.rnd.IntN(30)}, rows[i:]...)...)
		}
	}
	if len(rows) > 1 && p.rnd.IntN(4) == 0 {
		rows = append(rows[1:len(rows):len(rows)], rows[0])
	}
	p.rows[id] = rows
	p.slot++
	r := p.result(id, rows)
	changes, err := p.d.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{next(p, p.d, id, p.slot, r)}})
	if err != nil {
		p.Fatal(err)
	}
	if len(changes) > 0 {
		p.states[id] = append(p.states[id], oldState{r.Document(), r.Hash(), changes[0].Time})
	}
}

// verify compares all states that can be read with those remembered, and finds that others
// are refused.
func (p *pastTest) verify(id string) (snapshots int) {
	p.Helper()
	states := p.states[id]
	if len(states) == 0 {
		return 0
	}
	ctx := p.Context()
	last, err := p.d.History.Place(id, registry.Moment{Time: p.now})
	if err != nil || last.Seq != uint64(len(states)) {
		p.Fatalf("%s is at %d, want %d: %v", id, last.Seq, len(states), err)
	}
	var before *diff.Result
	for i, want := range states {
		at := registry.Position{Epoch: last.Epoch, Seq: uint64(i + 1)}
		got, err := p.d.History.StateAt(ctx, id, at)
		if at.Seq < last.First.Seq {
			if gap(err) != registry.TooOld {
				p.Fatalf("%s: state %d is older than the log: %v", id, at.Seq, err)
			}
			continue
		}
		if err != nil {
			p.Fatalf("%s: state %d of %d: %v", id, at.Seq, last.Seq, err)
		}
		if !bytes.Equal(got.Document(), want.document) || got.Hash() != want.hash {
			p.Fatalf("%s: state %d of %d is %s, want %s", id, at.Seq, last.Seq, got.Document(), want.document)
		}
		if then, err := p.d.History.Place(id, registry.Moment{Time: want.at}); err != nil || p.opts.Now != nil &&
			!states[then.Seq-1].at.Equal(want.at) {
			p.Fatalf("%s: at %s the state is %d, want %d: %v", id, want.at, then.Seq, at.Seq, err)
		}
		if before != nil { // the difference leads from one state to the next
			if net := diff.Compare(before, got); net != nil {
				if again, err := net.Apply(before); err != nil || again.Hash() != want.hash {
					p.Fatalf("%s: the difference up to %d: %v", id, at.Seq, err)
				}
			}
		}
		before = got
	}
	p.routes(id, last)
	return p.snapshots()
}

// routes reads states along every route, whichever is the shortest.
func (p *pastTest) routes(id string, last registry.Place) {
	p.Helper()
	for seq := last.First.Seq; seq <= last.Seq; seq++ {
		var routes []route
		if err := p.d.Ledger.view(func(tx *bbolt.Tx) error {
			h, err := p.d.History.historyOf(tx, id)
			if err != nil {
				return err
			}
			back := route{serial: h.record.serial, back: true}
			back.next, back.base = h.later(seq + 1)
			back.base = bytes.Clone(back.base)
			if seq < last.Seq {
				back.left = back.next - seq
				routes = append(routes, back)
			}
			if from, base, ok := h.earlier(seq); ok {
				routes = append(routes, route{serial: h.record.serial, base: bytes.Clone(base), next: from + 1, left: seq - from})
			}
			return nil
		}); err != nil {
			p.Fatal(err)
		}
		for _, r := range routes {
			if got, err := p.d.History.travel(p.Context(), r); err != nil || got.Hash() != p.states[id][seq-1].hash {
				p.Fatalf("%s: state %d from %d, back: %t: %v", id, seq, r.next, r.back, err)
			}
		}
	}
}

func (p *pastTest) snapshots() (n int) {
	p.d.Ledger.view(func(tx *bbolt.Tx) error {
		n = tx.Bucket(bSnapshots).Stats().KeyN
		return nil
	})
	return n
}

// Every state that the log reaches is exactly what it was, whatever the retention, over
// restarts.
func TestPastStatesAreExact(t *testing.T) {
	for seed, o := range []Options{{}, {Retention: Retention{Changes: 30}}, {Retention: Retention{Bytes: 20_000}},
		{Retention: Retention{Age: time.Hour}}} {
		t.Run(fmt.Sprint(o.Retention), func(t *testing.T) {
			p := newPastTest(t, uint64(seed)+7, o)
			most := 0
			for n := range 120 {
				for id := range pastForms {
					p.change(id)
				}
				if p.rnd.IntN(3) > 0 { // otherwise changes have the same time
					p.now = p.now.Add(time.Duration(p.rnd.IntN(120)) * time.Second)
				}
				if n%40 == 39 {
					p.d = reopen(t, p.d, p.dir, p.opts)
					check(t, p.d)
					for id := range pastForms {
						most = max(most, p.verify(id))
					}
				}
			}
			if most < 4 {
				t.Errorf("there were %d snapshots: the test says little", most)
			}
		})
	}
}

// Moments that no state belongs to are refused with the reason.
func TestPastMoments(t *testing.T) {
	now := start
	dir := t.TempDir()
	o := Options{Retention: Retention{Changes: 3}, Now: func() time.Time { return now }}
	d := open(t, dir, o)
	put(t, d, "q_a", "city")
	put(t, d, "q_new", "city")
	for i := range 5 {
		step(t, d, "city", "q_a", uint64(i+1), fmt.Sprint(i))
		now = now.Add(time.Minute)
	}
	at := func(m registry.Moment) string {
		p, err := d.History.Place("q_a", m)
		if problem := (*registry.Problem)(nil); errors.As(err, &problem) {
			return string(problem.Kind)
		}
		if err != nil {
			return gap(err)
		}
		return fmt.Sprint(p.First.Seq, p.Prev.Seq, p.Seq, p.Next.Seq, p.Last.Seq)
	}
	last, err := d.History.Place("q_a", registry.Moment{Time: now})
	if err != nil {
		t.Fatal(err)
	}
	seq := func(n uint64) registry.Moment { return registry.Moment{Position: registry.Position{Seq: n}} }
	when := func(d time.Duration) registry.Moment { return registry.Moment{Time: start.Add(d)} }
	for _, x := range []struct {
		m    registry.Moment
		want string
	}{
		{seq(5), "3 4 5 0 5"}, {seq(4), "3 3 4 5 5"}, {seq(3), "3 0 3 4 5"},
		{seq(2), registry.TooOld}, {seq(0), registry.TooOld}, {seq(6), "not-found"},
		{when(24 * time.Hour), "3 4 5 0 5"}, {when(3 * time.Minute), "3 3 4 5 5"}, {when(3*time.Minute - 1), "3 0 3 4 5"},
		{when(2 * time.Minute), "3 0 3 4 5"}, {when(2*time.Minute - 1), registry.TooOld}, {when(-time.Hour), registry.TooOld},
		{registry.Moment{Position: registry.Position{Epoch: last.Epoch, Seq: 4}}, "3 3 4 5 5"},
		{registry.Moment{Position: registry.Position{Epoch: "other", Seq: 4}}, registry.OtherEpoch},
	} {
		if got := at(x.m); got != x.want {
			t.Errorf("%+v: %s, want %s", x.m, got, x.want)
		}
	}
	if _, err := d.History.Place("q_new", seq(0)); err == nil || gap(err) == registry.TooOld {
		t.Errorf("a query without a result: %v", err)
	}
	if _, err := d.History.Place("q_none", seq(1)); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("an unknown query: %v", err)
	}
	if list, err := d.History.Versions("q_a", 3, 10); err != nil || len(list) != 2 || list[0].Seq != 4 ||
		!list[0].Time.Equal(start.Add(3*time.Minute)) {
		t.Errorf("the versions after 3: %+v, %v", list, err)
	}

	// A new epoch keeps the newest state only. The next change stores the whole result again.
	if err := d.Ledger.update(newEpoch); err != nil {
		t.Fatal(err)
	}
	d = reopen(t, d, dir, o)
	if got := at(seq(5)) + ", " + at(seq(4)) + ", " + at(registry.Moment{Time: now.Add(time.Hour)}); got != "5 0 5 0 5, too_old, 5 0 5 0 5" {
		t.Errorf("after a new epoch: %s", got)
	}
	step(t, d, "city", "q_a", 6, "six")
	step(t, d, "city", "q_a", 7, "seven")
	last, err = d.History.Place("q_a", seq(6))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := d.History.StateAt(t.Context(), "q_a", last.Position); err != nil || r.Hash() != bag(t, "six").Hash() {
		t.Errorf("the first state of the epoch: %v", err)
	}
	check(t, d)
}

// The origin of a row is the change that last added it.
func TestOrigins(t *testing.T) {
	d := open(t, t.TempDir(), Options{Retention: Retention{Changes: 4}})
	put(t, d, "q_a", "city")
	for i, values := range [][]string{{"old"}, {"old", "a"}, {"old", "a", "b"}, {"old", "b"}, {"old", "b", "a"}, {"old", "b", "a", "a"}} {
		step(t, d, "city", "q_a", uint64(i+1), values...)
	}
	last, err := d.History.Place("q_a", registry.Moment{Position: registry.Position{Seq: 6}})
	if err != nil {
		t.Fatal(err)
	}
	find := func(seq uint64) string {
		at := registry.Position{Epoch: last.Epoch, Seq: seq}
		r, err := d.History.StateAt(t.Context(), "q_a", at)
		if err != nil {
			t.Fatal(err)
		}
		var rows diff.Rows
		for i := range r.Len() {
			rows = append(rows, r.Row(i))
		}
		origins, oldest, err := d.History.Origins(t.Context(), "q_a", at, rows)
		s := ""
		for i, o := range origins {
			s += fmt.Sprintf("%s:%d ", r.Terms(i)[0].Value, o.Seq)
		}
		return fmt.Sprint(s, "until ", oldest.Seq, err)
	}
	if got := find(6); got != "a:6 a:6 b:3 old:0 until 3 <nil>" {
		t.Error(got)
	}
	if got := find(5); got != "a:5 b:3 old:0 until 3 <nil>" {
		t.Error(got)
	}
	if got := find(3); got != "a:0 b:3 old:0 until 3 <nil>" {
		t.Error(got)
	}
}

// A change that is too large to be examined leaves the origins open.
func TestOriginsAreBounded(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_a", "city")
	step(t, d, "city", "q_a", 1, "old")
	step(t, d, "city", "q_a", 2, "old", strings.Repeat("x", originBytes))
	r, err := d.History.StateAt(t.Context(), "q_a", registry.Position{Seq: 2})
	if err != nil {
		t.Fatal(err)
	}
	origins, oldest, err := d.History.Origins(t.Context(), "q_a", registry.Position{Seq: 2}, diff.Rows{r.Row(0)})
	if err != nil || oldest.Seq != 0 || origins[0].Seq != 0 {
		t.Errorf("origins %v until %v, %v", origins, oldest, err)
	}
}

// Reads of past states wait for each other, and give up with their clients.
func TestWalksAreBounded(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_a", "city")
	step(t, d, "city", "q_a", 1, "a")
	step(t, d, "city", "q_a", 2, "b")
	for range mostWalks {
		if _, err := d.History.walk(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := d.History.StateAt(ctx, "q_a", registry.Position{Seq: 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a state beside %d walks: %v", mostWalks, err)
	}
	if _, _, err := d.History.Origins(ctx, "q_a", registry.Position{Seq: 2}, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("origins beside %d walks: %v", mostWalks, err)
	}
	<-d.History.walks
	for range mostWalks + 1 { // each ends its walk
		if _, err := d.History.StateAt(t.Context(), "q_a", registry.Position{Seq: 1}); err != nil {
			t.Error(err)
		}
	}
}

// expectPast reads all states of a query, and compares each with the hash that its change
// recorded.
func expectPast(t *testing.T, d *DB, id string) {
	t.Helper()
	list, err := d.History.Versions(id, 0, 1<<20)
	if err != nil {
		return // it has no result yet
	}
	for _, v := range list {
		r, err := d.History.StateAt(t.Context(), id, v.Position)
		if err != nil {
			t.Fatalf("%s: state %d: %v", id, v.Seq, err)
		}
		log, err := d.History.After(id, registry.Position{Epoch: v.Epoch, Seq: v.Seq - 1}, 1)
		if err != nil || log[0].Delta.NewHash != r.Hash() {
			t.Errorf("%s: state %d is not the recorded one: %v", id, v.Seq, err)
		}
	}
}
