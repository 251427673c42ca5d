package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/merge"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// A dataset answers the queries of schedulertest.Query alone, merged and as a probe.
// Every edit of a name's values is kept.
type dataset struct {
	t        testing.TB
	mu       sync.Mutex
	versions map[string][][]string // by name
	asks     map[cohort.Kind]int
	most     int             // members of a request
	merged   map[string]bool // names that merged requests have asked for
	lies     map[string]bool // names for which merged answers are wrong
	stale    map[string]bool // names for which probes see the values before the last edit
	frozen   map[string]bool // names for which merged answers with rows see the first values
	single   time.Duration
	salts    []string // of probes
	cap      int      // rows of a probe at most, 0 for any number
	// fault may replace the outcome of a merged request.
	fault func(members int) registry.Outcome
}

func newDataset(t testing.TB) *dataset {
	return &dataset{t: t, versions: map[string][][]string{}, asks: map[cohort.Kind]int{}, single: 10 * time.Millisecond,
		merged: map[string]bool{}, lies: map[string]bool{}, fault: func(int) registry.Outcome { return registry.Changed }}
}

func (d *dataset) set(name string, values ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.versions[name] = append(d.versions[name], values)
}

func (d *dataset) now(name string) []string {
	if v := d.versions[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return nil
}

var (
	numbered = regexp.MustCompile(`\( (\d+) "([^"]*)" \)`)
	united   = regexp.MustCompile(`"([^"]*)" BIND\( (\d+) AS`)
	salted   = regexp.MustCompile(`MD5\( CONCAT\( "(\w+)"`)
	constant = regexp.MustCompile(`"([^"]*)"`)
)

func (d *dataset) reply(q *registry.Query, _ int) reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !q.Merged {
		d.asks[cohort.Single]++
		return reply{d.single, registry.Changed, schedulertest.Rows(d.t, d.now(constant.FindStringSubmatch(q.Text)[1])...)}
	}
	members := numbered.FindAllStringSubmatch(q.Text, -1)
	for _, m := range united.FindAllStringSubmatch(q.Text, -1) {
		members = append(members, []string{m[0], m[2], m[1]})
	}
	d.most = max(d.most, len(members))
	for _, m := range members {
		d.merged[m[2]] = true
	}
	probe := strings.Contains(q.Text, "COUNT(")
	kind, takes := cohort.Values, d.single+time.Duration(len(members))*time.Millisecond
	if probe {
		kind, takes = cohort.Probe, d.single+time.Duration(len(members))*100*time.Microsecond
	}
	d.asks[kind]++
	if o := d.fault(len(members)); !o.Complete() {
		return reply{takes, o, nil}
	}
	if probe {
		salt := salted.FindStringSubmatch(q.Text)[1]
		d.salts = append(d.salts, salt)
		return reply{takes, registry.Changed, d.digests(members, salt)}
	}
	b := diff.NewBuilder(diff.Select, diff.Options{})
	must(0, b.SetVars([]string{"i", "s"}))
	for _, m := range members {
		values := d.now(m[2])
		if d.frozen[m[2]] {
			values = d.versions[m[2]][0]
		}
		if d.lies[m[2]] {
			values = append(slices.Clone(values), "a lie")
		}
		for _, v := range values {
			must(0, b.Row(number(m[1]), diff.Term{Kind: diff.Literal, Value: v}))
		}
	}
	return reply{takes, registry.Changed, must(b.Finish())}
}

func number(s string) diff.Term {
	return diff.Term{Kind: diff.Literal, Value: s, Datatype: "http://www.w3.org/2001/XMLSchema#integer"}
}

// Each probe has another salt, except that the second look of an audit repeats the first one's.
func TestProbesAreSalted(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		w := newWorld(t, merging(endpoint("never", time.Second, "rr"), registry.MergeProbe), d.reply)
		for _, n := range names("n", 20) {
			d.set(n, "value of "+n)
			d.register(w, n)
		}
		w.run()
		for range 20 {
			w.tick()
		}
		w.stop()
		seen := map[string]bool{}
		for _, s := range d.salts {
			if len(s) < 20 || seen[s] {
				t.Errorf("salt %q is short or used twice", s)
			}
			seen[s] = true
		}
		if len(seen) < 10 {
			t.Errorf("%d probes", len(seen))
		}
	})
}

