package notifytest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A Subject is an implementation of notify.Log under test, with functions that create
// history. Tests that need a nil function are skipped.
type Subject struct {
	Log notify.Log
	// Head returns the offset of the newest change of all queries.
	Head func() (registry.Offset, error)
	// Add registers a query without a result and returns its id. Different names give
	// different queries.
	Add func(name string, form diff.Form, ordered bool) string
	// Record commits a complete execution of a query whose answer was true at a time.
	Record func(query string, res *diff.Result, at time.Time)
	// Trim drops the oldest changes of a query until at most keep are left. keep is at
	// least 1.
	Trim func(query string, keep int)
	// Renumber starts a new epoch for all queries of the log.
	Renumber func()
	// Remove deletes a query.
	Remove func(query string)
}

// TestLog runs the conformance suite. open returns an empty subject each time.
func TestLog(t *testing.T, open func(t *testing.T) Subject) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Subject)
	}{
		{"NoResultYet", noResultYet},
		{"Baseline", baseline},
		{"History", history},
		{"Pages", pages},
		{"Gaps", gaps},
		{"TooOld", tooOld},
		{"NewEpoch", newEpoch},
		{"NotFound", notFound},
		{"Offsets", offsets},
		{"CopiesAreTheCallers", copies},
		{"Concurrent", concurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func moment(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }

func current(t *testing.T, s Subject, q string) (registry.Status, *diff.Result) {
	t.Helper()
	st, res, err := s.Log.Current(q, true)
	if err != nil {
		t.Fatalf("Current(%s): %v", q, err)
	}
	return st, res
}

func after(t *testing.T, s Subject, q string, p registry.Position, limit int) []registry.Change {
	t.Helper()
	cs, err := s.Log.After(q, p, limit)
	if err != nil {
		t.Fatalf("After(%s, %s, %d): %v", q, p, limit, err)
	}
	return cs
}

func wantGap(t *testing.T, err error, reason string) {
	t.Helper()
	var gap *registry.GapError
	if !errors.As(err, &gap) || gap.Reason != reason {
		t.Errorf("error is %v, want a gap: %s", err, reason)
	}
}

func noResultYet(t *testing.T, s Subject) {
	q := s.Add("q", diff.Select, false)
	st, res := current(t, s, q)
	if res != nil || st.Position.Seq != 0 || st.Position.Epoch == "" || st.State != registry.New || st.Hash != "" {
		t.Fatalf("before the first result: %+v, result %v", st, res)
	}
	if cs := after(t, s, q, st.Position, 10); len(cs) != 0 {
		t.Errorf("changes before the first result: %v", cs)
	}
}

func baseline(t *testing.T, s Subject) {
	q := s.Add("q", diff.Select, false)
	before, _ := current(t, s, q)
	s.Record(q, Rows("a"), moment(1))
	cs := after(t, s, q, before.Position, 10)
	if len(cs) != 1 {
		t.Fatalf("%d changes after the first result, want the baseline", len(cs))
	}
	c := cs[0]
	if !c.Baseline || c.Prev != 0 || c.Seq != 1 || c.Epoch != before.Position.Epoch || c.Query != q || c.Offset == 0 ||
		!c.CheckedAt.Equal(moment(1)) {
		t.Errorf("baseline: %+v", c)
	}
	st, res := current(t, s, q)
	if st.Position != c.Position() || st.Changes != 0 || st.State != registry.Live || res == nil || !bytes.Equal(res.Document(),
		Rows("a").Document()) {
		t.Errorf("status after the baseline: %+v", st)
	}
}

// history checks that the log leads from nothing to the current result, one seq at a time,
// and that unchanged executions change only CheckedAt.
func history(t *testing.T, s Subject) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, seed))
	t.Logf("seed %d", seed)
	for _, c := range []struct {
		form    diff.Form
		ordered bool
	}{{diff.Select, false}, {diff.Select, true}, {diff.Ask, false}, {diff.Construct, false}, {diff.Describe, false}} {
		q := s.Add(fmt.Sprintf("%s %v", c.form, c.ordered), c.form, c.ordered)
		begin, _ := current(t, s, q)
		for n := range 20 {
			s.Record(q, Random(r, c.form, c.ordered), moment(n))
		}
		st, want := current(t, s, q)
		got, p := (*diff.Result)(nil), begin.Position
		for _, c := range after(t, s, q, p, 1000) {
			if c.Prev != p.Seq || c.Seq != p.Seq+1 || c.Epoch != p.Epoch || c.Query != q || c.Delta == nil {
				t.Fatalf("change %+v does not follow %s", c, p)
			}
			var err error
			if got, err = c.Delta.Apply(got); err != nil {
				t.Fatalf("apply %s: %v", c.Position(), err)
			}
			p = c.Position()
		}
		if p != st.Position || !bytes.Equal(got.Document(), want.Document()) || st.Hash != want.Hash() || st.Rows != want.Len() ||
			st.Changes != p.Seq-1 {
			t.Errorf("%s: the log leads to %s %s, the status is %+v %s", c.form, p, got.Document(), st, want.Document())
		}
		if !st.CheckedAt.Equal(moment(19)) {
			t.Errorf("checked at %s, want %s", st.CheckedAt, moment(19))
		}
		without, res, err := s.Log.Current(q, false)
		if err != nil || res != nil || without.Position != st.Position {
			t.Errorf("Current without result: %+v, %v, %v", without, res, err)
		}
	}
}

