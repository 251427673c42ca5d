// Ten thousand rules: a test that each fires once, and benchmarks.

package alert_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

const many = 10_000

// fill stores many rules in one transaction and restarts the engine. Rule i is about query
// i, modulo the number of queries.
func (r *rig) fill(queries, rules int, to ...registry.Receiver) (ids []string) {
	r.stop()
	for i := range queries {
		ids = append(ids, r.log.Add(fmt.Sprint("q", i), diff.Select, false))
	}
	r.recordAll(ids, "a=1")
	r.reopen(func() {
		edit := registry.RuleEdit{States: map[string]*registry.RuleChange{}}
		for i := range rules {
			id := fmt.Sprintf("rule_%06d", i)
			edit.Put = append(edit.Put, registry.Rule{ID: id, Caller: "app", RuleSettings: registry.RuleSettings{Name: fmt.Sprint("r", i),
				Query: ids[i%queries], When: "?value > 10", Labels: map[string]string{"s": "?s"}, Summary: "?s is ?value", To: to}})
			edit.States[id] = new(registry.RuleState).Since(new(registry.RuleState))
		}
		if err := r.db.Rules.EditRules(&edit); err != nil {
			r.t.Fatal(err)
		}
	})
	r.await("the first evaluation", rules, func(v registry.ListedRule) bool { return v.State.At.Seq == 1 })
	return ids
}

// reopen opens the store for an edit before the engine starts.
func (r *rig) reopen(edit func()) {
	run := r.options
	r.start()
	edit()
	r.stop()
	r.options = run
	r.start()
}

// recordAll commits the same result of many queries at once and wakes the engine.
func (r *rig) recordAll(ids []string, rows ...string) {
	r.tick++
	r.passed.Add(1)
	result := table(r.t, rows...)
	results := make([]*diff.Result, len(ids))
	for i := range results {
		results[i] = result
	}
	r.log.RecordAll(ids, results, time.Unix(1_790_000_000+60*int64(r.tick), 0))
	r.waker.Wake(ids...)
}

// await waits until each of many rules is as it should be.
func (r *rig) await(what string, rules int, ok func(registry.ListedRule) bool) {
	r.t.Helper()
	next := 0
	until(r.t, what, func() bool {
		for next < rules && ok(r.rule(fmt.Sprint("r", next))) {
			next++
		}
		return next == rules
	})
}

// Each of ten thousand rules sends its alert once, and its end once, also if the engine is
// restarted in the middle.
func TestLongTenThousandRules(t *testing.T) {
	var got atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		got.Add(1)
	}))
	defer hook.Close()
	r := newRig(t)
	ids := r.fill(many, many, registry.Receiver{Kind: "webhook", Address: hook.URL,
		Secret: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="})
	r.recordAll(ids, "a=11")
	until(t, "a tenth of the alerts", func() bool { return got.Load() > many/10 })
	r.stop()
	r.start()
	r.recordAll(ids, "a=2")
	r.await("all ends", many, func(v registry.ListedRule) bool { return v.State.At.Seq == 3 })
	until(t, "all messages", func() bool { return r.rule("r0").Receivers[0].Waiting() == 0 })
	for i := range many {
		if v := r.rule(fmt.Sprint("r", i)); v.State.Fired != 1 || len(v.State.Events) != 2 || v.Status != registry.RuleInactive {
			t.Fatalf("rule %d: %+v", i, v)
		}
	}
	if n := got.Load(); n < 2*many || n > 2*many+20 { // the restart may have repeated those that were under way
		t.Errorf("%d messages, want %d", n, 2*many)
	}
}

// An evaluation that is too large for one transaction is stored by several, each alert with the
// state of its rule.
func TestLargeEvaluation(t *testing.T) {
	const rules = 30
	var got atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		got.Add(1)
	}))
	defer hook.Close()
	r := newRig(t)
	r.most = 4
	ids := r.fill(1, rules, registry.Receiver{Kind: "webhook", Address: hook.URL,
		Secret: "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="})
	r.recordAll(ids, "a=11")
	r.await("the alerts", rules, func(v registry.ListedRule) bool { return v.State.Fired == 1 })
	until(t, "all messages", func() bool { return got.Load() == rules })
}

// A new rule is evaluated alone, however many the query has.
func TestNewRuleIsEvaluatedAlone(t *testing.T) {
	const rules = 100
	r := newRig(t)
	ids := r.fill(1, rules)
	before := r.asked.Load()
	if v := r.create(registry.RuleSettings{Name: "new", Query: ids[0], When: "rows > 0"}); v.Status != registry.RuleFiring {
		t.Errorf("%+v", v)
	}
	if n := r.asked.Load() - before; n > rules/2 {
		t.Errorf("%d rules were looked at", n)
	}
}

// BenchmarkRules evaluates ten thousand rules after a change of every query. cpu-us/rule includes
// the transactions with the states, and no messages; heap-B/rule is what a rule occupies.
func BenchmarkRules(b *testing.B) {
	for _, queries := range []int{1, many} {
		b.Run(fmt.Sprintf("queries=%d", queries), func(b *testing.B) {
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := newRig(b)
			ids := r.fill(queries, many)
			runtime.GC()
			runtime.ReadMemStats(&after)
			seq := uint64(1)
			began := processorTime(b)
			for b.Loop() {
				seq++
				r.recordAll(ids, fmt.Sprintf("a=%d", 10*(seq%2)+seq%2))
				r.await("the evaluation", many, func(v registry.ListedRule) bool { return v.State.At.Seq == seq })
			}
			b.ReportMetric(float64((processorTime(b)-began).Microseconds())/float64(b.N)/many, "cpu-us/rule")
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/many, "heap-B/rule")
			r.stop()
		})
	}
}
