package plan

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A plan follows from its seed.
func TestNew(t *testing.T) {
	text := func(seed uint64) string {
		b, err := json.Marshal(New(seed))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if first, second := text(7), text(7); first != second {
		t.Error("two plans of one seed differ")
	}
	if text(7) == text(8) {
		t.Error("two seeds have one plan")
	}
}

// Each part of a plan can be left out, and what stays fits together.
func TestWithout(t *testing.T) {
	for seed := range uint64(50) {
		p := New(seed)
		before, _ := json.Marshal(p)
		if err := p.Check(p.Parts()...); err != nil {
			t.Error(err)
		}
		for _, name := range p.Parts() {
			o, err := p.Without(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range o.Followers {
				if f.Query >= len(o.Queries) {
					t.Errorf("seed %d without %s: a follower of query %d", seed, name, f.Query)
				}
			}
			for _, x := range o.Rules {
				if x.Query >= len(o.Queries) {
					t.Errorf("seed %d without %s: a rule about query %d", seed, name, x.Query)
				}
			}
			for _, h := range o.Hints {
				for _, q := range h.Queries {
					if q >= len(o.Queries) {
						t.Errorf("seed %d without %s: a hint about query %d", seed, name, q)
					}
				}
			}
			for _, q := range o.Queries {
				if last := q.Updates[len(q.Updates)-1]; last.At > o.Span {
					t.Errorf("seed %d without %s: the data changes at %s", seed, name, last.At)
				}
			}
			if o.Number() > p.Number() || o.Span > p.Span {
				t.Errorf("seed %d without %s has more than before", seed, name)
			}
		}
		if after, _ := json.Marshal(p); string(after) != string(before) {
			t.Errorf("seed %d: leaving out parts has changed the plan", seed)
		}
	}
	for _, bad := range []string{"", "f", "fx", "f-1", "z9", "9", "ä1"} {
		if _, err := New(1).Without(bad); err == nil || !strings.Contains(err.Error(), "f (faults of the endpoint)") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A plan says which parts it has.
func TestCheck(t *testing.T) {
	p := &Plan{Seed: 7, Span: 100 * time.Second, Queries: make([]Query, 3), Faults: make([]Fault, 1)}
	if err := p.Check("c1", "c100", "q0", "q2", "f0"); err != nil {
		t.Error(err)
	}
	want := " of seed 7 has no part "
	for _, bad := range []string{"c0", "c101", "q3", "f1", "f00", "f+0", "w0", "p0", "g0", "u0", "k0", "i0"} {
		err := p.Check("q0", bad)
		if err == nil || !strings.HasSuffix(err.Error(), want+bad+", but c1 to c100, q0 to q2, f0, n0 to n2") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := p.Check("z9"); err == nil || strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

// Settings are those of the last edit before a start.
func TestIn(t *testing.T) {
	p := &Plan{Settings: Settings{Policy: "rr"}, Edits: []Edit{{time.Minute, Settings{Policy: "ttl"}}}}
	for at, want := range map[time.Duration]string{0: "rr", time.Minute - 1: "rr", time.Minute: "ttl", time.Hour: "ttl"} {
		if got := p.In(at).Policy; got != want {
			t.Errorf("at %s: %s", at, got)
		}
	}
}

// Things go wrong when something else happens: alerts wait when the server believes a clock that was set, and queries are
// registered while a node is cut off.
func TestAim(t *testing.T) {
	believed, registered := 0, 0
	for seed := range uint64(300) {
		p := New(seed)
		for _, x := range p.Rules {
			for _, s := range p.Steps {
				for _, u := range p.Queries[x.Query].Updates {
					if after := s.At + patience - u.At; after >= 0 && after < max(x.For, x.Keep) {
						believed++
					}
				}
			}
		}
		for _, o := range p.Outages {
			for _, q := range p.Queries {
				if o.Kind == Off && o.Holds(q.Registered) {
					registered++
				}
			}
		}
		for _, f := range p.Followers {
			if f.From < p.Queries[f.Query].Registered {
				t.Errorf("seed %d: a follower of a query that is not there yet", seed)
			}
		}
		if p.Nodes > 0 && (p.Lease == 0 || len(p.Behind) != p.Nodes) {
			t.Errorf("seed %d: a cluster with leases of %s and clocks %v", seed, p.Lease, p.Behind)
		}
	}
	if believed < 20 || registered < 20 {
		t.Errorf("%d times the clock is believed while an alert may wait, and %d queries are registered while a node is cut off", believed,
			registered)
	}
}
