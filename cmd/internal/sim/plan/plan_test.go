package plan

import (
	"encoding/json"
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
	for _, bad := range []string{"", "f", "fx", "f-1"} {
		if _, err := New(1).Without(bad); err == nil {
			t.Errorf("%q is a part", bad)
		}
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