func (d *dataset) digests(members [][]string, salt string) *diff.Result {
	a := must(sparql.Analyse(schedulertest.Query(city, "x").Text))
	x, _, err := merge.Parse(a)
	if err != nil {
		panic(err)
	}
	b := diff.NewBuilder(diff.Select, diff.Options{})
	must(0, b.SetVars([]string{"i", "n", "high", "low", "opaque"}))
	rows := 0
	for _, m := range members {
		values := d.now(m[2])
		if v := d.versions[m[2]]; d.stale[m[2]] && len(v) > 1 {
			values = v[len(v)-2]
		}
		if len(values) == 0 || d.cap > 0 && rows == d.cap {
			continue
		}
		rows++
		g, _ := x.Digest(schedulertest.Rows(d.t, values...), salt)
		text := func(n int64) diff.Term { return number(strconv.FormatInt(n, 10)) }
		must(0, b.Row(number(m[1]), text(g.Rows), text(g.High), text(g.Low), text(0)))
	}
	return must(b.Finish())
}

// register registers a query for a name.
func (d *dataset) register(w *world, name string, edit ...func(*registry.Query)) {
	q := schedulertest.Query(city, name)
	q.ID = "q_" + name
	for _, f := range edit {
		f(&q)
	}
	w.put(q)
}

// checkTruth checks that the changes of each query lead from one version of its values
// to a later one, and that the stored results are the last of them.
func (d *dataset) checkTruth(w *world, current bool) {
	d.t.Helper()
	results, at := map[string]*diff.Result{}, map[string]int{}
	for _, c := range w.ledger.Changes() {
		now, err := c.Delta.Apply(results[c.Query])
		if err != nil {
			d.t.Fatalf("change %d of %s: %v", c.Seq, c.Query, err)
		}
		results[c.Query] = now
		versions := d.versions[strings.TrimPrefix(c.Query, "q_")]
		i := at[c.Query]
		for i < len(versions) && schedulertest.Rows(d.t, versions[i]...).Hash() != now.Hash() {
			i++
		}
		if i == len(versions) {
			d.t.Fatalf("change %d of %s leads to what was never true: %s", c.Seq, c.Query, now.Document())
		}
		at[c.Query] = i
	}
	for name := range d.versions {
		got, err := w.ledger.Result("q_" + name)
		if err != nil || got == nil {
			d.t.Fatalf("%s has no result: %v", name, err)
		}
		if r := results["q_"+name]; r == nil || r.Hash() != got.Hash() {
			d.t.Fatalf("the result of %s is not what its changes lead to", name)
		}
		if want := schedulertest.Rows(d.t, d.now(name)...); current && got.Hash() != want.Hash() {
			d.t.Errorf("the result of %s is %s instead of %s", name, got.Document(), want.Document())
		}
	}
}

func merging(e registry.Endpoint, mode string) registry.Endpoint {
	e.Merge, e.Timeout = mode, registry.Duration(8*time.Second)
	return e
}

// Merged requests and probes lose, invent and repeat no change, while values change,
// merged requests fail in every way and the process restarts. The budget holds.
// These are the endpoints with several requests at a time.
func TestMergedTruth(t *testing.T) { mergedTruth(t, true) }

// The same for the endpoints with one request at a time.
func TestLongMergedTruth(t *testing.T) { mergedTruth(t, false) }

