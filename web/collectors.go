package web

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/freshet/freshet/registry"
)

type deliveryCollector struct{ s *server }

var (
	deliveriesDesc  = prometheus.NewDesc("freshet_deliveries_total", "Messages by how they ended: delivered, failed, retried, dropped.", []string{"way", "result"}, nil)
	connectionsDesc = prometheus.NewDesc("freshet_connections", "Followers connected now.", []string{"kind"}, nil)
	subsDesc        = prometheus.NewDesc("freshet_subscriptions", "Subscriptions by state.", []string{"way", "state"}, nil)
	waitingDesc     = prometheus.NewDesc("freshet_waiting_changes", "Changes that subscribers have not received, summed over subscriptions.", []string{"way"}, nil)
	lagDesc         = prometheus.NewDesc("freshet_delivery_lag_seconds", "For how long the oldest change has waited that some subscriber has not received; 0 when none waits.", []string{"way"}, nil)
)

func (c deliveryCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{deliveriesDesc, connectionsDesc, subsDesc, waitingDesc, lagDesc} {
		ch <- d
	}
}

func (c deliveryCollector) Collect(ch chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	for _, d := range c.s.DeliveryMetrics.Deliveries() {
		way := string(d.Way)
		for result, n := range map[string]uint64{"delivered": d.Delivered, "failed": d.Failed, "retried": d.Retried, "dropped": d.Dropped} {
			put(deliveriesDesc, prometheus.CounterValue, float64(n), way, result)
		}
		if d.Way.Connected() {
			put(connectionsDesc, prometheus.GaugeValue, float64(d.Connections), way)
		}
	}
	b := backlog{s: c.s, waiting: map[registry.Way]uint64{}, states: map[[2]string]int{}, oldest: map[oldestKey]registry.Position{}, current: map[string]registry.Position{}}
	if err := b.read(); err != nil {
		ch <- prometheus.NewInvalidMetric(waitingDesc, err)
		return
	}
	for key, n := range b.states {
		put(subsDesc, prometheus.GaugeValue, float64(n), key[0], key[1])
	}
	lags, err := b.lags()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(lagDesc, err)
		return
	}
	for _, way := range registry.Ways {
		put(waitingDesc, prometheus.GaugeValue, float64(b.waiting[way]), string(way))
		put(lagDesc, prometheus.GaugeValue, lags[way].Seconds(), string(way))
	}
}

// A backlog sums up what subscriptions wait for. It reads positions, and at most one
// change per delivery type and lagging query.
type backlog struct {
	s       *server
	states  map[[2]string]int
	waiting map[registry.Way]uint64
	oldest  map[oldestKey]registry.Position
	current map[string]registry.Position // of queries, "" the head of all
}

type oldestKey struct {
	way   registry.Way
	query string
}

func (b *backlog) read() error {
	for x, err := range b.s.DeliveryMetrics.AllSubscriptions {
		if err == nil {
			err = b.add(&x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *backlog) add(s *registry.Subscription) error {
	b.states[[2]string{string(s.Way), string(s.State)}]++
	if s.Profile != "" {
		return nil // it follows captures, not changes
	}
	newest, known := b.current[s.Query]
	if !known {
		var err error
		if s.Query == "" {
			newest, err = b.s.History.Head()
		} else if st, _, e := b.s.History.Current(s.Query, false); !missing(e) { // of one that ended nothing waits
			newest, err = st.Position, e
		}
		if err != nil {
			return err
		}
		b.current[s.Query] = newest
	}
	n := behind(s.Progress(), newest)
	if b.waiting[s.Way] += n; n == 0 {
		return nil
	}
	key := oldestKey{s.Way, s.Query}
	if at, there := b.oldest[key]; !there || s.Progress().Seq < at.Seq {
		b.oldest[key] = s.Progress()
	}
	return nil
}

// lags returns the waiting time of the oldest change per delivery type.
func (b *backlog) lags() (map[registry.Way]time.Duration, error) {
	lags := map[registry.Way]time.Duration{}
	for key, at := range b.oldest {
		since, err := waitingSince(b.s.History, key.query, at)
		if err != nil {
			return nil, err
		}
		if !since.IsZero() {
			lags[key.way] = max(lags[key.way], b.s.Now().Sub(since))
		}
	}
	return lags, nil
}

// behind counts the changes between two positions.
func behind(at, newest registry.Position) uint64 {
	switch {
	case at.Epoch != newest.Epoch:
		return newest.Seq
	case newest.Seq > at.Seq:
		return newest.Seq - at.Seq
	}
	return 0
}

// waitingSince is when the oldest change was committed that follows a position
// and is kept, of one query or of all (""); zero for none.
func waitingSince(h ChangeLog, query string, at registry.Position) (time.Time, error) {
	var waiting []registry.Change
	var err error
	if query == "" {
		waiting, err = h.All(at, 1)
	} else {
		waiting, err = h.After(query, at, 1)
	}
	if _, told := asProblem(err); err != nil && !told { // the log does not reach back
		return time.Time{}, err
	}
	if len(waiting) == 0 {
		return time.Time{}, nil
	}
	return waiting[0].Time, nil
}

// scrapes adds the metrics that are computed at the moment of the scrape.
func scrapes(s *server) http.Handler {
	now := prometheus.NewRegistry()
	now.MustRegister(endpointCollector{s}, ageCollector{s}, storageCollector{s})
	if s.Merging != nil {
		now.MustRegister(askCollector{s})
	}
	if s.DeliveryMetrics != nil {
		now.MustRegister(deliveryCollector{s})
	}
	return promhttp.HandlerFor(prometheus.Gatherers{s.Metrics.registry, now}, promhttp.HandlerOpts{DisableCompression: true})
}
