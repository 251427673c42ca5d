package web

// This file serves the templates of merged requests, and their metrics.

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/cohort"
)

func (c endpointAPI) templates(e registry.Endpoint) error {
	templates, err := c.Merging.Templates(e.Name)
	if err != nil && !missing(err) { // its loop may be starting
		return err
	}
	return c.json(http.StatusOK, map[string]any{"templates": append([]cohort.Snapshot{}, templates...)})
}

var (
	asksDesc    = prometheus.NewDesc("freshet_asks_total", "Requests to the endpoint, by how many queries they are for.", []string{"endpoint", "kind"}, nil)
	membersDesc = prometheus.NewDesc("freshet_ask_members_total", "Queries in these requests.", []string{"endpoint", "kind"}, nil)
	voidDesc    = prometheus.NewDesc("freshet_asks_void_total", "Requests for several queries whose answer said nothing about them.", []string{"endpoint"}, nil)
	auditsDesc  = prometheus.NewDesc("freshet_merge_audits_total", "Merged answers that were compared with the answer of the query alone.", []string{"endpoint", "result"}, nil)
)

// An askCollector counts requests by kind.
type askCollector struct{ s *server }

func (c askCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- asksDesc
	ch <- membersDesc
	ch <- voidDesc
	ch <- auditsDesc
}

func (c askCollector) Collect(ch chan<- prometheus.Metric) {
	all, err := c.s.Registry.Endpoints()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(asksDesc, err)
		return
	}
	for _, e := range all {
		if c.s.Local != nil && !c.s.Local(e.Name) {
			continue
		}
		asked, err := c.s.Merging.Asked(e.Name)
		if err != nil {
			continue // its loop is starting
		}
		count := func(d *prometheus.Desc, n uint64, label string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), e.Name, label)
		}
		for _, k := range cohort.Kinds() {
			count(asksDesc, asked.Requests[k], string(k))
			count(membersDesc, asked.Members[k], string(k))
		}
		ch <- prometheus.MustNewConstMetric(voidDesc, prometheus.CounterValue, float64(asked.Void), e.Name)
		count(auditsDesc, asked.Same, "same")
		count(auditsDesc, asked.Different, "different")
	}
}
