// Tests of reads at a node that is cut off and does not know it yet.

package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
	"github.com/freshet/freshet/store/replica"
)

// A deposedJournal is the journal of a node that is cut off while it leads the engine: the engine still
// answers with the end that it knows, and takes no command.
type deposedJournal struct {
	*cutJournal
	end journal.Position
}

func (j *deposedJournal) Head(ctx context.Context) (journal.Position, error) {
	if before, _ := j.state(); before {
		return j.end, ctx.Err()
	}
	return j.Journal.Head(ctx)
}

func (j *deposedJournal) depose(t *testing.T) {
	end, err := j.Journal.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	j.end = end
	j.cut(true, false)
}

// No read of a node that is cut off says that something does not exist, or that a position is not in the
// history. All methods of all stores are called that need no more than ids, numbers and positions.
func TestReadsOfDeposedNode(t *testing.T) {
	log := memory.New("test")
	j := &deposedJournal{cutJournal: &cutJournal{Journal: openJournal(t, log)}}
	a, b := open(t, t.TempDir(), Options{Journal: openJournal(t, log)}), open(t, t.TempDir(), Options{Journal: j, JournalWait: time.Minute})
	put(t, a, "q_known", "city")
	settle(t, a, b)
	b.replica.SetPatience(50 * time.Millisecond)
	j.depose(t)
	put(t, a, "unknown", "city")
	step(t, a, "city", "q_known", 1, "x")
	step(t, a, "city", "q_known", 2, "y")
	st, _, err := a.History.Current("q_known", false)
	if err != nil {
		t.Fatal(err)
	}
	head, err := a.History.Head()
	if err != nil {
		t.Fatal(err)
	}
	arguments := map[reflect.Type][]any{
		reflect.TypeFor[string]():              {"unknown", "q_known"},
		reflect.TypeFor[int]():                 {10},
		reflect.TypeFor[uint64]():              {uint64(0)},
		reflect.TypeFor[bool]():                {true},
		reflect.TypeFor[context.Context]():     {t.Context()},
		reflect.TypeFor[registry.Position]():   {st.Position},
		reflect.TypeFor[registry.Offset]():     {head},
		reflect.TypeFor[registry.Moment]():     {registry.Moment{Position: st.Position}},
		reflect.TypeFor[registry.RoundState](): {registry.RoundState("")},
		reflect.TypeFor[diff.Rows]():           {diff.Rows(nil)},
	}
	called := 0
	for i := range reflect.TypeFor[DB]().NumField() {
		field := reflect.ValueOf(b).Elem().Field(i)
		if !field.CanInterface() || field.Kind() != reflect.Pointer {
			continue
		}
		for m := range field.NumMethod() {
			name := fmt.Sprint(field.Type(), ".", field.Type().Method(m).Name)
			for _, in := range combine(field.Method(m).Type(), arguments) {
				out := field.Method(m).Call(in)
				if len(out) == 0 {
					continue
				}
				err, _ := out[len(out)-1].Interface().(error)
				if called++; mayLag(err) {
					t.Errorf("%s(%v): %v", name, in, err)
				}
			}
		}
	}
	if t.Logf("%d calls", called); called < 40 {
		t.Errorf("only %d calls", called)
	}
	if _, result, err := b.History.Current("q_known", true); err == nil {
		t.Errorf("a result from elsewhere: %v", result)
	}
	_, err = b.History.After("q_known", st.Position, 10)
	var p *registry.Problem
	if !errors.Is(err, replica.ErrNoJournal) || !errors.As(err, &p) || p.Kind != registry.KindUnavailable || p.RetryAfter <= 0 ||
		!strings.Contains(p.Detail, "is cut off") {
		t.Errorf("a position from elsewhere: %v", err)
	}
	j.cut(false, false)
	await(t, "the end of the outage", func() bool { return b.Writable() == nil })
	if _, err := b.Queries.Query("unknown"); err != nil {
		t.Errorf("after the outage: %v", err)
	}
	if _, err := b.Queries.Query("nothing"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("a query that does not exist: %v", err)
	}
}

// combine returns the lists of arguments with which a function can be called, none if it takes others.
func combine(f reflect.Type, by map[reflect.Type][]any) [][]reflect.Value {
	if f.NumIn() == 0 || f.IsVariadic() {
		return nil
	}
	lists := [][]reflect.Value{nil}
	for i := range f.NumIn() {
		var longer [][]reflect.Value
		for _, list := range lists {
			for _, v := range by[f.In(i)] {
				longer = append(longer, append(list[:len(list):len(list)], reflect.ValueOf(v)))
			}
		}
		lists = longer
	}
	return lists
}

