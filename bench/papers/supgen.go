package papers

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler/update"
)

// A SUPSet holds the pages of a data set. A policy runs over each of them.
type SUPSet struct {
	Pages []*SUPWorkload `json:"pages"`
}

// A SUPFile holds one page or a set of pages.
type SUPFile struct{ Workload }

// UnmarshalJSON reads a set if the member pages exists, otherwise a page.
func (f *SUPFile) UnmarshalJSON(b []byte) error {
	set := &SUPSet{}
	if err := json.Unmarshal(b, set); err != nil {
		return err
	}
	if f.Workload = set; set.Pages != nil {
		return nil
	}
	page := &SUPWorkload{}
	f.Workload = page
	return json.Unmarshal(b, page)
}

// MarshalJSON writes the page or the set.
func (f *SUPFile) MarshalJSON() ([]byte, error) { return json.Marshal(f.Workload) }

// A SUPSetResult is the result of a policy over all pages.
type SUPSetResult struct {
	Policy  string `json:"policy"`
	Pages   int    `json:"pages"`
	Probes  int    `json:"probes"`
	Utility int    `json:"utility"`
	// Effective is the utility relative to that of SUP on the true updates.
	Effective float64 `json:"effective"`
}

// Policies returns the policies of a page.
func (s *SUPSet) Policies() []string { return (&SUPWorkload{}).Policies() }

// Check returns an error if a page is invalid.
func (s *SUPSet) Check() error {
	for i, l := range s.Pages {
		if err := l.Check(); err != nil {
			return fmt.Errorf("page %d: %w", i, err)
		}
	}
	return nil
}

// Run runs a policy over each page.
func (s *SUPSet) Run(policy string) (Result, error) {
	out := &SUPSetResult{Policy: policy, Pages: len(s.Pages)}
	best := 0
	for _, l := range s.Pages {
		r, err := l.Run(policy)
		if err != nil {
			return nil, err
		}
		page := r.(*SUPResult)
		out.Probes += len(page.Probes)
		out.Utility += page.Utility
		best += len(l.rule().Spans(slices.Sorted(slices.Values(l.Updates)), l.N))
	}
	if best > 0 {
		out.Effective = float64(out.Utility) / float64(best)
	}
	return out, nil
}

// Cells returns the values of a table row.
func (r *SUPSetResult) Cells() []Cell {
	return []Cell{
		{"pages", fmt.Sprint(r.Pages)}, {"probes", fmt.Sprint(r.Probes)}, {"utility", fmt.Sprint(r.Utility)},
		{"effective utility", fmt.Sprintf("%.3f", r.Effective)},
	}
}

// SUPParams are the parameters of a generated set of pages, after tables 1 and 2 of
// "A dual framework and algorithms for targeted data delivery".
type SUPParams struct {
	Data  string // one of SUPData
	X     int
	Life  string // "overwrite" or "window"
	Y     int
	Model string  // "fpn", "poisson" (the rates that made the updates) or "learned" (from four epochs before)
	Z     float64 // of fpn
	Seed  uint64
}

// SUPChronons is the number of chronons in an epoch of any data set.
const SUPChronons = 1000

// supDataSets describes the data sets: objects and update events as in table 2.
var supDataSets = []struct {
	name            string
	objects, events int
	span            time.Duration
	intensity       func(at float64) float64 // by the part of the epoch gone
	uneven          float64                  // standard deviation of the logarithm of an object's rate
}{
	// The paper's RSS feeds are a recorded trace; this has its size, uneven feeds and
	// a daily pattern over four days.
	{"rss", 103, 1972, 4 * 24 * time.Hour, func(at float64) float64 { return 1.2 - math.Cos(8*math.Pi*at) }, 1},
	// Synthetic data 1: medium in the first half day, low for two days, high in the last half day.
	{"auction", 244, 3754, 3 * 24 * time.Hour, func(at float64) float64 {
		switch {
		case at < 1.0/6:
			return 4
		case at < 5.0/6:
			return 1
		}
		return 10
	}, 0},
	// Synthetic data 2: a week, working days apart from weekends, working hours from nights.
	{"week", 792, 4194, 7 * 24 * time.Hour, func(at float64) float64 {
		hour := math.Mod(at*7*24, 24)
		if at < 5.0/7 && hour >= 8 && hour < 18 {
			return 8
		}
		return 1
	}, 0},
}