func fill(s Subject, q string, n int) {
	for i := range n {
		s.Record(q, Rows(fmt.Sprint("v", i)), moment(i))
	}
}

func pages(t *testing.T, s Subject) {
	q := s.Add("q", diff.Select, false)
	st, _ := current(t, s, q)
	fill(s, q, 10)
	p := st.Position
	var seqs []uint64
	for {
		cs := after(t, s, q, p, 3)
		if len(cs) > 3 {
			t.Fatalf("%d changes on a page of 3", len(cs))
		}
		if len(cs) == 0 {
			break
		}
		for _, c := range cs {
			seqs = append(seqs, c.Seq)
		}
		p = cs[len(cs)-1].Position()
	}
	if want := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(seqs, want) {
		t.Errorf("pages hold %v, want %v", seqs, want)
	}
}

func gaps(t *testing.T, s Subject) {
	q := s.Add("q", diff.Select, false)
	fill(s, q, 3)
	st, _ := current(t, s, q)
	_, err := s.Log.After(q, registry.Position{Epoch: "another", Seq: 1}, 5)
	wantGap(t, err, registry.OtherEpoch)
	_, err = s.Log.After(q, registry.Position{Epoch: st.Position.Epoch, Seq: 4}, 5)
	wantGap(t, err, registry.Ahead)
	_, err = s.Log.After(q, registry.Position{Epoch: st.Position.Epoch, Seq: 1<<53 - 1}, 5)
	wantGap(t, err, registry.Ahead)
	if cs := after(t, s, q, st.Position, 5); len(cs) != 0 {
		t.Errorf("changes after the newest: %v", cs)
	}
}

func tooOld(t *testing.T, s Subject) {
	if s.Trim == nil {
		t.Skip("the subject cannot trim")
	}
	q := s.Add("q", diff.Select, false)
	begin, _ := current(t, s, q)
	fill(s, q, 10)
	st, _ := current(t, s, q)
	s.Trim(q, 4)
	kept := uint64(0)
	for seq := begin.Position.Seq; seq < st.Position.Seq; seq++ {
		cs, err := s.Log.After(q, registry.Position{Epoch: st.Position.Epoch, Seq: seq}, 100)
		if err != nil {
			wantGap(t, err, registry.TooOld)
			continue
		}
		kept = max(kept, uint64(len(cs)))
		if len(cs) == 0 || cs[0].Prev != seq || cs[len(cs)-1].Seq != st.Position.Seq {
			t.Fatalf("after %d come %v", seq, cs)
		}
	}
	if kept == 0 || kept > 4 {
		t.Errorf("%d changes kept, want 1 to 4", kept)
	}
	if now, res := current(t, s, q); now.Position != st.Position || res == nil {
		t.Errorf("trimming moved the status to %+v", now)
	}
}

func newEpoch(t *testing.T, s Subject) {
	if s.Renumber == nil {
		t.Skip("the subject cannot renumber")
	}
	q := s.Add("q", diff.Select, false)
	fill(s, q, 3)
	old, _ := current(t, s, q)
	head, err := s.Head()
	if err != nil {
		t.Fatal(err)
	}
	s.Renumber()
	now, res := current(t, s, q)
	if now.Position.Epoch == old.Position.Epoch || res == nil {
		t.Fatalf("epoch is still %s, or the result is lost", now.Position.Epoch)
	}
	_, err = s.Log.After(q, old.Position, 5)
	wantGap(t, err, registry.OtherEpoch)
	_, err = s.Log.All(head, 5)
	wantGap(t, err, registry.OtherEpoch)
	s.Record(q, Rows("new"), moment(20))
	cs := after(t, s, q, now.Position, 5)
	if len(cs) != 1 || cs[0].Prev != now.Position.Seq || cs[0].Epoch != now.Position.Epoch || cs[0].Baseline {
		t.Errorf("after the new epoch's beginning %s come %+v", now.Position, cs)
	}
}