func mergedTruth(t *testing.T, concurrent bool) {
	for i, c := range []struct {
		mode, policy, rule string
		width              int
	}{
		{registry.MergeValues, "rr", "strict", 1}, {registry.MergeProbe, "rr", "strict", 1},
		{registry.MergeAuto, "hybrid", "strict", 3}, {registry.MergeProbe, "hybrid", "strict", 1},
		{registry.MergeProbe, "sqrt", "strict", 2}, {registry.MergeAuto, "ttl:max=8:half", "debt", 1},
		{registry.MergeProbe, "dj", "debt", 3},
	} {
		if concurrent != (c.width > 1) {
			continue
		}
		t.Run(fmt.Sprintf("merge=%s/policy=%s/rule=%s/concurrency=%d", c.mode, c.policy, c.rule, c.width), func(t *testing.T) {
			seed := uint64(20261122 + i)
			t.Logf("seed %d", seed)
			bubble.Test(t, func(t *testing.T) {
				const budget, queries = 2 * time.Second, 300
				r, d := rand.New(rand.NewPCG(seed, 0)), newDataset(t)
				e := merging(endpoint("never", budget, c.policy), c.mode)
				e.Concurrency, e.Rule = c.width, c.rule
				var faults sync.Mutex
				broken := true
				d.fault = func(int) registry.Outcome {
					faults.Lock()
					defer faults.Unlock()
					bad := []registry.Outcome{registry.Partial, registry.Failed, registry.Timeout, registry.Rejected, registry.Throttled}
					if n := r.IntN(20); broken && n < len(bad) {
						return bad[n]
					}
					return registry.Changed
				}
				w := newWorld(t, e, d.reply)
				for _, n := range names("n", queries) {
					d.set(n, "first of "+n)
					d.register(w, n)
				}
				w.run()
				for slot := range 60 {
					w.tick()
					for range 10 {
						n := fmt.Sprintf("n%05d", r.IntN(queries))
						d.set(n, fmt.Sprint("value ", slot, r.IntN(3)))
					}
					if slot%20 == 19 {
						w.stop()
						w.open(w.as)
						w.run()
					}
				}
				broken = false
				for range 40 {
					w.tick()
					time.Sleep(time.Minute)
				}
				w.stop()
				d.checkTruth(w, c.policy != "dj") // dj may never look again
				if c.rule == "strict" {
					checkBound(t, w, budget, c.width)
				}
				t.Logf("requests %v, at most %d members", d.asks, d.most)
				if d.asks[cohort.Values] == 0 || c.mode == registry.MergeProbe && d.asks[cohort.Probe] == 0 || d.most < 16 {
					t.Errorf("requests %v, at most %d members", d.asks, d.most)
				}
			})
		})
	}
}

// An endpoint that answers merged queries wrongly for one member is found, and merging
// is switched off. The results are those of the queries alone from then on.
func TestWrongMergedAnswerIsFound(t *testing.T) {
	for _, policy := range []string{"rr", "ttl:max=8:half", "hybrid"} {
		for _, h := range []registry.Holder{{}, {MaxStaleness: registry.Duration(time.Hour)}, {MinInterval: registry.Duration(time.Second)}} {
			t.Run(fmt.Sprintf("policy=%s/max_staleness=%s/min_interval=%s", policy, h.MaxStaleness, h.MinInterval),
				func(t *testing.T) { testWrongMergedAnswer(t, policy, h) })
		}
	}
}

func testWrongMergedAnswer(t *testing.T, policy string, h registry.Holder) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		w := newWorld(t, merging(endpoint("never", time.Second, policy), registry.MergeValues), d.reply)
		for _, n := range names("n", 20) {
			d.set(n, "value of "+n)
			d.register(w, n, func(q *registry.Query) {
				q.Holders[0].MaxStaleness, q.Holders[0].MinInterval = h.MaxStaleness, h.MinInterval
			})
		}
		w.run()
		w.tick()
		d.lies["n00003"] = true
		if strings.HasPrefix(policy, "ttl") { // one query would get out of step with the others
			for n := range d.versions {
				d.lies[n] = true
			}
		}
		for slot := range 1000 {
			w.tick()
			time.Sleep(time.Minute)
			c := w.loop.Templates()
			if len(c) != 1 {
				t.Fatalf("templates %+v", c)
			}
			if c[0].Different > 0 {
				t.Logf("found in slot %d after %d audits", slot, c[0].Audits)
				if !c[0].OffUntil[cohort.Values].After(time.Now().Add(23 * time.Hour)) {
					t.Errorf("%+v", c[0])
				}
				break
			}
		}
		merged := d.asks[cohort.Values]
		for range 20 {
			w.tick()
		}
		if c := w.loop.Templates(); c[0].Different == 0 || d.asks[cohort.Values] != merged {
			t.Errorf("merging goes on: %+v", c)
		}
		for n := range d.versions {
			got, _ := w.ledger.Result("q_" + n)
			if want := schedulertest.Rows(t, d.now(n)...); got.Hash() != want.Hash() {
				t.Errorf("the result of %s is %s", n, got.Document())
			}
		}
		w.stop()
	})
}

