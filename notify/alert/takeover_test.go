// Tests of alerts whose owner is killed, and of edits whose outcome is unknown.

package alert_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal/memory"
)

// beside returns a node on the journal of another one, with the same queries.
func (r *rig) beside(t *testing.T) *rig {
	n := newRig(t)
	n.stop()
	n.dir, n.journal, n.log, n.waker, n.options, n.tick = t.TempDir(), r.journal, r.log, r.waker, r.options, r.tick
	n.start()
	return n
}

// A node is killed while messages are queued and some of them are sent. The node that takes over sends
// the others, and repeats only what was under way, with the same ids. The alerts go on there.
func TestTakeoverOfQueuedAlerts(t *testing.T) {
	const rows = 60
	for _, kill := range []int32{1, 2, 17, 45} { // the request during which the node is killed
		t.Run(fmt.Sprint("request ", kill), func(t *testing.T) {
			r := newRig(t)
			r.stop()
			r.dir, r.journal = t.TempDir(), memory.New("test")
			var dead atomic.Bool
			r.refuse = func([]byte) error {
				if dead.Load() {
					return errors.New("the process is killed")
				}
				return nil
			}
			r.start()
			var mu sync.Mutex
			got, n := map[string]int{}, int32(0)
			under, release := make(chan struct{}), make(chan struct{})
			hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
				mu.Lock()
				got[q.Header.Get("Webhook-Id")]++
				n++
				last := n == kill
				mu.Unlock()
				if last {
					close(under)
					<-release
				}
			}))
			defer hook.Close()
			q := r.log.Add("q", diff.Select, false)
			r.record(q, wide(rows, "11")...)
			v := r.create(registry.RuleSettings{Name: "high", Query: q, When: "?value > 10",
				To: []registry.Receiver{{Kind: "webhook", Address: hook.URL}}})
			<-under
			dead.Store(true)
			close(release)
			r.stop()
			next := r.beside(t)
			next.record(q, wide(1, "1")...)
			until(t, "the end of all alerts", func() bool { return next.rule(v.ID).State.At.Seq == 2 })
			next.delivered(v.ID)
			mu.Lock()
			defer mu.Unlock()
			again := 0
			for _, n := range got {
				again += n - 1
			}
			if len(got) != 2*rows || again > 20 {
				t.Errorf("%d messages for %d alerts, %d of them again", len(got), rows, again)
			}
		})
	}
}

// A doubtful store makes an edit and says that its outcome is unknown.
type doubtful struct {
	alert.Store
	doubt *atomic.Bool
}

func (s doubtful) EditRules(e *registry.RuleEdit) error {
	err := s.Store.EditRules(e)
	if err == nil && len(e.Queue) > 0 && s.doubt.Swap(false) {
		return fmt.Errorf("%w: the outcome is unknown", registry.ErrReadOnly)
	}
	return err
}

// What an edit with an unknown outcome has made is not made again: each message is queued once.
func TestUnknownOutcome(t *testing.T) {
	for _, how := range []string{"rows", "pause", "remove"} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t)
			r.stop()
			var doubt atomic.Bool
			r.wrap = func(s alert.Store) alert.Store { return doubtful{s, &doubt} }
			r.start()
			q := r.log.Add("q", diff.Select, false)
			r.record(q, "a=11", "b=11")
			v := r.create(registry.RuleSettings{Name: "high", Query: q, When: "?value > 10", To: unreachable(t, 1)})
			doubt.Store(true)
			switch how {
			case "rows":
				r.record(q, "a=11", "c=11")
				r.record(q, "c=11")
				until(t, "the evaluation", func() bool { return r.rule(v.ID).State.At.Seq == 3 })
			case "pause":
				until(t, "the pause", func() bool { _, err := r.SetPaused(t.Context(), v.ID, true); return err == nil })
			default:
				until(t, "the removal", func() bool { err := r.Remove(v.ID); return err == nil || errors.Is(err, registry.ErrNotFound) })
			}
			if doubt.Load() {
				t.Fatal("no edit was doubtful")
			}
			fired, ended := r.told()
			if want := map[string][2]int{"rows": {3, 2}, "pause": {2, 2}, "remove": {2, 2}}[how]; fired != want[0] || ended != want[1] {
				t.Errorf("%d firing and %d resolved messages, want %v", fired, ended, want)
			}
		})
	}
}

// A rule whose removal has taken effect, although its outcome is unknown, is not brought back by an edit
// that keeps its alerts.
func TestEditAfterUnknownRemoval(t *testing.T) {
	r := newRig(t)
	r.stop()
	r.wrap = func(s alert.Store) alert.Store { return forgetful{s} }
	r.start()
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=11")
	v := r.create(registry.RuleSettings{Name: "high", Query: q, When: "?value > 10"})
	if err := r.Remove(v.ID); !errors.Is(err, registry.ErrReadOnly) {
		t.Fatal(err)
	}
	s := v.RuleSettings
	s.Summary = "other"
	if _, err := r.Replace(t.Context(), app, v.ID, s); err == nil {
		t.Error("a removed rule was edited")
	}
	until(t, "the end of the rule", func() bool { _, err := r.Rule(app, v.ID); return errors.Is(err, registry.ErrNotFound) })
	if rules, err := r.db.Rules.Rules(); err != nil || len(rules) != 0 {
		t.Errorf("%+v %v", rules, err)
	}
}

// A forgetful store makes removals, and says that their outcome is unknown.
type forgetful struct{ alert.Store }

func (s forgetful) EditRules(e *registry.RuleEdit) error {
	err := s.Store.EditRules(e)
	if err == nil && len(e.Remove) > 0 {
		return fmt.Errorf("%w: the outcome is unknown", registry.ErrReadOnly)
	}
	return err
}
