package ui

import (
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/web"
)

// A mergingView shows how queries that differ in constants only are asked.
type mergingView struct {
	Rows   []mergingRow
	Others int // templates that are not listed
}

// A mergingRow is one template.
type mergingRow struct {
	ID      string
	Text    string        // of the template
	Example *exampleQuery // one of the queries, nil if it is gone
	Queries int
	Kind    string
	// The expected cost in seconds of a request, and of each query and row in it.
	Request, Query, Row float64
	Requests            uint64
	Asked               uint64
	Void                uint64 // requests that said nothing
	Alone               int    // queries that are always asked alone
	Audits              uint64
	Different           uint64
	OffUntil            map[cohort.Kind]time.Time // when a kind is no longer switched off
}

// An exampleQuery is one of the queries of a template.
type exampleQuery struct{ Name, Link string }

const templatesListed = 20

// merging returns nil while queries are asked alone.
func (v endpointHandler) merging(e registry.Endpoint) (*mergingView, error) {
	if v.Merging == nil || e.Merge == registry.MergeOff {
		return nil, nil
	}
	list, err := v.Merging.Templates(e.Name)
	if isUnknown(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	m := &mergingView{}
	if n := len(list); n > templatesListed {
		list, m.Others = list[:templatesListed], n-templatesListed
	}
	for _, s := range list {
		m.Rows = append(m.Rows, v.mergingRow(s))
	}
	return m, nil
}

func (v endpointHandler) mergingRow(s cohort.Snapshot) mergingRow {
	r := mergingRow{ID: s.Template, Queries: s.Members, Kind: string(s.Kind), Audits: s.Audits, Different: s.Different, Request: s.A, Alone: s.Alone, Query: s.B, Row: s.C, OffUntil: s.OffUntil}
	if q, err := v.Registry.Query(s.Example); err == nil {
		r.Example = &exampleQuery{v.name(&q), queryPath(q.ID)}
		r.Text = clip(web.ShortIRIs(scheduler.TemplateText(&q), q.Text), 600)
	}
	for _, k := range cohort.Kinds() {
		r.Requests += s.Asks[k]
		r.Asked += s.Asked[k]
		r.Void += s.Void[k]
	}
	return r
}

// executionsSaved counts the executions in slots, and those of them that needed no
// request of their own.
func executionsSaved(all [][]scheduler.Slot) (saved, ran int) {
	for _, slots := range all {
		for _, s := range slots {
			saved, ran = saved+requestsSaved(s), ran+s.Run
		}
	}
	return saved, ran
}

// requestsSaved is by how much the requests of a slot are fewer than its executions.
func requestsSaved(s scheduler.Slot) int {
	if s.Asks == 0 {
		return 0
	}
	return max(0, s.Run-s.Asks)
}