// Merged answers that go on confirming an old result are found, although nothing but audits
// asks their queries alone. The first changes are late then, the later ones are not.
func TestWrongConfirmationsAreFound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		w := newWorld(t, merging(endpoint("never", time.Second, "rr"), registry.MergeValues), d.reply)
		for _, n := range names("n", 20) {
			d.set(n, "value of "+n)
			d.register(w, n)
		}
		w.run()
		w.tick()
		d.frozen = map[string]bool{"n00003": true, "n00007": true}
		d.set("n00003", "a change")
		d.set("n00007", "another change")
		for slot := 0; slot < 500 && w.loop.Templates()[0].Different == 0; slot++ {
			w.tick()
			time.Sleep(time.Minute)
		}
		if c := w.loop.Templates()[0]; c.Different == 0 || len(c.OffUntil) == 0 {
			t.Errorf("%+v", c)
		}
		for slot := range 5 {
			for n := range d.versions {
				d.set(n, fmt.Sprint("value ", slot))
			}
			w.tick()
			w.tick()
		}
		w.stop()
		d.checkTruth(w, true)
	})
}

// Queries of different datasets are never in one request, and a merged request names the
// graphs of its members.
func TestDatasetsAreAskedApart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		of, merged := map[string]string{}, map[string]bool{}
		w := newWorld(t, merging(endpoint("never", 10*time.Second, "rr"), registry.MergeValues), func(q *registry.Query, n int) reply {
			if graphs := fmt.Sprint(q.DefaultGraphs, q.NamedGraphs); q.Merged {
				merged[graphs] = true
				for _, m := range numbered.FindAllStringSubmatch(q.Text, -1) {
					if of[m[2]] != graphs {
						t.Errorf("%s of %s is asked at %s", m[2], of[m[2]], graphs)
					}
				}
			}
			return d.reply(q, n)
		})
		for i, n := range names("n", 60) {
			d.set(n, "value of "+n)
			d.register(w, n, func(q *registry.Query) {
				switch i % 4 {
				case 1:
					q.DefaultGraphs = []string{"http://x/g"}
				case 2:
					q.NamedGraphs = []string{"http://x/g"}
				case 3:
					q.DefaultGraphs = []string{"http://x/h"}
				}
				of[n] = fmt.Sprint(q.DefaultGraphs, q.NamedGraphs)
			})
		}
		w.run()
		for range 4 {
			w.tick()
			time.Sleep(time.Minute)
		}
		w.stop()
		d.checkTruth(w, true)
		if len(merged) != 4 {
			t.Errorf("merged requests at %v", merged)
		}
	})
}

// The expected rows of a merged request stay below half of the endpoint's cap, whether the
// settings or the endpoint say what it is.
func TestRowCapOfMergedRequests(t *testing.T) {
	for _, told := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			d, most := newDataset(t), 0
			e := merging(endpoint("never", 10*time.Second, "rr"), registry.MergeValues)
			if !told {
				e.MaxRows = 200
			}
			w := newWorld(t, e, func(q *registry.Query, n int) reply {
				r := d.reply(q, n)
				if q.Merged {
					most = max(most, r.result.Len())
				}
				return r
			})
			if told {
				w.service.setHealth(registry.Health{State: registry.Healthy, MaxRows: 200})
			}
			for _, n := range names("n", 100) {
				d.set(n, "a", "b", "c", "d", "e")
				d.register(w, n)
			}
			w.run()
			for range 20 {
				w.tick()
				time.Sleep(time.Minute)
			}
			w.stop()
			if most > 100 || most < 50 {
				t.Errorf("told by the endpoint: %t: up to %d rows in a request, the cap is 200", told, most)
			}
		})
	}
}

// What an endpoint answers wrongly in merged requests is never announced nor shown, from the
// first one on: a merged answer confirms a result or leads to asking alone.
func TestMergedAnswersAnnounceNothing(t *testing.T) {
	for _, mode := range []string{registry.MergeValues, registry.MergeProbe, registry.MergeAuto} {
		t.Run(mode, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				d := newDataset(t)
				w := newWorld(t, merging(endpoint("never", 10*time.Second, "rr"), mode), d.reply)
				for _, n := range names("n", 60) {
					d.set(n, "value of "+n)
					d.register(w, n)
					d.lies[n] = n >= "n00030"
				}
				w.run()
				for slot := range 100 {
					n := fmt.Sprintf("n%05d", slot*7%60)
					d.set(n, fmt.Sprint("value ", slot))
					d.lies[n] = slot%3 == 0
					w.tick()
					time.Sleep(time.Hour)
				}
				w.stop()
				d.checkTruth(w, true)
				if len(d.merged) < 50 {
					t.Errorf("merged requests have asked for %d queries only", len(d.merged))
				}
			})
		})
	}
}

