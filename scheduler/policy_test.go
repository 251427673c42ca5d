package scheduler

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// known returns a ranked query with a history: its baseline in the first of the slots,
// then executions. "7+" is an execution in slot 7 that found a change, "7+.5" one with
// Jaccard distance 0.5 (otherwise 1), "7/20" one that took 20 ms (otherwise a second).
func known(p policy.Policy, id string, history ...string) (registry.Query, policy.Stats) {
	var s policy.Stats
	for _, h := range history {
		x := policy.Sample{Elapsed: time.Second}
		h, ms, timed := strings.Cut(h, "/")
		if timed {
			n, _ := strconv.Atoi(ms)
			x.Elapsed = time.Duration(n) * time.Millisecond
		}
		h, distance, changed := strings.Cut(h, "+")
		if x.Changed = changed; changed {
			x.Jaccard = 1
			fmt.Sscan(distance, &x.Jaccard)
		}
		fmt.Sscan(h, &x.Slot)
		if s.Executions > 0 {
			s.State = p.Fold(s.State, s.Last, x)
		}
		s.Remember(x)
		s.Executions++
		s.Last = x.Slot
	}
	s.Policy = p.String()
	return query(id), s
}

// named returns a policy of the table.
func named(spelling string) policy.Policy {
	p, err := ParsePolicy(spelling)
	if err != nil {
		panic(err)
	}
	return p
}

// told is an oracle that reads the future in the id of a query.
func told(_ uint64, c *policy.Candidate) (f policy.Foresight) {
	fmt.Sscanf(c.Query.ID, "s%d,c%d,n%d,r%g,g%d,w%g,y%g", &f.Since, &f.Cost, &f.Next, &f.Rate, &f.Signals, &f.Worth, &f.Yield)
	f.Miss, f.Lie = 0.1, 0.5
	return f
}

func query(id string) registry.Query {
	return registry.Query{ID: id, Endpoint: "city", Form: diff.Select, Holders: []registry.Holder{{Caller: registry.Anonymous}}}
}

