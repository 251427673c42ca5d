package web

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// Metrics has a Prometheus registry of its own, with the metrics of requests and slots, of the Go
// runtime and of the process. A scrape adds those of collectors.go. GET /metrics in
// docs/openapi.yaml describes all of them.
type Metrics struct {
	registry  *prometheus.Registry
	requests  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	slots     *prometheus.CounterVec
	runs      *prometheus.CounterVec
	changes   *prometheus.CounterVec
	used      *prometheus.CounterVec
	budget    *prometheus.CounterVec
	took      *prometheus.HistogramVec
}

// NewMetrics returns metrics that have counted nothing yet.
func NewMetrics(version string) *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: counter("freshet_http_requests_total", "Requests answered.", "route", "method", "status"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "freshet_http_request_seconds", Help: "Duration of requests.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 60}}, []string{"route"}),
		slots:   counter("freshet_slots_total", "Slots finished.", "endpoint"),
		runs:    counter("freshet_executions_total", "Executions by how they ended; skipped were passed over.", "endpoint", "result"),
		changes: counter("freshet_changes_total", "Changes committed.", "endpoint"),
		used:    counter("freshet_slot_used_seconds_total", "Execution seconds used by slots.", "endpoint"),
		budget:  counter("freshet_slot_budget_seconds_total", "Execution seconds that the finished slots allowed.", "endpoint"),
	}
	m.took = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "freshet_slot_seconds", Help: "How long the finished slots took.",
		Buckets: []float64{.01, .05, .25, 1, 2.5, 5, 10, 30, 60, 300}}, []string{"endpoint"})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "freshet_build_info", Help: "The version that runs."}, []string{"version"})
	build.WithLabelValues(version).Set(1)
	m.registry.MustRegister(m.requests, m.durations, m.slots, m.runs, m.changes, m.used, m.budget, m.took, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// ObserveSlot counts a finished and committed slot.
func (m *Metrics) ObserveSlot(s scheduler.Slot) {
	m.slots.WithLabelValues(s.Endpoint).Inc()
	for result, n := range map[string]int{"complete": s.Complete, "failed": s.Failed, "cut": s.Cut, "skipped": s.Skipped} {
		m.runs.WithLabelValues(s.Endpoint, result).Add(float64(max(0, n)))
	}
	m.changes.WithLabelValues(s.Endpoint).Add(float64(max(0, s.Changed)))
	m.used.WithLabelValues(s.Endpoint).Add(max(0, s.Used))
	m.budget.WithLabelValues(s.Endpoint).Add(max(0, s.Budget))
	m.took.WithLabelValues(s.Endpoint).Observe(max(0, s.Finished.Sub(s.Started).Seconds()))
}

// ObserveOffGrid counts committed executions that ran between two slots. The next slot
// is charged with their time and counts it.
func (m *Metrics) ObserveOffGrid(endpoint string, outcomes []scheduler.Outcome) {
	for i := range outcomes {
		o := &outcomes[i]
		run, result := &o.Stats.LastRun, "failed"
		switch {
		case run.Outcome.Complete():
			result = "complete"
		case run.Outcome == registry.Cut:
			result = "cut"
		}
		if run.Outcome != registry.Dropped {
			m.runs.WithLabelValues(endpoint, result).Inc()
		}
		if o.Delta != nil && o.Stats.Executions > 1 {
			m.changes.WithLabelValues(endpoint).Inc()
		}
	}
}

// Forget drops the metrics of a deleted endpoint.
func (m *Metrics) Forget(endpoint string) {
	l := prometheus.Labels{"endpoint": endpoint}
	for _, v := range []*prometheus.CounterVec{m.slots, m.runs, m.changes, m.used, m.budget} {
		v.DeletePartialMatch(l)
	}
	m.took.DeletePartialMatch(l)
}

// Register adds a collector of another part of the program.
func (m *Metrics) Register(c prometheus.Collector) error { return m.registry.Register(c) }

// observeRequest counts a request. The number of label values is bounded: a route is a
// pattern of the table, or "" if none matched, and an unusual method is "other".
func (m *Metrics) observeRequest(route, method string, status int, took time.Duration) {
	switch method {
	case "GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS":
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.durations.WithLabelValues(route).Observe(took.Seconds())
}

// A recorder records the outcome of a request for its log line and the metrics.
type recorder struct {
	http.ResponseWriter
	status   int
	bytes    int64
	route    string
	caller   string
	query    string
	problem  string
	failure  error
	hijacked bool
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// Unwrap gives http.ResponseController access to the writer.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush implements http.Flusher.
func (r *recorder) Flush() { _ = http.NewResponseController(r.ResponseWriter).Flush() }

// Hijack implements http.Hijacker, which WebSocket libraries need.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.hijacked, r.status = true, http.StatusSwitchingProtocols
	}
	return c, rw, err
}

// recorderOf returns what records the outcome of a request. For requests inside the program that is a new one.
func recorderOf(w http.ResponseWriter) *recorder {
	if rec, ok := w.(*recorder); ok {
		return rec
	}
	return &recorder{}
}

// NoteError records an error for the request's log line.
func NoteError(w http.ResponseWriter, err error) {
	p, told := ProblemOf(err)
	rec := recorderOf(w)
	rec.problem = string(p.Kind)
	if !told || Status(p.Kind) >= 500 {
		rec.failure = err
	}
}

// Note records the route and the caller for the request's log line and the metrics.
func Note(w http.ResponseWriter, route, caller string) {
	rec := recorderOf(w)
	rec.route, rec.caller = route, caller
}

// refuse answers every request with the same problem.
func refuse(p *registry.Problem) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { Answer(w, r, p) })
}

// NotReady returns the handler of a server that cannot read its store yet, for the reason in detail.
func NotReady(site Site, log *slog.Logger, detail string) http.Handler {
	p := refuse(later("not-ready", time.Second, detail))
	s := &server{Config: Config{Site: site, Logger: log}, hosts: newHosts(site)}
	s.Limits.complete()
	return s.outermost(s.checkHost(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			fmt.Fprintln(w, "ok")
			return
		}
		p.ServeHTTP(w, r)
	})))
}

// Answer sends an error as problem details and records it for the request's log line.
func Answer(w http.ResponseWriter, r *http.Request, err error) {
	NoteError(w, err)
	if recorderOf(w).status != 0 { // the response has started: only closing the connection can report the error
		panic(http.ErrAbortHandler)
	}
	p, _ := ProblemOf(err)
	send(w, r, p)
}