// A failed merged request says nothing about its members. It is not counted for the
// endpoint's health, and the members get their answers within two slots.
func TestMergedRequestThatAlwaysFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		d.fault = func(int) registry.Outcome { return registry.Failed }
		w := newWorld(t, merging(endpoint("never", 10*time.Second, "rr"), registry.MergeValues), d.reply)
		for _, n := range names("n", 50) {
			d.set(n, "value of "+n)
			d.register(w, n)
		}
		w.run()
		complete := 0
		for range 8 {
			s := w.tick()
			complete += s.Complete
			if s.Failed != 0 || s.Asks < s.Run {
				t.Errorf("%+v", s)
			}
		}
		if h := w.loop.State().Health; h.State == registry.HealthFailing || h.Incomplete > 0 {
			t.Errorf("%+v", h)
		}
		d.checkTruth(w, true)
		if complete < 200 {
			t.Errorf("%d complete executions", complete)
		}
		w.stop()
	})
}

// Queries whose holders say so, paused ones and those with a minimum interval keep their
// rights.
func TestMergedRequestsRespectHolders(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		w := newWorld(t, merging(endpoint("never", 10*time.Second, "rr"), registry.MergeProbe), d.reply)
		for i, n := range names("n", 30) {
			d.set(n, "value of "+n)
			d.register(w, n, func(q *registry.Query) {
				switch i {
				case 0:
					q.Holders[0].Alone = true
				case 1:
					q.Holders[0].MinInterval = registry.Duration(time.Hour)
				case 2:
					q.Pause = &registry.Pause{By: "admin"}
				}
			})
		}
		delete(d.versions, "n00002")
		w.run()
		for range 10 {
			w.tick()
			time.Sleep(time.Minute)
		}
		w.stop()
		d.checkTruth(w, true)
		if n := w.service.ran("q_n00000"); n != 10 || d.merged["n00000"] || !d.merged["n00005"] {
			t.Errorf("the query that wants to be alone ran %d times, merged with others: %t", n, d.merged["n00000"])
		}
		if s := w.stats("q_n00001"); s.Executions != 1 {
			t.Errorf("the query with a minimum interval ran %d times", s.Executions)
		}
		if s := w.stats("q_n00002"); s.Executions != 0 {
			t.Errorf("the paused query ran %d times", s.Executions)
		}
		x, err := w.loop.Explain("q_n00005")
		if err != nil || x.LastAsk == nil || x.LastAsk.Members < 2 {
			t.Errorf("%+v %v", x, err)
		}
	})
}

// With merging, a twenty-fifth of the time that asking all queries alone would take finds
// nearly all changes, more than a quarter of that time finds without.
func TestLongMergingMultipliesTheBudget(t *testing.T) {
	found := func(mode string, budget time.Duration) (changed int) {
		bubble.Test(t, func(t *testing.T) {
			r, d := rand.New(rand.NewPCG(1, 0)), newDataset(t)
			w := newWorld(t, merging(endpoint("never", budget, "hybrid"), mode), d.reply)
			for _, n := range names("n", 400) {
				d.set(n, "first of "+n)
				d.register(w, n)
			}
			w.run()
			for slot := range 150 {
				if s := w.tick(); slot >= 50 {
					changed += s.Changed
				}
				for range 8 {
					d.set(fmt.Sprintf("n%05d", r.IntN(400)), fmt.Sprint("value ", slot, r.IntN(1000)))
				}
				time.Sleep(time.Minute)
			}
			w.stop()
			d.checkTruth(w, false)
		})
		return changed
	}
	few, all := found(registry.MergeAuto, 160*time.Millisecond), found(registry.MergeOff, time.Second)
	t.Logf("%d changes merged, %d alone", few, all)
	if few < all {
		t.Errorf("%d changes merged with 160 ms a slot, %d alone with 1 s", few, all)
	}
}

// A complete merged answer that arrives after the timeout says nothing about its
// members.
func TestLateMergedAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		late := false
		w := newWorld(t, merging(endpoint("never", time.Minute, "rr"), registry.MergeValues), func(q *registry.Query, n int) reply {
			r := d.reply(q, n)
			if late && q.Merged {
				r.takes = 8*time.Second + time.Millisecond
			}
			return r
		})
		w.service.reckless = true
		for _, n := range names("n", 20) {
			d.set(n, "value of "+n)
			d.register(w, n)
		}
		w.run()
		w.tick()
		late = true
		if s := w.tick(); s.Failed > 0 || s.Asks < 2 {
			t.Errorf("%+v", s)
		}
		for n := range d.versions {
			if s := w.stats("q_" + n); s.Failures > 0 {
				t.Errorf("%s: %+v", n, s.LastRun)
			}
		}
		w.stop()
	})
}

