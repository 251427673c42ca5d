package web

import (
	"encoding/json"
	"math"
	"net/http"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web/api"
)

// trialRows is the number of rows that a trial shows.
const trialRows = 20

func (c queryAPI) validate() error {
	run, whole := c.params.flag("run"), c.params.flag("whole")
	if c.params.err != nil {
		return c.params.err
	}
	reg, err := c.registration()
	if err != nil {
		return err
	}
	rows := trialRows
	if whole {
		rows = math.MaxInt
	}
	v, err := c.analyse(reg, run, rows)
	return c.reply(http.StatusOK, v, err)
}

// analyse analyses a registration and, with run, executes its query once and shows some rows.
func (c queryAPI) analyse(reg registry.Registration, run bool, rows int) (api.Analysis, error) {
	q, err := c.Registry.Analyse(reg)
	if err != nil {
		return api.Analysis{}, err
	}
	v := api.Analysis{ID: q.ID, Endpoint: q.Endpoint, Form: q.Form, Ordered: q.Ordered, OrderKeys: q.OrderKeys, Normal: q.Normal,
		Constants: list(q.Constants), Warnings: list(q.Warnings)}
	if q.Limit >= 0 {
		v.Limit = &q.Limit
	}
	_, err = c.Queries.Item(q.ID)
	if v.Registered = err == nil; err != nil && !missing(err) {
		return v, err
	}
	if !run {
		return v, nil
	}
	v.Run, err = c.try(&q, rows)
	return v, err
}

func (c queryAPI) try(q *registry.Query, rows int) (*api.Trial, error) {
	leave, err := enter(c.tries, c.name())
	if err != nil {
		return nil, err
	}
	defer leave()
	a, err := c.Daemon.Trial(c.r.Context(), q)
	if err != nil {
		return nil, err
	}
	return viewTrial(a, rows), nil
}

func viewTrial(a scheduler.Answer, rows int) *api.Trial {
	v := &api.Trial{Outcome: string(a.Outcome), Elapsed: a.Elapsed.Seconds(), Error: a.Error}
	if !a.Outcome.Complete() || a.Result == nil {
		return v
	}
	n := a.Result.Len()
	v.Outcome, v.Rows, v.Results = "complete", &n, firstRows(a.Result, rows)
	return v
}

// firstRows returns the first rows of a result in the format of changes.
func firstRows(r *diff.Result, most int) json.RawMessage {
	if r.Form() == diff.Ask {
		return r.Document()
	}
	rows := make(diff.Rows, min(r.Len(), most))
	for i := range rows {
		rows[i] = r.Row(i)
	}
	return diff.RowsJSON(r.Form(), r.Vars(), rows)
}
