package web

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/gauge"
)

// Bounds of a scrape of results.
const (
	usualGaugeRows = 1000    // rows of a query
	mostGaugeRows  = 10_000  // the same, at most
	mostGauges     = 100_000 // series of a scrape
	gaugePage      = 500     // queries that are read at once
)

const gaugeName = "freshet_result"

var (
	gaugeRowsDesc    = desc("freshet_result_rows", "Rows of the last complete result; 0 for ASK.", "query", "holder")
	gaugeLeftDesc    = desc("freshet_result_rows_left_out", "Rows of the result that gave no sample, by reason.", "query", "holder", "reason")
	gaugeStaleDesc   = desc("freshet_result_stale", "1 while the result is not known to be true: its query is not live.", "query", "holder")
	gaugeCheckedDesc = desc("freshet_result_checked_timestamp_seconds", "When the result was last known to be true.", "query", "holder")
	gaugeChangedDesc = desc("freshet_result_changed_timestamp_seconds", "When the result last changed.", "query", "holder")
	gaugeFullDesc    = desc("freshet_result_series_left_out", "Series that exceeded the bound of a scrape.")
)

// A gaugeCall collects the series of one scrape of results.
type gaugeCall struct {
	*call
	rows   int
	labels []string
	list   gaugeList
	over   int // series beyond mostGauges
}

// gauges answers a scrape of the numbers in results: of the queries that the parameter
// query names, or of all queries with names that pass the filter.
func (c serverAPI) gauges() error {
	leave, err := c.exclusive(c.scrapes)
	if err != nil {
		return err
	}
	defer leave()
	g := &gaugeCall{call: c.call, rows: c.params.limit(usualGaugeRows, mostGaugeRows), labels: c.params.Values["label"]}
	filter := c.params.filter()
	if c.params.err != nil {
		return c.params.err
	}
	if names := c.params.Values["query"]; len(names) > 0 {
		err = g.named(names)
	} else {
		err = g.all(filter)
	}
	if err != nil {
		return err
	}
	g.put(gaugeFullDesc, float64(g.over))
	all := prometheus.NewRegistry()
	if err := all.Register(g.list); err != nil {
		return err
	}
	c.w.Header().Set("Cache-Control", "no-store")
	promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(c.w, c.r)
	return nil
}

// named adds the queries with these names or ids, each once.
func (g *gaugeCall) named(names []string) error {
	seen := map[string]bool{}
	for _, name := range names {
		q, err := g.Registry.Resolve(g.caller, name)
		if err != nil {
			return err
		}
		if seen[name] {
			continue
		}
		seen[name] = true
		holder := "" // of an id
		for i := range q.Holders {
			if h := &q.Holders[i]; h.Name == name && (holder == "" || h.Caller == g.caller.Name) {
				holder = h.Caller
			}
		}
		item, err := g.Queries.Item(q.ID)
		if err != nil {
			return err
		}
		if err := g.add(&item, name, holder); err != nil {
			return err
		}
	}
	return nil
}

// all adds the queries that have names and pass the filter, once for each of their names.
func (g *gaugeCall) all(filter registry.QueryFilter) error {
	for cursor := ""; ; {
		page, next, err := g.Queries.List(filter, cursor, gaugePage)
		if err != nil {
			return err
		}
		for i := range page {
			for _, h := range page[i].Query.Holders {
				if h.Name == "" {
					continue
				}
				if err := g.add(&page[i], h.Name, h.Caller); err != nil {
					return err
				}
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
		if err := g.r.Context().Err(); err != nil {
			return err
		}
	}
}

// add adds the series of one query under a name.
func (g *gaugeCall) add(item *registry.ListedQuery, name, holder string) error {
	st := item.Status
	g.put(gaugeStaleDesc, oneIf(st.State != registry.Live), name, holder)
	if st.Position.Seq == 0 {
		return nil
	}
	st, r, err := g.History.Current(item.Query.ID, true)
	if errors.Is(err, registry.ErrNotFound) || err == nil && r == nil {
		return nil // released meanwhile
	}
	if err != nil {
		return err
	}
	g.put(gaugeRowsDesc, float64(st.Rows), name, holder)
	g.put(gaugeCheckedDesc, unixSeconds(st.CheckedAt), name, holder)
	g.put(gaugeChangedDesc, unixSeconds(st.ChangedAt), name, holder)
	samples, left := gauge.Read(r, g.rows, g.labels)
	for _, reason := range gauge.Reasons() {
		if n := left[reason]; n > 0 {
			g.put(gaugeLeftDesc, float64(n), name, holder, reason)
		}
	}
	for _, s := range samples {
		names, values := slices.Clone(gauge.Reserved), []string{name, holder, s.Column}
		for _, l := range s.Labels {
			names, values = append(names, l.Name), append(values, l.Value)
		}
		g.put(desc(gaugeName, "A number in the last complete result of a query; the other columns are labels.", names...), s.Value, values...)
	}
	return nil
}

// put adds a series while the scrape has room.
func (g *gaugeCall) put(d *prometheus.Desc, value float64, labels ...string) {
	if len(g.list) >= mostGauges && d != gaugeFullDesc {
		g.over++
		return
	}
	g.list = append(g.list, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...))
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// A gaugeList is a collector whose labels differ between its metrics, so it describes
// none.
type gaugeList []prometheus.Metric

// Describe describes nothing.
func (gaugeList) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics.
func (l gaugeList) Collect(ch chan<- prometheus.Metric) {
	for _, m := range l {
		ch <- m
	}
}
