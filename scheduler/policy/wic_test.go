package policy

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/wic"
)

// gainOf is the definition: what an execution now captures of the possible changes
// in each slot since the last one.
func gainOf(u wic.Urgency, l wic.Life, pi float64, tau int) (g float64) {
	for age := range tau {
		urgency, life := 1.0, 1.0
		switch u.Kind {
		case wic.Exp:
			urgency = math.Pow(u.Param, float64(age))
		case wic.Sliding:
			if age > int(u.Param) {
				urgency = 0
			}
		}
		switch l.Kind {
		case wic.Overwrite:
			life = math.Pow(1-pi, float64(age))
		case wic.Window:
			if age > l.W {
				life = 0
			}
		}
		g += urgency * pi * life
	}
	return g
}

// The order in every slot is that of the definition, by weight. Holders' settings
// take precedence over the policy's, and ties go by age.
func TestLawCollectorOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := Parse(Definitions(), rapid.SampledFrom([]string{"wic", "wic:urgency=exp,0.5:life=append",
			"wic:urgency=sliding,4:life=window,9"}).Draw(t, "policy"))
		if err != nil {
			t.Fatal(err)
		}
		slot := uint64(30)
		var all []*Candidate
		gains := map[*Candidate]float64{}
		for i := range rapid.IntRange(1, 8).Draw(t, "queries") {
			c := &Candidate{Query: query(string(rune('a' + i)))}
			h := &c.Query.Holders[0]
			h.Weight = rapid.SampledFrom([]float64{0, 1, 3}).Draw(t, "weight")
			h.Urgency = rapid.SampledFrom([]string{"", "", "uniform", "exp,0.3"}).Draw(t, "urgency")
			h.Life = rapid.SampledFrom([]string{"", "", "overwrite", "window,2"}).Draw(t, "life")
			last := uint64(1)
			for range rapid.IntRange(0, 5).Draw(t, "executions") {
				x := Sample{Slot: last + rapid.Uint64Range(1, 5).Draw(t, "gap"), Changed: rapid.Bool().Draw(t, "changed")}
				c.Stats.State = p.Fold(c.Stats.State, last, x)
				last = x.Slot
			}
			c.Stats.Last = last
			u, l := p.(wicPolicy).settings(h)
			gains[c] = c.Query.Weight() * gainOf(u, l, p.Inputs(Moment{}, Ranking{}, c)["chance"], int(slot-last))
			all = append(all, c)
		}
		keys := p.(Ranker).Rank(Moment{Slot: slot}, all).Keys
		for i, a := range all {
			for j, b := range all {
				if gains[a] > gains[b]*(1+1e-9) && !(keys[i].Value < keys[j].Value) {
					t.Fatalf("%s gains %v and has %v, %s gains %v and has %v", a.Query.ID, gains[a], keys[i], b.Query.ID, gains[b], keys[j])
				}
			}
		}
	})
}

// If two holders have different settings, the larger gain decides.
func TestCollectorHolders(t *testing.T) {
	p, err := Parse(Definitions(), "wic:urgency=exp,0:life=append")
	if err != nil {
		t.Fatal(err)
	}
	c := &Candidate{Query: query("a"), Stats: Stats{Last: 1}}
	c.Query.Holders = append(c.Query.Holders, registry.Holder{Caller: "archive", Urgency: "uniform"})
	chance := p.Inputs(Moment{}, Ranking{}, c)["chance"]
	if got := -p.(Ranker).Rank(Moment{Slot: 11}, []*Candidate{c}).Keys[0].Value; math.Abs(got-10*chance) > 1e-12 {
		t.Errorf("gain %v, want ten slots' worth of %v", got, chance)
	}
}

// The estimate approaches the true probability, even if executions are so far apart
// that changes are missed, and follows when the probability changes.
func TestCollectorLearns(t *testing.T) {
	p, err := Parse(Definitions(), "wic")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(11, 12))
	for _, truth := range []float64{0.02, 0.05, 0.1, 0.3} {
		for _, gap := range []uint64{1, 4, 15} {
			if float64(gap)*truth > 2 {
				continue // nearly always changed, however often it is executed
			}
			var state []float64
			estimate := func(truth float64, slots uint64) float64 {
				last, sum, n := uint64(0), 0.0, 0
				for last < slots {
					next := last + 1 + rng.Uint64N(2*gap-1)
					changed := rng.Float64() < 1-math.Pow(1-truth, float64(next-last))
					state = p.Fold(state, last, Sample{Slot: next, Changed: changed, Elapsed: time.Second})
					if last = next; last > slots/2 {
						sum += p.Inputs(Moment{}, Ranking{}, &Candidate{Stats: Stats{State: state}})["chance"]
						n++
					}
				}
				return sum / float64(n)
			}
			for _, now := range []float64{truth, truth / 2} {
				if got := estimate(now, 12_000); got < now*0.6 || got > now*1.5 {
					t.Errorf("seed 11, 12, executions every %d slots: estimated %.4f, true %.4f", gap, got, now)
				}
			}
		}
	}
}

// Rank leaves out queries with nothing to gain, unless they are overdue.
func TestCollectorLeavesOut(t *testing.T) {
	p, err := Parse(Definitions(), "wic")
	if err != nil {
		t.Fatal(err)
	}
	idle, late := &Candidate{Query: query("a"), Stats: Stats{Last: 9}}, &Candidate{Query: query("b"), Stats: Stats{Last: 9}, Overdue: 9}
	keys := p.(Ranker).Rank(Moment{Slot: 9}, []*Candidate{idle, late}).Keys
	if keys[0].Due != 10 || keys[1].Due != 0 {
		t.Errorf("%+v", keys)
	}
}

// The spellings that the registry accepts are those that the policies parse.
func TestUrgencyAndLifeSpellings(t *testing.T) {
	for _, s := range []string{"uniform", "exp,0", "exp,1", "exp,0.25", "exp,1.0", "sliding,0", "sliding,999999", "exp,2", "exp",
		"sliding,x", "sliding,-1", "uniform,1", "exp,1.5", "exp,.", "soon"} {
		_, err := wic.ParseUrgency(s)
		if known := registry.CheckUrgency(s) == nil; known != (err == nil) {
			t.Errorf("urgency %q: the registry takes it: %v; the policy says %v", s, known, err)
		}
	}
	for _, s := range []string{"append", "overwrite", "window,0", "window,999999", "changes,1", "changes,64", "changes,65",
		"changes,0", "window", "window,-1", "append,1", "forever"} {
		_, err := wic.ParseLife(s)
		if known := registry.CheckLife(s) == nil; known != (err == nil) {
			t.Errorf("life %q: the registry takes it: %v; the policy says %v", s, known, err)
		}
	}
	if registry.CheckUrgency("") != nil || registry.CheckLife("") != nil {
		t.Error("none at all is refused")
	}
}