// SUPData names the data sets.
func SUPData() []string {
	var names []string
	for _, d := range supDataSets {
		names = append(names, d.name)
	}
	return names
}

// SUPBaseline returns the parameters of one data set with overwrite and FPN(0.6).
func SUPBaseline() SUPParams {
	return SUPParams{Data: "auction", X: 1, Life: "overwrite", Model: "fpn", Z: 0.6, Seed: 1}
}

// Generate makes the pages. The same parameters give the same pages. Other rules and
// models have the same updates.
func (p SUPParams) Generate() (*SUPSet, error) {
	at := slices.Index(SUPData(), p.Data)
	if at < 0 {
		return nil, fmt.Errorf("%w: data set %q; there are %v", ErrWorkload, p.Data, SUPData())
	}
	if p.Model != "fpn" && p.Model != "poisson" && p.Model != "learned" || !(p.Z >= 0 && p.Z <= 1) {
		return nil, fmt.Errorf("%w: model %q with Z = %v; there are fpn with Z from 0 to 1, poisson and learned", ErrWorkload, p.Model, p.Z)
	}
	d := supDataSets[at]
	rng := rand.New(rand.NewPCG(p.Seed, uint64(at)+0x509))
	noise := rand.New(rand.NewPCG(p.Seed, uint64(at)+0xf94))
	shares, sum := make([]float64, d.objects), 0.0
	for i := range shares {
		shares[i] = math.Exp(d.uneven * rng.NormFloat64())
		sum += shares[i]
	}
	shape, total := make(update.Rates, SUPChronons), 0.0
	for t := range shape {
		shape[t] = d.intensity((float64(t) + 0.5) / SUPChronons)
		total += shape[t]
	}
	s := &SUPSet{}
	for _, share := range shares {
		rates := make(update.Rates, SUPChronons)
		for t := range rates {
			rates[t] = shape[t] / total * float64(d.events) * share / sum
		}
		l := &SUPWorkload{N: SUPChronons, X: p.X, Life: p.Life, Y: p.Y, Updates: rates.Sample(rng)}
		switch p.Model {
		case "fpn":
			l.Model = update.Noisy(noise, l.Updates, l.N, p.Z)
		case "poisson":
			l.Model = rates.Expected()
		default:
			var past []int
			for e := range pastEpochs {
				for _, t := range rates.Sample(noise) {
					past = append(past, t+e*SUPChronons)
				}
			}
			l.Model = learned(past, d.span)
		}
		s.Pages = append(s.Pages, l)
	}
	return s, s.Check()
}

// seeded is Generate with another seed.
func (p SUPParams) seeded(seed uint64) (*SUPSet, error) {
	p.Seed = seed
	return p.Generate()
}

// pastEpochs is the number of epochs that the model "learned" learns from.
const pastEpochs = 4

// learned returns the updates that a Week expects after the updates of past epochs.
func learned(past []int, span time.Duration) []int {
	chronon := span / SUPChronons
	start := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC) // a Monday
	var w update.Week
	at := func(t int) time.Time { return start.Add(time.Duration(t) * chronon) }
	prev := 0
	for _, t := range past {
		if t-1 > prev {
			w.Learn(at(prev), at(t-1), false)
		}
		w.Learn(at(t-1), at(t), true)
		prev = t
	}
	if end := pastEpochs * SUPChronons; end > prev {
		w.Learn(at(prev), at(end), false)
	}
	return w.Rates(at(pastEpochs*SUPChronons), chronon, SUPChronons).Expected()
}