func notFound(t *testing.T, s Subject) {
	for _, q := range []string{"", "q_unknown", "q_\x00", string(make([]byte, 4096))} {
		if _, err := s.Log.After(q, registry.Position{Epoch: "e"}, 1); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("After(%.20q): %v, want ErrNotFound", q, err)
		}
		if _, _, err := s.Log.Current(q, true); !errors.Is(err, registry.ErrNotFound) {
			t.Errorf("Current(%.20q): %v, want ErrNotFound", q, err)
		}
	}
	if s.Remove == nil {
		return
	}
	q := s.Add("q", diff.Select, false)
	fill(s, q, 2)
	st, _ := current(t, s, q)
	s.Remove(q)
	if _, err := s.Log.After(q, st.Position, 1); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("After of a removed query: %v, want ErrNotFound", err)
	}
	if _, _, err := s.Log.Current(q, false); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("Current of a removed query: %v, want ErrNotFound", err)
	}
}

func offsets(t *testing.T, s Subject) {
	head, err := s.Head()
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.Add("a", diff.Select, false), s.Add("b", diff.Select, false)
	for i := range 6 {
		s.Record([]string{a, b}[i%2], Rows(fmt.Sprint(i)), moment(i))
	}
	o, last := head, head.Seq
	var order []string
	for {
		cs, err := s.Log.All(o, 4)
		if err != nil || len(cs) > 4 {
			t.Fatalf("All(%s): %d changes, %v", o, len(cs), err)
		}
		if len(cs) == 0 {
			break
		}
		for _, c := range cs {
			if c.Offset <= last {
				t.Fatalf("offset %d after %d", c.Offset, last)
			}
			last, order = c.Offset, append(order, c.Query)
		}
		o.Seq = last
	}
	if want := []string{a, b, a, b, a, b}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	now, err := s.Head()
	if err != nil || now.Seq != last || now.Epoch != head.Epoch {
		t.Errorf("head %s, %v, want %d", now, err, last)
	}
	if all, err := s.Log.All(registry.Offset{}, 100); err != nil || len(all) < 6 {
		t.Errorf("All from the oldest: %d changes, %v", len(all), err)
	}
	_, err = s.Log.All(registry.Offset{Epoch: "another", Seq: 1}, 1)
	wantGap(t, err, registry.OtherEpoch)
	_, err = s.Log.All(registry.Offset{Epoch: now.Epoch, Seq: now.Seq + 1}, 1)
	wantGap(t, err, registry.Ahead)
}

// copies checks that what the log returned does not change when the log goes on.
func copies(t *testing.T, s Subject) {
	q := s.Add("q", diff.Select, false)
	begin, _ := current(t, s, q)
	fill(s, q, 3)
	cs := after(t, s, q, begin.Position, 3)
	_, res := current(t, s, q)
	var before [][]byte
	for _, c := range cs {
		before = append(before, c.Delta.AddedJSON())
	}
	document := slices.Clone(res.Document())
	for i := range 50 {
		s.Record(q, Rows(fmt.Sprint("w", i)), moment(10+i))
	}
	for i, c := range cs {
		if !bytes.Equal(c.Delta.AddedJSON(), before[i]) {
			t.Errorf("change %d altered afterwards", i)
		}
	}
	if !bytes.Equal(res.Document(), document) {
		t.Error("result altered afterwards")
	}
}

// concurrent checks that readers beside a writer see a log that only grows, and a status and
// a result of the same moment.
func concurrent(t *testing.T, s Subject) {
	q := s.Add("q", diff.Select, false)
	begin, _ := current(t, s, q)
	const n = 40
	done := make(chan error, 4)
	for range cap(done) {
		go func() { done <- follow(s, q, begin.Position, n) }()
	}
	fill(s, q, n)
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func follow(s Subject, q string, p registry.Position, until uint64) error {
	for deadline := time.Now().Add(5 * time.Minute); p.Seq < until; {
		if time.Now().After(deadline) {
			return fmt.Errorf("still at %s", p)
		}
		st, res, err := s.Log.Current(q, true)
		if err != nil {
			return err
		}
		if res != nil && res.Hash() != st.Hash || res == nil && st.Position.Seq > 0 {
			return fmt.Errorf("status %+v and result are not of one moment", st)
		}
		cs, err := s.Log.After(q, p, 7)
		if err != nil {
			return err
		}
		for _, c := range cs {
			if c.Prev != p.Seq {
				return fmt.Errorf("%d follows %d", c.Prev, p.Seq)
			}
			p = c.Position()
		}
		if p.Seq < st.Position.Seq && len(cs) == 0 {
			return fmt.Errorf("the log ends at %s, the status says %s", p, st.Position)
		}
		if len(cs) == 0 {
			time.Sleep(time.Millisecond) // the engine of the log may need the processor
		}
	}
	return nil
}
