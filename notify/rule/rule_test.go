// Tests of the rule language and of the fold, by examples and against a naive model.

package rule_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/rule"
	"github.com/freshet/freshet/registry"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

// table is a result with the variables s and value.
func table(t testing.TB, rows ...string) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	if err := b.SetVars([]string{"s", "value"}); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		s, v, _ := strings.Cut(row, "=")
		if err := b.Row(diff.Term{Kind: diff.IRI, Value: "http://x/" + s}, diff.Term{Kind: diff.Literal, Value: v,
			Datatype: "http://www.w3.org/2001/XMLSchema#integer"}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func answer(t testing.TB, yes bool) *diff.Result {
	t.Helper()
	r, err := diff.DecodeJSON(fmt.Appendf(nil, `{"head":{},"boolean":%v}`, yes), diff.Ask, diff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A replay feeds the answers of an endpoint to a rule.
type replay struct {
	t      *testing.T
	p      *rule.Program
	s      registry.RuleState
	result *diff.Result
	got    []string
}

func newReplay(t *testing.T, r registry.RuleSettings, form diff.Form) *replay {
	t.Helper()
	r.Name = "r"
	p, err := rule.Compile(r, form, []string{"s", "value"}, mostRows)
	if err != nil {
		t.Fatal(err)
	}
	return &replay{t: t, p: p, s: registry.RuleState{At: registry.Position{Epoch: "e"}}}
}

// feed feeds one answer and returns what happened.
func (r *replay) feed(at time.Time, result *diff.Result) (events []registry.RuleEvent) {
	if d := diff.Compare(r.result, result); d == nil {
		events = r.p.Confirm(&r.s, at)
	} else {
		seq := r.s.At.Seq
		events = r.p.Change(&r.s, &registry.Change{Epoch: "e", Prev: seq, Seq: seq + 1, Time: at, CheckedAt: at, Baseline: d.Baseline, Delta: d})
	}
	r.result = result
	return events
}

func (r *replay) answer(at time.Time, result *diff.Result) {
	for _, e := range r.feed(at, result) {
		text := fmt.Sprintf("%d %s", int(e.Time.Sub(noon)/time.Minute), e.State)
		if s := strings.TrimPrefix(e.Labels["s"], "http://x/"); s != "" {
			text += " " + s
		}
		if e.Summary != "" {
			text += ": " + e.Summary
		}
		r.got = append(r.got, text)
	}
}

func (r *replay) expect(want ...string) {
	r.t.Helper()
	if d := cmp.Diff(want, r.got); d != "" {
		r.t.Errorf("events (-want +got)\n%s", d)
	}
	r.got = nil
}

func minutes(n int) registry.Duration { return registry.Duration(time.Duration(n) * time.Minute) }

func TestRowsFireOnceEach(t *testing.T) {
	r := newReplay(t, registry.RuleSettings{When: "?value > 10", Summary: "?s is at ?value?"}, diff.Select)
	r.answer(at(0), table(t, "a=5", "b=11"))
	r.expect("0 firing b: http://x/b is at 11?")
	r.answer(at(1), table(t, "a=5", "b=12")) // the same alert with another value
	r.answer(at(2), table(t, "a=5", "b=12"))
	r.expect()
	for _, a := range r.s.Alerts {
		if a.Summary != "http://x/b is at 12?" || a.State != registry.AlertFiring || !a.FiredAt.Equal(at(0)) {
			t.Errorf("%+v", a)
		}
	}
	r.answer(at(3), table(t, "a=50", "b=12"))
	r.expect("3 firing a: http://x/a is at 50?")
	r.answer(at(4), table(t, "a=50"))
	r.expect("4 resolved b: http://x/b is at 12?")
	if r.s.Fired != 2 || len(r.s.Alerts) != 1 || len(r.s.Events) != 3 {
		t.Errorf("%+v", r.s)
	}
}

// Several rows may have the same labels. They are one alert, until none is left.
func TestRowsShareAnAlert(t *testing.T) {
	r := newReplay(t, registry.RuleSettings{When: "?value > 10", Labels: map[string]string{"team": "ops"}, Summary: "?s"}, diff.Select)
	r.answer(at(0), table(t, "a=11", "b=11", "b=12"))
	r.answer(at(1), table(t, "b=12"))
	r.answer(at(2), table(t, "b=12"))
	r.answer(at(3), table(t))
	r.expect("0 firing: http://x/a", "3 resolved: http://x/a")
}

// A condition may have several lines. Its numbers stay numbers.
func TestLines(t *testing.T) {
	for _, when := range []string{"?value > 10\n and ?s != x", "?value\t>\r\n10\tAND\n?value < 20", "?value > 10 and\n?s contains b\n"} {
		r := newReplay(t, registry.RuleSettings{When: when, Labels: map[string]string{"s": "?s"}}, diff.Select)
		r.answer(at(0), table(t, "a=9", "b=11"))
		r.expect("0 firing b")
	}
	r := newReplay(t, registry.RuleSettings{When: "changed ?value,\n?s\nwhere ?value > 10"}, diff.Select)
	r.answer(at(0), table(t, "a=11"))
	r.answer(at(1), table(t, "a=12"))
	r.expect("1 firing")
}

func TestFor(t *testing.T) {
	r := newReplay(t, registry.RuleSettings{When: "rows > 1", For: minutes(30), Summary: "?rows rows"}, diff.Select)
	both, one := table(t, "a=1", "b=1"), table(t, "a=1")
	r.answer(at(0), both)
	r.answer(at(29), both)
	r.expect("0 pending: 2 rows")
	r.answer(at(29), one)
	r.expect("29 cleared: 2 rows")
	r.answer(at(30), both)
	r.answer(at(59), table(t, "a=1", "b=1", "c=1"))
	if next := r.p.Next(&r.s); !next.Equal(at(60)) {
		t.Errorf("next at %v", next)
	}
	r.answer(at(61), both) // the first answer afterwards; the time of firing is its
	r.expect("30 pending: 2 rows", "61 firing: 2 rows")
}

func TestKeepFiringFor(t *testing.T) {
	r := newReplay(t, registry.RuleSettings{When: "rows > 0", KeepFiringFor: minutes(10)}, diff.Select)
	some, none := table(t, "a=1"), table(t)
	r.answer(at(0), some)
	r.answer(at(5), none)
	r.answer(at(14), none)
	r.answer(at(14), some) // met again
	r.answer(at(20), none)
	r.answer(at(29), none)
	r.expect("0 firing")
	r.answer(at(30), none)
	r.expect("30 resolved")
}

func TestChanged(t *testing.T) {
	r := newReplay(t, registry.RuleSettings{When: "changed", Summary: "+?added -?removed"}, diff.Select)
	r.answer(at(0), table(t, "a=1"))
	r.expect() // the baseline is no change
	r.answer(at(1), table(t, "b=1", "c=1"))
	r.answer(at(4), table(t, "b=1"))
	r.answer(at(8), table(t, "b=1"))
	r.expect("1 firing: +2 -1")
	r.answer(at(9), table(t, "b=1"))
	r.expect("9 resolved: +0 -1")
}

func TestAskAndConstruct(t *testing.T) {
	r := newReplay(t, registry.RuleSettings{When: "?boolean = true"}, diff.Ask)
	for i, yes := range []bool{false, true, true, false} {
		r.answer(at(i), answer(t, yes))
	}
	r.expect("1 firing", "3 resolved")

	p, err := rule.Compile(registry.RuleSettings{Name: "r", When: `?predicate = <http://x/p> and ?object contains "b"`,
		Labels: map[string]string{"of": "?subject"}}, diff.Construct, nil, mostRows)
	if err != nil {
		t.Fatal(err)
	}
	g, err := diff.Decode([]byte("<http://x/s> <http://x/p> \"abc\" .\n<http://x/t> <http://x/p> \"ac\" .\n"), diff.Construct, false)
	if err != nil {
		t.Fatal(err)
	}
	var s registry.RuleState
	events := p.Reset(&s, g, registry.Position{Epoch: "e", Seq: 7}, at(0))
	if len(events) != 1 || events[0].Labels["of"] != "http://x/s" || s.At.Seq != 7 {
		t.Errorf("%+v", events)
	}
}

// Where the log has a gap, the whole result takes the place of the changes.
func TestReset(t *testing.T) {
	r := newReplay(t, registry.RuleSettings{When: "?value > 10"}, diff.Select)
	r.answer(at(0), table(t, "a=11", "b=11"))
	events := r.p.Reset(&r.s, table(t, "b=11", "c=11"), registry.Position{Epoch: "other", Seq: 3}, at(5))
	var got []string
	for _, e := range events {
		got = append(got, string(e.State)+" "+e.Labels["s"])
	}
	slices.Sort(got)
	if d := cmp.Diff([]string{"firing http://x/c", "resolved http://x/a"}, got); d != "" {
		t.Error(d)
	}
	c := newReplay(t, registry.RuleSettings{When: "changed"}, diff.Select)
	c.answer(at(0), table(t, "a=1"))
	if e := c.p.Reset(&c.s, table(t, "a=1"), registry.Position{Epoch: "x", Seq: 1}, at(1)); len(e) != 0 {
		t.Errorf("the same result counts as a change: %+v", e)
	}
	if e := c.p.Reset(&c.s, table(t, "a=2"), registry.Position{Epoch: "x", Seq: 2}, at(2)); len(e) != 1 {
		t.Errorf("another result is no change: %+v", e)
	}
}

const mostRows = 1000 // that may meet a condition

// More rows than the limit stop the rule, and fewer rows start it again. Neither fires nor
// resolves anything that is not so.
func TestTooManyRows(t *testing.T) {
	r := newReplay(t, registry.RuleSettings{When: "?value > 10"}, diff.Select)
	var rows []string
	for i := range mostRows + 1 {
		rows = append(rows, fmt.Sprintf("r%d=20", i))
	}
	r.answer(at(0), table(t, "a=11"))
	r.answer(at(1), table(t, rows...))
	r.expect("0 firing a")
	if !rule.NeedsResult(&r.s) || !strings.Contains(r.s.Problem, "1000 rows (limits.rule_rows)") || len(r.s.Alerts) != 1 {
		t.Fatalf("%q, %d alerts", r.s.Problem, len(r.s.Alerts))
	}
	events := r.p.Reset(&r.s, table(t, rows[1:]...), registry.Position{Epoch: "e", Seq: 3}, at(3))
	if len(events) != mostRows+1 || rule.NeedsResult(&r.s) || len(r.s.Alerts) != mostRows {
		t.Errorf("%d events, %d alerts, problem %q", len(events), len(r.s.Alerts), r.s.Problem)
	}
}

func TestEnd(t *testing.T) {
	r := newReplay(t, registry.RuleSettings{When: "?value > 10", KeepFiringFor: minutes(60)}, diff.Select)
	r.answer(at(0), table(t, "a=11"))
	events := r.p.End(&r.s, at(1))
	if len(events) != 1 || events[0].State != registry.AlertResolved || !r.s.Ended || len(r.s.Alerts) != 0 {
		t.Errorf("%+v %+v", events, r.s)
	}
}

func TestBadSettings(t *testing.T) {
	for _, c := range []struct {
		pointer, says string
		form          diff.Form
		edit          func(*registry.RuleSettings)
	}{
		{"/name", "is missing", diff.Select, func(r *registry.RuleSettings) { r.Name = "" }},
		{"/name", "no blanks", diff.Select, func(r *registry.RuleSettings) { r.Name = "a b" }},
		{"/name", "are ids", diff.Select, func(r *registry.RuleSettings) { r.Name = "rule_1" }},
		{"/when", "is missing; write rows > 0", diff.Select, func(r *registry.RuleSettings) { r.When = " " }},
		{"/when", "at most 2000 bytes", diff.Select, func(r *registry.RuleSettings) { r.When += strings.Repeat(" ", 2000) }},
		{"/when", "needs a value", diff.Select, func(r *registry.RuleSettings) { r.When = "?value >" }},
		{"/when", "needs a comparison", diff.Select, func(r *registry.RuleSettings) { r.When = "?value is 3" }},
		{"/when", "neither a variable", diff.Select, func(r *registry.RuleSettings) { r.When = "value > 3" }},
		{"/when", "there is ?s, ?value", diff.Select, func(r *registry.RuleSettings) { r.When = "?price > 3" }},
		{"/when", "is a variable", diff.Select, func(r *registry.RuleSettings) { r.When = "?value > ?s" }},
		{"/when", `begin with "and"`, diff.Select, func(r *registry.RuleSettings) { r.When = "?value > 3 or ?s = x" }},
		{"/when", "closing quote", diff.Select, func(r *registry.RuleSettings) { r.When = `?s = "x` }},
		{"/when", "whole number", diff.Select, func(r *registry.RuleSettings) { r.When = "rows > -1" }},
		{"/when", "cannot be combined", diff.Select, func(r *registry.RuleSettings) { r.When = "rows > 1 and ?value > 2" }},
		{"/when", "?boolean = true", diff.Ask, func(r *registry.RuleSettings) { r.When = "rows > 1" }},
		{"/for", "at most 30 days", diff.Select, func(r *registry.RuleSettings) { r.For = registry.Duration(1000 * time.Hour) }},
		{"/for", "leave out for", diff.Select, func(r *registry.RuleSettings) { r.When, r.For = "changed", minutes(1) }},
		{"/labels/alertname", "leave it out", diff.Select, func(r *registry.RuleSettings) { r.Labels = map[string]string{"alertname": "x"} }},
		{"/labels/a-b", "letters, digits", diff.Select, func(r *registry.RuleSettings) { r.Labels = map[string]string{"a-b": "x"} }},
		{"/labels/" + strings.Repeat("a", 129), "at most 128", diff.Select, func(r *registry.RuleSettings) {
			r.Labels = map[string]string{strings.Repeat("a", 129): "x"}
		}},
		{"/labels/x", "names ?y", diff.Select, func(r *registry.RuleSettings) { r.Labels = map[string]string{"x": "?y"} }},
		{"/labels/x", "one alert only", diff.Select, func(r *registry.RuleSettings) {
			r.When, r.Labels = "rows > 1",
				map[string]string{"x": "?s"}
		}},
		{"/summary", "names ?y", diff.Select, func(r *registry.RuleSettings) { r.Summary = "is ?y up?" }},
		{"/summary", "?rows, ?added", diff.Select, func(r *registry.RuleSettings) { r.When, r.Summary = "changed", "?nothing" }},
	} {
		r := registry.RuleSettings{Name: "r", When: "?value > 10"}
		c.edit(&r)
		_, err := rule.Compile(r, c.form, []string{"s", "value"}, mostRows)
		p := (*registry.Problem)(nil)
		if !errors.As(err, &p) || p.Kind != registry.KindBadSetting || p.Errors[0].Pointer != c.pointer || !strings.Contains(p.Detail, c.says) {
			t.Errorf("%+v: %v, want %s to say %q", r, err, c.pointer, c.says)
		}
	}
	if _, err := rule.Compile(registry.RuleSettings{Name: "r", When: "?value > 10"}, diff.Select, nil, mostRows); err == nil ||
		!strings.Contains(err.Error(), "name the labels") {
		t.Errorf("unknown variables: %v", err)
	}
}

// A model decides by looking at all answers so far.
type model struct {
	bound      int
	wait, keep time.Duration
	times      []time.Time
	met        []map[string]bool // by answer: who meets the condition
	firing     map[string]bool
}

// answer returns the names that fire and those that are resolved.
func (m *model) answer(at time.Time, rows map[string]int) (fired, resolved []string) {
	now := map[string]bool{}
	for s, v := range rows {
		if v > m.bound {
			now[s] = true
		}
	}
	m.times, m.met = append(m.times, at), append(m.met, now)
	// since returns when the last run of answers with this condition began.
	since := func(s string, met bool) (t time.Time, any bool) {
		for i := len(m.met) - 1; i >= 0 && m.met[i][s] == met; i-- {
			t, any = m.times[i], true
		}
		return t, any
	}
	for i := range 4 {
		s := fmt.Sprint("s", i)
		if t, any := since(s, true); any && !m.firing[s] && at.Sub(t) >= m.wait {
			m.firing[s] = true
			fired = append(fired, s)
		}
		if t, any := since(s, false); any && m.firing[s] && at.Sub(t) >= m.keep {
			delete(m.firing, s)
			resolved = append(resolved, s)
		}
	}
	return fired, resolved
}

// store returns the state that a store has after the change from one state to the next.
func store(t *testing.T, before registry.RuleState, after *registry.RuleState) registry.RuleState {
	t.Helper()
	text, err := json.Marshal(after.Since(&before))
	var c registry.RuleChange
	if err := errors.Join(err, json.Unmarshal(text, &c)); err != nil {
		t.Fatal(err)
	}
	s := c.RuleState
	if s.Alerts = maps.Clone(before.Alerts); s.Alerts == nil {
		s.Alerts = map[string]*registry.Alert{}
	}
	for key, a := range c.Alerts {
		if s.Alerts[key] = a; a == nil {
			delete(s.Alerts, key)
		}
	}
	s.Events = append(slices.Clone(before.Events), c.Events...)
	s.Events = s.Events[len(s.Events)-c.Kept:]
	return s
}

// Random answers lead to the alerts of the model, also if what changes is stored and read
// between any two answers, as after a crash.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	steps := 0
	for range 300 {
		m := &model{bound: rnd.IntN(4), wait: time.Duration(rnd.IntN(3)) * 5 * time.Minute,
			keep: time.Duration(rnd.IntN(3)) * 5 * time.Minute, firing: map[string]bool{}}
		r := newReplay(t, registry.RuleSettings{When: fmt.Sprintf("?value > %d", m.bound), For: registry.Duration(m.wait),
			KeepFiringFor: registry.Duration(m.keep)}, diff.Select)
		rows, last := map[string]int{}, registry.RuleState{}
		minute := 0
		for range 40 {
			minute += 1 + rnd.IntN(6)
			for range rnd.IntN(3) {
				if s := fmt.Sprint("s", rnd.IntN(4)); rnd.IntN(3) == 0 {
					delete(rows, s)
				} else {
					rows[s] = rnd.IntN(6)
				}
			}
			var list []string
			for s, v := range rows {
				list = append(list, fmt.Sprintf("%s=%d", s, v))
			}
			r.answer(at(minute), table(t, list...))
			fired, resolved := m.answer(at(minute), rows)
			var want []string
			for _, s := range fired {
				want = append(want, fmt.Sprintf("%d firing %s", minute, s))
			}
			for _, s := range resolved {
				want = append(want, fmt.Sprintf("%d resolved %s", minute, s))
			}
			got := slices.DeleteFunc(r.got, func(e string) bool { return strings.Contains(e, "pending") || strings.Contains(e, "cleared") })
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(want, got) {
				t.Fatalf("minute %d: %v, want %v", minute, got, want)
			}
			if steps += len(want); rnd.IntN(3) == 0 {
				last = store(t, last, &r.s)
				r.s = *last.Clone()
			}
			r.got = nil
		}
	}
	if steps < 1000 {
		t.Errorf("only %d alerts and resolutions", steps)
	}
}

// A copy of a state is independent of it.
func TestClone(t *testing.T) {
	r := newReplay(t, registry.RuleSettings{When: "?value > 10"}, diff.Select)
	r.answer(at(0), table(t, "a=11", "b=12"))
	whole := func() string {
		stored := store(t, registry.RuleState{}, &r.s)
		text, err := json.Marshal([]any{stored, stored.Alerts, stored.Events})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	before := whole()
	copied := r.s.Clone()
	d := diff.Compare(r.result, table(t, "b=13", "c=14"))
	r.p.Change(copied, &registry.Change{Epoch: "e", Prev: 1, Seq: 2, CheckedAt: at(1), Delta: d})
	if after := whole(); before != after {
		t.Errorf("%s\n%s", before, after)
	}
	if len(slices.Collect(maps.Keys(copied.Alerts))) != 2 {
		t.Errorf("%+v", copied.Alerts)
	}
}

// A replay of the log supposes confirmations: an alert fires when For has passed.
func TestAdvance(t *testing.T) {
	r := newReplay(t, registry.RuleSettings{When: "?value > 10", For: minutes(5), KeepFiringFor: minutes(5)}, diff.Select)
	r.answer(at(0), table(t, "a=11"))
	if e := r.p.Advance(&r.s, at(5)); len(e) != 0 {
		t.Errorf("the moment itself is included: %+v", e)
	}
	if e := r.p.Advance(&r.s, at(60)); len(e) != 1 || !e[0].Time.Equal(at(5)) || e[0].State != registry.AlertFiring {
		t.Errorf("%+v", e)
	}
	r.answer(at(60), table(t, "b=1"))
	if e := r.p.Advance(&r.s, at(90)); len(e) != 1 || !e[0].Time.Equal(at(65)) || e[0].State != registry.AlertResolved {
		t.Errorf("%+v", e)
	}
}

// Rules on a part of a change fire for the rows and variables that they name, and for no others.
func TestPartsOfChanges(t *testing.T) {
	steps := []struct {
		rows  []string
		fires map[string]string // summaries by condition
	}{
		{rows: []string{"a=1", "b=2"}},
		{[]string{"a=1", "b=3"}, map[string]string{"changed": "2 rows, 1 added, 1 removed: http://x/b is 3",
			"added":   "2 rows, 1 added, 1 removed: http://x/b is 3",
			"removed": "2 rows, 1 added, 1 removed: http://x/b is 2", "changed ?value where ?s = <http://x/b>": "2 rows, 1 added, 1 " +
				"removed: http://x/b is 3"}},
		{[]string{"a=1", "b=3", "c=3"}, map[string]string{"changed": "3 rows, 1 added, 0 removed: http://x/c is 3",
			"added":    "3 rows, 1 added, 0 removed: http://x/c is 3",
			"added ?s": "3 rows, 1 added, 0 removed: http://x/c is 3"}},
		{[]string{"b=3", "c=3"}, map[string]string{"changed": "2 rows, 0 added, 1 removed: http://x/a is 1",
			"removed":                            "2 rows, 0 added, 1 removed: http://x/a is 1",
			"removed ?s where ?s = <http://x/a>": "2 rows, 0 added, 1 removed: http://x/a is 1"}},
	}
	for _, when := range []string{"changed", "added", "removed", "added ?s", "removed ?s where ?s = <http://x/a>",
		"changed ?value where ?s = <http://x/b>", "changed ?s, ?value where ?s = \"other\""} {
		r := newReplay(t, registry.RuleSettings{When: when, KeepFiringFor: registry.Duration(time.Second),
			Summary: "?rows rows, ?added added, ?removed removed: ?s is ?value"}, diff.Select)
		for i, step := range steps {
			got := ""
			for _, e := range r.feed(at(10*i), table(t, step.rows...)) {
				if e.State == registry.AlertFiring {
					got = e.Summary
				}
			}
			if got != step.fires[when] {
				t.Errorf("%s, step %d: %q, want %q", when, i, got, step.fires[when])
			}
			r.feed(at(10*i+5), table(t, step.rows...)) // resolves it
		}
	}
	for when, want := range map[string]string{
		"changed ?nothing": "which is not available here", "changed where ?nothing = 1": "which is not available here",
		"added ?s and":  "expected to be variables",
		"removed where": "expected to be variables", "changed where rows > 1": "rows cannot be combined",
		"added ?": "no variable after", "changes": "begins with neither",
	} {
		_, err := rule.Compile(registry.RuleSettings{Name: "r", When: when}, diff.Select, []string{"s", "value"}, mostRows)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", when, err)
		}
	}
	if _, err := rule.Compile(registry.RuleSettings{Name: "r", When: "added"}, diff.Ask, nil, mostRows); err == nil {
		t.Error("an ASK query adds rows")
	}
}