// An agedCache is before a service. It answers merged requests from old copies and says
// how old they are.
type agedCache struct {
	*service
	old bool
	age time.Duration
}

func (c *agedCache) Execute(ctx context.Context, q *registry.Query, m scheduler.Memory, limit time.Duration) scheduler.Answer {
	a := c.service.Execute(ctx, q, m, limit)
	if c.old && q.Merged {
		a.Age = c.age
	}
	return a
}

// Merged answers that are older than the results prove nothing in an audit, and their
// members are asked alone.
func TestAgedMergedAnswers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		w := newWorld(t, merging(endpoint("never", time.Second, "rr"), registry.MergeValues), d.reply)
		for _, n := range names("n", 20) {
			d.set(n, "value of "+n)
			d.register(w, n)
		}
		cache := &agedCache{service: w.service, age: time.Hour}
		var err error
		if w.loop, err = scheduler.NewLoop(scheduler.Config{Endpoint: w.as, Ledger: w.ledger, Executor: cache}); err != nil {
			t.Fatal(err)
		}
		w.run()
		w.tick()
		cache.old = true
		for n := range d.versions {
			d.lies[n] = true // as if the data had changed since the copy was made
		}
		for range 60 {
			w.tick()
			time.Sleep(time.Minute)
		}
		w.stop()
		if c := w.loop.Templates(); c[0].Different > 0 {
			t.Errorf("old copies prove that merged answers are wrong: %+v", c[0])
		}
		for n := range d.versions {
			if s := w.stats("q_" + n); s.Changes > 0 || s.Executions < 20 {
				t.Errorf("%s: %d executions, %d changes, last %+v", n, s.Executions, s.Changes, s.LastRun)
			}
		}
	})
}

// An endpoint that stops at a number of rows without saying so does not make members of a
// merged request lose rows, neither in their first results nor later.
func TestSilentCap(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const most = 1000
		d := newDataset(t)
		cut := 0
		w := newWorld(t, merging(endpoint("never", 10*time.Second, "rr"), registry.MergeValues), func(q *registry.Query, n int) reply {
			r := d.reply(q, n)
			if q.Merged && r.result.Len() > most {
				b := diff.NewBuilder(diff.Select, diff.Options{})
				must(0, b.SetVars(r.result.Vars()))
				for i := range most {
					must(0, b.Row(r.result.Terms(i)...))
				}
				r.result = must(b.Finish())
				cut++
			}
			return r
		})
		values := func(name string, n int) (list []string) {
			for i := range n {
				list = append(list, fmt.Sprint(name, " ", i))
			}
			return list
		}
		for _, n := range names("n", 60) {
			d.set(n, values(n, 30)...)
			d.register(w, n)
		}
		w.run()
		for slot := range 30 {
			w.tick()
			if slot == 10 {
				for n := range d.versions {
					d.set(n, values(n, 45)...)
				}
			}
			time.Sleep(time.Minute)
		}
		w.stop()
		d.checkTruth(w, true)
		if cut == 0 {
			t.Error("no answer was cut")
		}
		if n := d.asks[cohort.Single]; n > 300 { // 60 first results and 60 changes; a cut answer leads to a smaller request
			t.Errorf("%d queries were asked alone", n)
		}
	})
}

// Probes that go on seeing an old state do not hide changes for long: audits find them, or
// their members are no longer probed because no probe confirms what they answer alone.
func TestStaleProbesHideLittle(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		w := newWorld(t, merging(endpoint("never", time.Second, "rr"), registry.MergeProbe), d.reply)
		for _, n := range names("n", 20) {
			d.set(n, "value of "+n)
			d.register(w, n)
		}
		d.stale = map[string]bool{"n00003": true, "n00007": true}
		w.run()
		for slot := range 500 {
			if slot%25 == 0 {
				for n := range d.versions { // the audits of the others meet real changes
					d.set(n, fmt.Sprint("value ", slot))
				}
			}
			w.tick()
			time.Sleep(time.Minute)
			if slot > 100 && slot%25 == 5 {
				d.checkTruth(w, true)
			}
		}
		w.stop()
	})
}