// TestPolicies has one entry per policy: the order of named candidates in a slot, with
// the calculation.
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

		{"sjf:lambda=0.5", 10, []named{
			{"a", []string{"9/1000"}},                  // ln 1000 + 0.5·9 = 6.908 + 4.5 = 11.408
			{"b", []string{"1/9000"}},                  // ln 9000 + 0.5·1 = 9.105 + 0.5 = 9.605: old enough to pass a
			{"c", []string{"9/5"}},                     // ln 5 + 4.5 = 1.609 + 4.5 = 6.109
			{"d", []string{"2/100", "4/300", "7/200"}}, // median 200: ln 200 + 3.5 = 5.298 + 3.5 = 8.798
			{"e", []string{"3/100", "9/300"}},          // median (100+300)/2 = 200: 5.298 + 4.5 = 9.798
			{"0", []string{"9/5"}},                     // like c: ties go to the smaller id
		}, []string{"0", "c", "d", "b", "e", "a"}},

		{"sjf:lambda=0", 5000, []named{ // the median alone, then age
			{"a", []string{"4999/7"}}, {"b", []string{"1/8"}}, {"c", []string{"3/7"}},
		}, []string{"c", "a", "b"}},

		{"sjf:lambda=1", 5000, []named{ // e^(−4999) is not nothing
			{"a", []string{"2/10"}}, // 2 + ln 10 = 4.303
			{"b", []string{"1/20"}}, // 1 + ln 20 = 3.996
			{"c", []string{"1/10"}}, // 1 + ln 10 = 3.303
		}, []string{"c", "b", "a"}},

		{"ljf:lambda=1", 10, []named{
			{"a", []string{"9/1000"}}, // 9 − ln 1000 = 9 − 6.908 = 2.092
			{"b", []string{"1/10"}},   // 1 − ln 10 = 1 − 2.303 = −1.303
			{"c", []string{"9/9000"}}, // 9 − 9.105 = −0.105
			{"d", []string{"9/9000"}}, // ties
			{"e", []string{"8/0"}},    // divided by nothing: last
		}, []string{"b", "c", "d", "a", "e"}},

		{"cr:lambda=0", 9, []named{
			{"a", []string{"1", "3+", "5+", "8"}}, // 1 + 1 − 1 = 1
			{"b", []string{"1", "3+", "4+"}},      // 2
			{"c", []string{"1", "7"}},             // −1
			{"d", []string{"1"}},                  // 0 at the start
			{"e", []string{"1", "7", "8+"}},       // −1 + 1 = 0, but younger than d
			{"f", []string{"1", "2+"}},            // 1, older than a
			{"g", []string{"1", "7", "8"}},        // −2
		}, []string{"b", "f", "a", "d", "e", "c", "g"}},

		{"cr:lambda=0.5", 9, []named{
			{"a", []string{"1", "3+"}},      // 1: e^(−0.5·6) = 0.050
			{"b", []string{"1", "5+", "7"}}, // e^(−1) − 1 = −0.632: ·e^(−1) = −0.233
			{"c", []string{"1", "7"}},       // −1·e^(−1) = −0.368
			{"d", []string{"1"}},            // 0
			{"e", []string{"1", "2"}},       // −1·e^(−3.5) = −0.030: rises with age
			{"f", []string{"1", "6", "8+"}}, // −e^(−1) + 1 = 0.632: ·e^(−0.5) = 0.383
		}, []string{"f", "a", "d", "e", "b", "c"}},

		{"dj", 2000, []named{
			{"a", []string{"1", "3+.5", "1999"}},     // 0.5·e^(−1997), which a float takes for nothing
			{"b", []string{"1", "1999"}},             // 0, behind every positive value
			{"c", []string{"1", "3+.25", "4"}},       // 0.25·e^(−1997)
			{"d", []string{"1", "1990+", "1995"}},    // e^(−10)
			{"e", []string{"1", "1990+", "1992"}},    // e^(−10) too: ties go to the older
			{"f", []string{"1", "2"}},                // 0, older than b
			{"g", []string{"1", "1988+", "1990+.9"}}, // (e^(−2) + 0.9)·e^(−10) = 1.035·e^(−10)
		}, []string{"g", "e", "d", "a", "c", "f", "b"}},

		{"ttl:max=8:reset", 12, []named{
			{"a", []string{"1", "2", "4", "8"}},   // 1 → 2 → 4 → 8: due 8+8 = 16, not yet
			{"b", []string{"1", "2", "4", "8+"}},  // 1 → 2 → 4 → 1: due 8+1 = 9
			{"c", []string{"1", "2", "10"}},       // 1 → 2 → 4: due 10+4 = 14, not yet
			{"d", []string{"9"}},                  // the baseline leaves it at 1: due 10
			{"e", []string{"1", "2", "4", "5+"}},  // due 5+1 = 6
			{"f", []string{"1", "10"}},            // due 10+2 = 12
			{"g", []string{"1", "2+", "3+", "8"}}, // 1 → 1 → 1 → 2: due 8+2 = 10, like d, which ran later
		}, []string{"e", "b", "g", "d", "f"}},

		{"sqrt", 49, []named{ // an hour of budget a slot, 24 slots a day: one refresh a slot for all that need it
			{"a", []string{"1", "2+", "3+", "46+"}}, // due since slot 47
			{"b", []string{"1", "2+", "3+", "48+"}}, // due now
			{"c", []string{"1", "2+", "3+", "44+"}}, // due longest
			{"d", []string{"1", "2", "3", "48"}},    // never changed, but there is room for one a slot
		}, []string{"c", "a", "b", "d"}},

		{"cv", 10, []named{ // told since when it is stale, and what it costs now
			{"s8,c5", []string{"1"}},
			{"s7,c9", []string{"2"}},
			{"s8,c4", []string{"3"}},
			{"s0,c1", []string{"1"}}, // not stale: left out
			{"s8,c6", []string{"7"}},
		}, []string{"s7,c9", "s8,c4", "s8,c5", "s8,c6"}},

		{"edf", 10, []named{ // and when it changes again
			{"s8,c5,n14", []string{"1"}},
			{"s7,c9,n12", []string{"2"}},
			{"s8,c4,n14", []string{"3"}},
			{"s0,c1,n11", []string{"1"}}, // not stale: left out
			{"s8,c6,n11", []string{"7"}},
		}, []string{"s8,c6,n11", "s7,c9,n12", "s8,c4,n14", "s8,c5,n14"}},

		{"rates", 10, []named{ // (1 − e^(−x)(1 + x)) / seconds, x = rate × slots
			{"s0,c0,n0,r0.1", []string{"1", "9"}},           // x = 0.1 in 1 s: 0.0047
			{"s8,c0,n0,r0.1", []string{"1", "5"}},           // 0.5: 0.0902, whether it is stale or not
			{"s0,c0,n0,r0.2", []string{"1", "5"}},           // 1: 0.264
			{"s0,c0,n0,r0.3", []string{"1/2000", "8/2000"}}, // 0.6 in 2 s: 0.061
			{"s8,c0,n0,r0", []string{"1", "2"}},             // never changes: left out
		}, []string{"s0,c0,n0,r0.2", "s8,c0,n0,r0.1", "s0,c0,n0,r0.3", "s0,c0,n0,r0.1"}},

		{"bayes", 301, []named{ // worth per second, and the yield of 0.5 if it has waited for 300 slots
			{"s0,c0,n0,r0,g0,w0.3,y0.5", []string{"1", "299"}},           // 0.3
			{"s0,c0,n0,r0,g0,w0.4,y0.5", []string{"1/2000", "299/2000"}}, // 0.2
			{"s0,c0,n0,r0,g0,w0.2,y0.5", []string{"1"}},                  // 0.7
			{"s0,c0,n0,r0,g0,w0.25,y0.5", []string{"1", "11"}},           // 0.25 + 0.5·(290/300)^24 = 0.472
		}, []string{"s0,c0,n0,r0,g0,w0.2,y0.5", "s0,c0,n0,r0,g0,w0.25,y0.5", "s0,c0,n0,r0,g0,w0.3,y0.5", "s0,c0,n0,r0,g0,w0.4,y0.5"}},

		{"fresh", 10, []named{ // the same divided by the rate
			{"s0,c0,n0,r0.1", []string{"1", "9"}}, // 0.0047/0.1
			{"s8,c0,n0,r0.1", []string{"1", "5"}}, // 0.0902/0.1
			{"s0,c0,n0,r0.2", []string{"1", "5"}}, // 0.264/0.2
			{"s0,c0,n0,r1", []string{"1", "5"}},   // x = 5: 0.96
			{"s8,c0,n0,r0", []string{"1", "2"}},   // never changes: left out
		}, []string{"s0,c0,n0,r0.2", "s0,c0,n0,r1", "s8,c0,n0,r0.1", "s0,c0,n0,r0.1"}},

		{"signals", 10, []named{ // a tenth of the changes has no signal, half of the signals are false: x = rate × slots/10 + signals × ln 2
			{"s0,c0,n0,r0.1,g0", []string{"1", "5"}}, // x = 0.05: 0.0012
			{"s0,c0,n0,r0.1,g1", []string{"1", "5"}}, // 0.743: 0.171
			{"s0,c0,n0,r0.1,g2", []string{"1", "5"}}, // 1.436: 0.42
			{"s0,c0,n0,r0.2,g1", []string{"1", "5"}}, // 0.793: 0.189
			{"s0,c0,n0,r0,g0", []string{"1", "2"}},   // never changes: left out
		}, []string{"s0,c0,n0,r0.1,g2", "s0,c0,n0,r0.2,g1", "s0,c0,n0,r0.1,g1", "s0,c0,n0,r0.1,g0"}},

		{"hybrid:d=8", 12, []named{
			{"a", []string{"1", "2", "3+", "4+", "11+"}}, // changes nearly always: worth about 0.9 per second
			{"b", []string{"1", "2", "3", "11"}},         // never did
			{"c", []string{"1", "2+", "11"}},             // once, long ago
			// has waited for 9 of 8 slots, which is worth a little more than the last second, and may show a first change
			{"d", []string{"1", "2", "3"}},
			{"e", []string{"1/1", "2+/1", "11/1"}},           // like c in a thousandth of the time
			{"f", []string{"1", "2+/1", "3/1", "5", "11/1"}}, // like e except for what it learnt meanwhile: nothing changed by 3 and 5
		}, []string{"e", "f", "a", "d", "c", "b"}},

		{"sedf:np", 12, []named{ // no profile here: hybrid's order
			{"a", []string{"1", "2", "3+", "4+", "11+"}},
			{"c", []string{"1", "2+", "11"}},
			{"b", []string{"1", "2", "3", "11"}},
		}, []string{"a", "c", "b"}},

		{"mrsf", 12, []named{ // no profile here: hybrid's order
			{"a", []string{"1", "2", "3+", "4+", "11+"}},
			{"c", []string{"1", "2+", "11"}},
			{"b", []string{"1", "2", "3", "11"}},
		}, []string{"a", "c", "b"}},

		{"medf:p", 12, []named{ // no profile here: hybrid's order
			{"a", []string{"1", "2", "3+", "4+", "11+"}},
			{"c", []string{"1", "2+", "11"}},
			{"b", []string{"1", "2", "3", "11"}},
		}, []string{"a", "c", "b"}},

		{"wic", 10, []named{ // uniform, overwrite: 1 − (1 − π)^τ. Before anything is seen λ = 0.05/150
			{"a", []string{"1", "2+", "3+"}},       // λ = 2.05/152 = 0.0135 over 7 slots: 0.090
			{"b", []string{"1", "2+", "9"}},        // λ = 1.05/158 = 0.0066 over one
			{"c", []string{"1", "9"}},              // λ = 0.05/158 = 0.0003 over one
			{"d", []string{"1"}},                   // λ = 0.05/150 over 9: 0.0030
			{"e", []string{"1", "2+"}},             // λ = 1.05/151 = 0.0070 over 8: 0.054
			{"f", []string{"1", "2+", "3+", "9+"}}, // λ = 3.06/158 = 0.0194 over one
		}, []string{"a", "e", "f", "b", "d", "c"}},

		{"wic:urgency=exp,0:life=append", 10, []named{ // π alone: what changes in this very slot
			{"a", []string{"1", "2+", "3+"}}, {"b", []string{"1", "2+", "9"}}, {"c", []string{"1", "9"}},
			{"d", []string{"1"}}, {"e", []string{"1", "2+"}}, {"f", []string{"1", "2+", "3+", "9+"}},
		}, []string{"f", "a", "e", "b", "d", "c"}},

		{"sup", 20, []named{ // one update in 8 slots to begin with
			{"a", []string{"1"}},             // updates at 9 and 17: due 16
			{"b", []string{"10"}},            // due 25, not yet
			{"c", []string{"1", "2+", "3+"}}, // 3.18 updates in 10 slots, Λ is 0.35: updates at 5 and 8, due 7
			{"d", []string{"1", "19"}},       // 1 in 26 now: not before slot 60
		}, []string{"c", "a"}},

		{"sup:x=2", 30, []named{
			{"a", []string{"1", "2+", "11"}}, // 2.06 updates in 18 slots, Λ = 0.19: the 2nd and 3rd expected after 11 + 16 and 38: due 38, not yet
			{"b", []string{"1", "2+", "3+"}}, // Λ = 0.35: the 2nd and 3rd expected at 8 and 11: due 10
			{"c", []string{"1"}},             // updates at 9, 17 and 25: due 24
		}, []string{"b", "c"}},

		{"fbsup:x=2", 30, []named{
			{"a", []string{"1", "2+", "11"}}, // one update was seen, one is missing: the next expected lives up to 29
			{"b", []string{"1", "2+", "3+"}}, // two were seen: as under sup
			{"c", []string{"1"}},
			{"d", []string{"20"}}, // 20 + 3·8 − 1 = 43, not yet
		}, []string{"b", "c", "a"}},

		{"sup:life=window,3", 20, []named{
			{"a", []string{"1"}},  // 9 + 3 = 12
			{"b", []string{"10"}}, // 18 + 3 = 21, not yet
			{"c", []string{"8"}},  // 16 + 3 = 19
		}, []string{"a", "c"}},

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
			p = policy.Foresee(p, told)
			covered[strings.Split(c.policy, ":")[0]] = true
			var entries []policy.Entry
			for _, q := range c.given {
				query, stats := known(p, q.id, q.history...)
				entries = append(entries, policy.Entry{Query: query, Stats: stats})
			}
			now := time.Unix(0, 0)
			planner := plan.New(p, time.Hour)
			planner.Resume(c.slot, 0, "", nil)
			planner.Update(now, plan.Update{Entries: entries})
			slot := planner.Begin(now, plan.Terms{Width: 1, Timeout: time.Hour})
			var got []string
			for x := slot.Next(now); x != nil; x = slot.Next(now) {
				got = append(got, x.Query().ID)
				slot.Finish(x, Answer{Outcome: registry.Unchanged}, false)
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
		"sjf":                   "sjf:lambda=0.5",
		"sjf:lambda=.50":        "sjf:lambda=0.5",
		"sjf:lambda=1e308":      "sjf:lambda=1e+06",
		"ljf:lambda=1":          "ljf:lambda=1",
		"cr":                    "cr:lambda=0",
		"cr:lambda=-0":          "cr:lambda=0",
		"cr:lambda=1e-3":        "cr:lambda=0.001",
		"dj":                    "dj",
		"cv":                    "cv",
		"sqrt":                  "sqrt",
		"wic":                   "wic:urgency=uniform:life=overwrite",
		"wic:urgency=exp,.50":   "wic:urgency=exp,0.5:life=overwrite",
		"wic:life=changes,02":   "wic:urgency=uniform:life=changes,2",
		"sup":                   "sup:x=1:life=overwrite",
		"fbsup:life=window,7":   "fbsup:x=1:life=window,7",
		"mrsf":                  "mrsf:p",
		"sedf:np":               "sedf:np",
		"medf:mode=p":           "medf:p",
		"hybrid:d=auto":         "hybrid",
		"hybrid:d=32":           "hybrid:d=32",
	} {
		p, err := ParsePolicy(spelling)
		if err != nil {
			t.Errorf("%q: %v", spelling, err)
			continue
		}
		if p.String() != want {
			t.Errorf("%q is %q, want %q", spelling, p, want)
		}
		if again, err := ParsePolicy(p.String()); err != nil || again.String() != p.String() {
			t.Errorf("%q does not read back: %v", p, err)
		}
	}
	for _, bad := range []string{
		"", "RR", "lru", "rr:", "rr:max=3", "ttl:", "ttl:max", "ttl:max=", "ttl:max=0", "ttl:max=-1", "ttl:max=1.5",
		"ttl:max=4294967296", "ttl:max=3:max=4", "ttl:reset:half", "ttl:on=never", "ttl:min=3", "sjf:lambda=-1", "cr:lambda=NaN",
		"ljf:lambda=Inf", "dj:lambda=1", "cv:1", "hybrid:d=0",
		"hybrid:d=1.5", "mrsf:x", "sedf:p:np", "medf:mode=q", "wic:urgency=exp", "wic:urgency=exp,2", "wic:life=window,-1", "wic:life=changes,0",
		"sup:x=0", "sup:life=append", "fbsup:life=window", "fbsup:life=window,x", "hybrid:k=1", "hybrid:no-clock", "hybrid:d=4294967295",
	} {
		_, err := ParsePolicy(bad)
		if !errors.Is(err, policy.ErrPolicy) || !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
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

// A policy does not modify its arguments, and a state that was folded step by step
// equals the one that is refolded from the samples.
func TestFoldIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := ParsePolicy(rapid.SampledFrom([]string{"rr", "ttl:max=8:reset", "ttl:max=256:half", "sjf", "cr:lambda=0.5", "dj",
			"hybrid", "sqrt", "wic", "wic:life=changes,3", "sup", "fbsup:x=2"}).Draw(t, "policy"))
		if err != nil {
			t.Fatal(err)
		}
		var s policy.Stats
		for i := range rapid.IntRange(0, policy.Ring).Draw(t, "executions") {
			x := policy.Sample{Slot: s.Last + 1 + rapid.Uint64Range(0, 5).Draw(t, "wait"), Elapsed: time.Second,
				Changed: rapid.Bool().Draw(t, "changed")}
			if i > 0 {
				before := slices.Clone(s.State)
				next := p.Fold(s.State, s.Last, x)
				if !slices.Equal(before, s.State) {
					t.Fatalf("%s changed the state that it was given", p)
				}
				s.State = next
			}
			s.Remember(x)
			s.Executions++
			s.Last = x.Slot
		}
		again := s
		again.Refold(p)
		if !slices.Equal(again.State, s.State) {
			t.Fatalf("%s: refolded %v, folded %v", p, again.State, s.State)
		}
	})
}

// The package's documentation names every policy with its defaults.
func TestDocNamesPolicies(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Policies() {
		if !slices.Contains(strings.Fields(string(doc)), d.Spelling()) {
			t.Errorf("doc.go says nothing of %s", d.Spelling())
		}
	}
}