// Many readers at the same time share a barrier, and a barrier changes nothing in any node.
func TestBarriersAreShared(t *testing.T) {
	log := memory.New("test")
	j := openJournal(t, log)
	a, b := open(t, t.TempDir(), Options{Journal: openJournal(t, log)}), open(t, t.TempDir(), Options{Journal: j})
	put(t, a, "q_a", "city")
	step(t, a, "city", "q_a", 1, "x")
	settle(t, a, b)
	before, err := j.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const readers = 1000
	var group sync.WaitGroup
	for range readers {
		group.Go(func() {
			if _, err := b.Queries.Query("nothing"); !errors.Is(err, registry.ErrNotFound) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	after, err := j.Head(t.Context())
	if err != nil || after.Seq == before.Seq || after.Seq-before.Seq > readers/10 {
		t.Errorf("%d readers made %d entries, %v", readers, after.Seq-before.Seq, err)
	}
	settle(t, a, b)
	expectSame(t, a, b)
}

// Strangers learn nothing of private queries, not by the time that an answer takes either, and all of them add
// little to the journal.
func TestBarriersOfStrangers(t *testing.T) {
	log := memory.New("test")
	j := openJournal(t, log)
	d := open(t, t.TempDir(), Options{Journal: j})
	put(t, d, "q_private", "city")
	put(t, d, "q_public", "city", registry.Holder{Caller: "a", Since: start, Public: true, MayPublish: true})
	entries := func() uint64 {
		t.Helper()
		head, err := j.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return head.Seq
	}
	for id, barriers := range map[string]uint64{"q_public": 0, "q_private": 1, "q_none": 1} {
		before := entries()
		_, err := d.Queries.PublicQuery(id)
		if after := entries(); after-before != barriers || errors.Is(err, registry.ErrNotFound) != (barriers == 1) {
			t.Errorf("%s: %d barriers, %v", id, after-before, err)
		}
	}
	before, began := entries(), time.Now()
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			for range 3 {
				if _, err := d.Queries.PublicQuery("q_none"); !errors.Is(err, registry.ErrNotFound) {
					t.Error(err)
				}
				if _, err := d.Tokens.Newest(true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if made, most := entries()-before, uint64(time.Since(began)/(250*time.Millisecond))+1; made > most {
		t.Errorf("strangers made %d entries, want %d at most", made, most)
	}
	before = entries()
	if _, err := d.Queries.Query("q_none"); !errors.Is(err, registry.ErrNotFound) || entries() != before+1 {
		t.Errorf("a caller waits for strangers: %v", err)
	}
}

// A node that is cut off gives no older state for a time at which it had none that is newer. What it knows to have
// been replaced, it gives.
func TestTimesOfDeposedNode(t *testing.T) {
	log := memory.New("test")
	j := &deposedJournal{cutJournal: &cutJournal{Journal: openJournal(t, log)}}
	a, b := open(t, t.TempDir(), Options{Journal: openJournal(t, log)}), open(t, t.TempDir(), Options{Journal: j, JournalWait: time.Minute})
	put(t, a, "q_a", "city")
	step(t, a, "city", "q_a", 1, "x")
	time.Sleep(2 * time.Millisecond) // until a later time
	step(t, a, "city", "q_a", 2, "y")
	settle(t, a, b)
	b.replica.SetPatience(50 * time.Millisecond)
	j.depose(t)
	first, err := a.History.Place("q_a", registry.Moment{Position: registry.Position{Seq: 1}})
	if err != nil {
		t.Fatal(err)
	}
	step(t, a, "city", "q_a", 3, "z")
	if p, err := b.History.Place("q_a", registry.Moment{Time: first.Time}); err != nil || p.Seq != 1 {
		t.Errorf("a state that was replaced: %d, %v", p.Seq, err)
	}
	if p, err := b.History.Place("q_a", registry.Moment{Time: time.Now().Add(time.Hour)}); !errors.Is(err, replica.ErrNoJournal) {
		t.Errorf("the newest state at another node is %d of 3: %v", p.Seq, err)
	}
	j.cut(false, false)
	b.replica.SetPatience(time.Minute) // a flush of a busy disk takes longer than before
	await(t, "the end of the outage", func() bool { return b.Writable() == nil })
	if p, err := b.History.Place("q_a", registry.Moment{Time: time.Now().Add(time.Hour)}); err != nil || p.Seq != 3 {
		t.Errorf("after the outage: %d of 3: %v", p.Seq, err)
	}
}

// CatchUp waits until what others have stored is reported.
func TestCatchUp(t *testing.T) {
	log := memory.New("test")
	j := &deposedJournal{cutJournal: &cutJournal{Journal: openJournal(t, log)}}
	a, b := open(t, t.TempDir(), Options{Journal: openJournal(t, log)}), open(t, t.TempDir(), Options{Journal: j, JournalWait: time.Minute})
	reported, goOn := make(chan bool, 100), make(chan bool)
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() {
		b.WatchOthers(ctx, func(Others) {
			reported <- true
			<-goOn
		})
	})
	defer watching.Wait()
	defer cancel()
	put(t, a, "q_a", "city")
	<-reported
	done := make(chan error)
	go func() { done <- b.CatchUp() }()
	select {
	case err := <-done:
		t.Fatalf("it does not wait for what is done about the others: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	b.replica.SetPatience(50 * time.Millisecond)
	j.depose(t)
	if err := b.CatchUp(); !errors.Is(err, replica.ErrNoJournal) {
		t.Errorf("a node that is cut off: %v", err)
	}
}