// Values that change between all requests do not switch merging off.
func TestLongRealChangesPassAudits(t *testing.T) {
	for _, mode := range []string{registry.MergeValues, registry.MergeProbe} {
		t.Run(mode, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				d, requests := newDataset(t), 0
				w := newWorld(t, merging(endpoint("never", time.Second, "rr"), mode), func(q *registry.Query, n int) reply {
					r := d.reply(q, n)
					requests++
					for name := range d.versions {
						if requests%60 >= 40 { // so that probes confirm results
							break
						}
						if d.set(name, fmt.Sprint("value ", requests/2)); requests%7 > 3 {
							d.set(name, fmt.Sprint("value of request ", requests))
						}
					}
					return r
				})
				for _, n := range names("n", 20) {
					d.set(n, "value of "+n)
					d.register(w, n)
				}
				w.run()
				for range 300 {
					w.tick()
					time.Sleep(time.Minute)
				}
				w.stop()
				d.checkTruth(w, false)
				if c := w.loop.Templates(); c[0].Different > 0 || c[0].Audits == 0 {
					t.Errorf("%+v", c[0])
				}
			})
		})
	}
}

// An endpoint that failed is tried with a query alone: the failure of a merged request
// would not count.
func TestFailingEndpointIsAskedAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		w := newWorld(t, merging(endpoint("never", 10*time.Second, "rr"), registry.MergeValues), d.reply)
		for _, n := range names("n", 20) {
			d.set(n, "value of "+n)
			d.register(w, n)
		}
		w.run()
		w.service.setHealth(registry.Health{State: registry.HealthFailing, Failures: 5, Since: time.Now(), Until: time.Now()})
		if w.tick(); d.asks[cohort.Values] > 0 || d.asks[cohort.Single] == 0 {
			t.Errorf("requests %v", d.asks)
		}
		w.service.setHealth(registry.Health{State: registry.Healthy})
		if w.tick(); d.asks[cohort.Values] == 0 {
			t.Errorf("requests %v after the recovery", d.asks)
		}
		w.stop()
	})
}

// An endpoint that plans some kinds of merged requests badly loses little time to them: they
// are given up long before the timeout, and another kind is used.
func TestHangingMergedRequestsAreGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		e := merging(endpoint("never", time.Minute, "rr"), registry.MergeAuto)
		e.Timeout = registry.Duration(30 * time.Second)
		hangs := 0
		w := newWorld(t, e, func(q *registry.Query, n int) reply {
			r := d.reply(q, n)
			if q.Merged && !strings.Contains(q.Text, "MD5") {
				r.takes = time.Hour
				hangs++
			}
			return r
		})
		for _, n := range names("n", 100) {
			d.set(n, "value of "+n)
			d.register(w, n)
		}
		w.run()
		for range 10 {
			w.tick()
			time.Sleep(time.Minute)
		}
		w.stop()
		d.checkTruth(w, true)
		longest := time.Duration(0)
		for _, x := range w.service.executions() {
			longest = max(longest, x.end.Sub(x.start))
		}
		if c := w.loop.Templates()[0]; hangs == 0 || longest > 4*16*d.single+time.Second || c.Asked[cohort.Probe] < 800 {
			t.Errorf("%d requests hung, for up to %s: %+v", hangs, longest, c)
		}
		for n := range d.versions {
			if s := w.stats("q_" + n); s.Executions < 9 || s.Cuts > 0 || s.Failures > 0 {
				t.Errorf("%s: %+v", n, s)
			}
		}
	})
}

// An endpoint that fails is noticed within a slot although its queries are merged, whether
// they have results or not. It is asked as usual once it answers again.
func TestFailingEndpointIsNoticedInMergedRequests(t *testing.T) {
	for _, known := range []bool{true, false} {
		bubble.Test(t, func(t *testing.T) {
			d, broken := newDataset(t), !known
			w := newWorld(t, merging(endpoint("never", time.Second, "rr"), registry.MergeAuto), func(q *registry.Query, n int) reply {
				if broken {
					return reply{5 * time.Millisecond, registry.Partial, nil}
				}
				return d.reply(q, n)
			})
			for _, n := range names("a", 100) {
				d.register(w, n)
				d.set(n, "x")
			}
			w.run()
			w.tick()
			w.tick()
			if broken = true; known {
				w.tick()
			}
			if st := w.loop.State(); st.Health.State != registry.HealthFailing {
				t.Errorf("with results: %t: %+v", known, st)
			}
			broken = false
			for range 3 {
				time.Sleep(time.Hour)
				w.tick()
			}
			if h := w.loop.State().Health; h.State == registry.HealthFailing || h.Incomplete != 0 {
				t.Errorf("after it answered again: %+v", h)
			}
			d.checkTruth(w, true)
			w.stop()
		})
	}
}

