package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// known makes a ranked query with a history: its baseline in the first of the
// slots, then executions of one second each; "+" after a slot is a change.
func known(p Policy, id string, history ...string) (registry.Query, Stats) {
	var s Stats
	for _, h := range history {
		var slot uint64
		fmt.Sscan(strings.TrimSuffix(h, "+"), &slot)
		x := Sample{Slot: slot, Elapsed: time.Second, Changed: strings.HasSuffix(h, "+")}
		if s.Executions > 0 {
			s.State = p.Fold(s.State, s.Last, x)
		}
		s.sample(x)
		s.Executions++
		s.Last = slot
	}
	s.Policy = p.String()
	return query(id), s
}

func query(id string) registry.Query {
	return registry.Query{ID: id, Endpoint: "city", Form: diff.Select, Holders: []registry.Holder{{Caller: registry.Anonymous}}}
}

// TestPolicies has one entry per policy: the order of named candidates in a
// slot, with the arithmetic.
func TestPolicies(t *testing.T) {
	type named struct {
		id      string
		history []string
	}
	covered := map[string]bool{}
	for _, c := range []struct {
		policy string
		slot   uint64
		given  []named
		want   []string
	}{
		{"rr", 10, []named{
			{"d", []string{"1", "9"}},
			{"c", []string{"1", "7+"}},
			{"b", []string{"1", "7"}}, // like c: ties go to the smaller id
			{"a", []string{"1", "8"}},
		}, []string{"b", "c", "a", "d"}},

		{"ttl:max=8:reset", 12, []named{
			{"a", []string{"1", "2", "4", "8"}},   // 1 → 2 → 4 → 8: due 8+8 = 16, not yet
			{"b", []string{"1", "2", "4", "8+"}},  // 1 → 2 → 4 → 1: due 8+1 = 9
			{"c", []string{"1", "2", "10"}},       // 1 → 2 → 4: due 10+4 = 14, not yet
			{"d", []string{"9"}},                  // the baseline leaves it at 1: due 10
			{"e", []string{"1", "2", "4", "5+"}},  // due 5+1 = 6
			{"f", []string{"1", "10"}},            // due 10+2 = 12
			{"g", []string{"1", "2+", "3+", "8"}}, // 1 → 1 → 1 → 2: due 8+2 = 10, like d, which ran later
		}, []string{"e", "b", "g", "d", "f"}},

		{"ttl:max=4:half", 12, []named{
			{"a", []string{"1", "2", "4", "8"}},  // 1 → 2 → 4 → min(4, 8) = 4: due 8+4 = 12
			{"b", []string{"1", "2", "4", "9+"}}, // 1 → 2 → 4 → 4 div 2 = 2: due 9+2 = 11
			{"c", []string{"1", "9+"}},           // 1 → max(1, 1 div 2) = 1: due 10
			{"d", []string{"1", "2", "11"}},      // due 11+4 = 15, not yet
		}, []string{"c", "b", "a"}},
	} {
		t.Run(c.policy, func(t *testing.T) {
			p, err := ParsePolicy(c.policy)
			if err != nil {
				t.Fatal(err)
			}
			covered[strings.Split(c.policy, ":")[0]] = true
			plan := newPlanner(p, time.Hour)
			for _, q := range c.given {
				plan.put(known(p, q.id, q.history...))
			}
			plan.begin(c.slot, time.Unix(0, 0), 0)
			var got []string
			for _, x := range plan.ranked.all() {
				got = append(got, x.Query.ID)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("order (-want +got):\n%s", d)
			}
		})
	}
	for _, d := range Policies() {
		if !covered[d.Name] {
			t.Errorf("policy %s has no entry here", d.Name)
		}
	}
}

