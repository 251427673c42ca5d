package web

import (
	"encoding/json"
	"net/http"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// An analysisView is the result of analysing a registration.
type analysisView struct {
	ID         string             `json:"id"`         // the id it would get
	Registered bool               `json:"registered"` // it is already registered
	Endpoint   string             `json:"endpoint"`
	Form       diff.Form          `json:"form"`
	Ordered    bool               `json:"ordered"`
	OrderKeys  []string           `json:"order_keys,omitempty"`
	Limit      *int64             `json:"limit"` // the text's own top-level LIMIT
	Normal     string             `json:"normal"`
	Constants  []string           `json:"constants"`
	Warnings   []registry.Warning `json:"warnings"`
	Run        *trialView         `json:"run,omitempty"`
}

// A trialView is a single execution whose result is not stored.
type trialView struct {
	Outcome string          `json:"outcome"` // complete, or the error
	Elapsed float64         `json:"elapsed_seconds"`
	Rows    *int            `json:"rows,omitempty"` // of the whole result
	Results json.RawMessage `json:"results,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// trialRows is the number of rows that a trial shows.
const trialRows = 20

func (c queryAPI) validate() error {
	run := c.params.flag("run")
	if c.params.err != nil {
		return c.params.err
	}
	reg, err := c.registration()
	if err != nil {
		return err
	}
	v, err := c.analyse(reg, run)
	return c.reply(http.StatusOK, v, err)
}

// analyse analyses a registration and, with run, executes its query once.
func (c queryAPI) analyse(reg registry.Registration, run bool) (analysisView, error) {
	q, err := c.Registry.Analyse(reg)
	if err != nil {
		return analysisView{}, err
	}
	v := analysisView{ID: q.ID, Endpoint: q.Endpoint, Form: q.Form, Ordered: q.Ordered, OrderKeys: q.OrderKeys, Normal: q.Normal,
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
	v.Run, err = c.try(&q)
	return v, err
}

func (c queryAPI) try(q *registry.Query) (*trialView, error) {
	leave, err := c.exclusive(c.tries)
	if err != nil {
		return nil, err
	}
	defer leave()
	a, err := c.Daemon.Trial(c.r.Context(), q)
	if err != nil {
		return nil, err
	}
	return viewTrial(a), nil
}

func viewTrial(a scheduler.Answer) *trialView {
	v := &trialView{Outcome: string(a.Outcome), Elapsed: a.Elapsed.Seconds(), Error: a.Error}
	if !a.Outcome.Complete() || a.Result == nil {
		return v
	}
	n := a.Result.Len()
	v.Outcome, v.Rows, v.Results = "complete", &n, firstRows(a.Result)
	return v
}

// firstRows returns the first rows of a result in the format of changes.
func firstRows(r *diff.Result) json.RawMessage {
	if r.Form() == diff.Ask {
		return r.Document()
	}
	rows := make(diff.Rows, min(r.Len(), trialRows))
	for i := range rows {
		rows[i] = r.Row(i)
	}
	return diff.RowsJSON(r.Form(), r.Vars(), rows)
}
