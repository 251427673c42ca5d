package web

import (
	"net/http"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
)

// An explanationView is a scheduler.Explanation with the statistics behind it.
type explanationView struct {
	scheduler.Explanation
	LastRun    *runView   `json:"last_run"`
	NextDue    *time.Time `json:"next_due"`
	Statistics statsView  `json:"statistics"`
}

type runView struct {
	Slot    uint64           `json:"slot"`
	At      time.Time        `json:"at"`
	Elapsed float64          `json:"elapsed_seconds"`
	Outcome registry.Outcome `json:"outcome"`
	Error   string           `json:"error,omitempty"`
	Why     string           `json:"why,omitempty"`
}

type statsView struct {
	Last       uint64       `json:"last"` // slot of the last complete execution, 0 = none
	Executions uint64       `json:"executions"`
	Changes    uint64       `json:"changes"`
	Median     *float64     `json:"median_seconds"`
	Failures   uint32       `json:"failures"`
	Cuts       uint32       `json:"cuts"`
	NotBefore  uint64       `json:"not_before"`
	Samples    []sampleView `json:"samples"` // oldest first
}

type sampleView struct {
	Slot    uint64  `json:"slot"`
	Elapsed float64 `json:"elapsed_seconds"`
	Changed bool    `json:"changed"`
	Jaccard float64 `json:"jaccard"`
}

func explainQuery(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	e, err := c.Daemon.Explain(q.Endpoint, q.ID)
	if err != nil {
		return err
	}
	it, err := c.Queries.Item(q.ID)
	if err != nil {
		return err
	}
	stats, err := c.Queries.Stats(q.ID)
	if err != nil && !missing(err) {
		return err
	}
	if e.Inputs == nil {
		e.Inputs = map[string]float64{}
	}
	return c.json(http.StatusOK, explanationView{Explanation: e, LastRun: viewRun(e.LastRun), NextDue: moment(e.NextDue),
		Statistics: viewStats(stats, it.Status)})
}

// viewRun returns nil if there has been no run.
func viewRun(r policy.Run) *runView {
	if r.At.IsZero() {
		return nil
	}
	return &runView{r.Slot, r.At.UTC(), r.Elapsed.Seconds(), r.Outcome, r.Error, r.Why}
}

func viewStats(s policy.Stats, st registry.Status) statsView {
	v := statsView{Last: s.Last, Executions: s.Executions, Changes: s.Changes, Median: seconds(st), Failures: s.Failures, Cuts: s.Cuts,
		NotBefore: s.NotBefore, Samples: make([]sampleView, len(s.Samples))}
	for i, x := range s.Samples {
		v.Samples[i] = sampleView{x.Slot, x.Elapsed.Seconds(), x.Changed, x.Jaccard}
	}
	return v
}