func TestParsePolicy(t *testing.T) {
	for spelling, want := range map[string]string{
		"rr":                    "rr",
		"ttl":                   "ttl:max=32:reset",
		"ttl:half":              "ttl:max=32:half",
		"ttl:max=256":           "ttl:max=256:reset",
		"ttl:half:max=0256":     "ttl:max=256:half",
		"ttl:on=half":           "ttl:max=32:half",
		registry.DefaultPolicy:  registry.DefaultPolicy,
		"ttl:max=4294967295":    "ttl:max=4294967295:reset",
		"ttl:max=1:reset":       "ttl:max=1:reset",
		"ttl:max=32:on=reset":   "ttl:max=32:reset",
		"ttl:on=reset:max=0032": "ttl:max=32:reset",
	} {
		p, err := ParsePolicy(spelling)
		if err != nil {
			t.Errorf("%q: %v", spelling, err)
			continue
		}
		if p.String() != want {
			t.Errorf("%q is %q, want %q", spelling, p, want)
		}
		if again, err := ParsePolicy(p.String()); err != nil || again != p {
			t.Errorf("%q does not read back: %v", p, err)
		}
	}
	for _, bad := range []string{
		"", "RR", "lru", "rr:", "rr:max=3", "ttl:", "ttl:max", "ttl:max=", "ttl:max=0", "ttl:max=-1", "ttl:max=1.5",
		"ttl:max=4294967296", "ttl:max=3:max=4", "ttl:reset:half", "ttl:on=never", "ttl:min=3",
	} {
		_, err := ParsePolicy(bad)
		if !errors.Is(err, ErrPolicy) || !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
			t.Errorf("%q: the error is %v", bad, err)
		}
	}
	_, err := ParsePolicy("lru")
	for _, d := range Policies() {
		if !strings.Contains(err.Error(), d.Spelling()) {
			t.Errorf("%v does not name %s", err, d.Spelling())
		}
	}
}

func TestPolicyTable(t *testing.T) {
	var seen []string
	for _, d := range Policies() {
		if slices.Contains(seen, d.Name) || d.Doc == "" || d.Source == "" {
			t.Errorf("%q is there twice or undocumented", d.Name)
		}
		seen = append(seen, d.Name)
		if p, err := ParsePolicy(d.Spelling()); err != nil || p.String() != d.Spelling() {
			t.Errorf("%s: its spelling reads as %v, %v", d.Name, p, err)
		}
		for _, x := range d.Params {
			if x.Doc == "" || x.Default == "" {
				t.Errorf("%s: parameter %q is undocumented", d.Name, x.Name)
			}
		}
	}
}

// A policy keeps nothing of what it is given, and a state that was folded step
// by step is the one refolded from the samples.
func TestFoldIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := ParsePolicy(rapid.SampledFrom([]string{"rr", "ttl:max=8:reset", "ttl:max=256:half"}).Draw(t, "policy"))
		if err != nil {
			t.Fatal(err)
		}
		var s Stats
		for i := range rapid.IntRange(0, Ring).Draw(t, "executions") {
			x := Sample{Slot: s.Last + 1 + rapid.Uint64Range(0, 5).Draw(t, "wait"), Elapsed: time.Second, Changed: rapid.Bool().Draw(t, "changed")}
			if i > 0 {
				before := slices.Clone(s.State)
				next := p.Fold(s.State, s.Last, x)
				if !slices.Equal(before, s.State) {
					t.Fatalf("%s changed the state that it was given", p)
				}
				s.State = next
			}
			s.sample(x)
			s.Executions++
			s.Last = x.Slot
		}
		again := s
		again.refold(p)
		if !slices.Equal(again.State, s.State) {
			t.Fatalf("%s: refolded %v, folded %v", p, again.State, s.State)
		}
	})
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		ms   []int
		want time.Duration
	}{
		{nil, 0},
		{[]int{7}, 7 * time.Millisecond},
		{[]int{9, 1}, 5 * time.Millisecond},            // (1+9)/2
		{[]int{9, 1, 2}, 2 * time.Millisecond},         // 1 2 9
		{[]int{4, 1, 100, 3}, 3500 * time.Microsecond}, // (3+4)/2
	} {
		var s Stats
		for _, ms := range c.ms {
			s.sample(Sample{Elapsed: time.Duration(ms) * time.Millisecond})
		}
		if got := s.Median(); got != c.want {
			t.Errorf("median of %v is %s, want %s", c.ms, got, c.want)
		}
	}
}

// The ring keeps the last 63, and what was handed out stays as it was.
func TestRing(t *testing.T) {
	var s Stats
	var old []Stats
	for i := range uint64(500) {
		s.sample(Sample{Slot: i})
		old = append(old, s.frozen())
	}
	for i, o := range old {
		if n := len(o.Samples); n != min(i+1, Ring) {
			t.Fatalf("%d samples after %d executions", n, i+1)
		}
		for k, x := range o.Samples {
			if want := uint64(i + 1 - len(o.Samples) + k); x.Slot != want {
				t.Fatalf("after %d executions sample %d is of slot %d, want %d", i+1, k, x.Slot, want)
			}
		}
		_ = append(o.Samples, Sample{Slot: 999}) // somebody else grows his copy
	}
}