// A result that a probe confirmed is recorded as unchanged, with the way it was found.
func TestProbeIsRecorded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		w := newWorld(t, merging(endpoint("never", time.Second, "rr"), registry.MergeProbe), d.reply)
		for _, n := range names("a", 20) {
			d.register(w, n)
			d.set(n, "x")
		}
		w.run()
		w.tick()
		how := func() (n int) {
			for _, name := range names("a", 20) {
				if r := w.stats("q_" + name).LastRun; r.How == policy.HowProbe {
					if n++; r.Outcome != registry.Unchanged {
						t.Errorf("%+v", r)
					}
				}
			}
			return n
		}
		if n := how(); n > 0 {
			t.Errorf("%d first results were confirmed by a probe", n)
		}
		w.tick()
		if n := how(); n < 15 {
			t.Errorf("%d results were confirmed by a probe", n)
		}
		w.as.Merge = registry.MergeOff
		if err := w.loop.Reconfigure(w.as); err != nil {
			t.Fatal(err)
		}
		w.tick()
		if n := how(); n > 0 {
			t.Errorf("%d answers in full count as probes", n)
		}
		x, err := w.loop.Explain("q_a00000")
		if list := w.loop.Templates(); len(list) > 0 || err != nil || x.LastAsk != nil {
			t.Errorf("templates %+v, explained as %+v (%v) although queries are not merged", list, x.LastAsk, err)
		}
		w.stop()
	})
}

// A member whose digest the endpoint computes otherwise is not probed in every slot, but
// confirmed by other merged requests.
func TestProbesThatNeverConfirm(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		w := newWorld(t, merging(endpoint("never", 10*time.Second, "rr"), registry.MergeProbe), d.reply)
		d.stale = map[string]bool{}
		for _, n := range names("n", 20) {
			d.set(n, "written otherwise")
			d.set(n, "value of "+n)
			d.stale[n] = n < "n00010"
			d.register(w, n)
		}
		w.run()
		for range 20 {
			w.tick()
			time.Sleep(time.Minute)
		}
		w.stop()
		if n := d.asks[cohort.Single]; n > 20+10+5 { // first results, doubts and audits
			t.Errorf("%d queries were asked alone: %v", n, d.asks)
		}
	})
}

// What was learnt about merging survives a restart: above all that a template is switched
// off because a merged answer was wrong, whether its queries are registered again or not.
func TestMergingIsRememberedAfterRestart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		w := newWorld(t, merging(endpoint("never", time.Second, "rr"), registry.MergeValues), d.reply)
		for _, n := range names("n", 20) {
			d.set(n, "value of "+n)
			d.register(w, n)
		}
		restart := func() {
			w.stop()
			w.open(w.as)
			w.run()
			w.tick()
		}
		w.run()
		for range 3 { // no audit is due in the next slot
			w.tick()
		}
		was := w.loop.Templates()[0]
		restart()
		if now := w.loop.Templates()[0]; now.Kind != cohort.Values || now.Audits != was.Audits || now.A+now.B == 0 {
			t.Errorf("after a restart: %+v, before: %+v", now, was)
		}
		d.lies["n00003"] = true
		for w.loop.Templates()[0].Different == 0 {
			w.tick()
			time.Sleep(time.Minute)
		}
		until := w.loop.Templates()[0].OffUntil[cohort.Values]
		merged := d.asks[cohort.Values]
		for range 3 {
			restart()
			if now := w.loop.Templates()[0]; !now.OffUntil[cohort.Values].Equal(until) || now.Different != 1 || d.asks[cohort.Values] > merged {
				t.Errorf("%d merged requests after a restart: %+v", d.asks[cohort.Values]-merged, now)
			}
		}
		time.Sleep(time.Until(until))
		d.lies = map[string]bool{}
		w.tick()
		if d.asks[cohort.Values] == merged {
			t.Error("nothing was merged after a day")
		}
		w.stop()
	})
}
