package web

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

var (
	oldestDesc   = prometheus.NewDesc("freshet_oldest_result_age_seconds", "Time since the oldest result of the endpoint was last known to be true; paused queries are left out.", []string{"endpoint"}, nil)
	intervalDesc = prometheus.NewDesc("freshet_endpoint_slot_interval_seconds", "Usual time between two slots of the endpoint; none when it is paused or runs by hand.", []string{"endpoint"}, nil)
	nextTryDesc  = prometheus.NewDesc("freshet_endpoint_next_try_seconds", "Time until the endpoint is asked again; 0 when it is asked as usual.", []string{"endpoint"}, nil)
)

// An ageCollector reports ages and waiting times relative to the scrape. An endpoint
// without a result has no oldest result.
type ageCollector struct{ s *server }

func (c ageCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- oldestDesc
	ch <- nextTryDesc
	ch <- intervalDesc
}

func (c ageCollector) Collect(ch chan<- prometheus.Metric) {
	all, err := c.s.Registry.Endpoints()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(oldestDesc, err)
		return
	}
	now := c.s.Now()
	for _, e := range all {
		st, err := c.s.Daemon.State(e.Name)
		if err != nil {
			continue // its loop is not running
		}
		if gap := scheduler.Gap(e); gap > 0 && e.Pause == nil {
			ch <- prometheus.MustNewConstMetric(intervalDesc, prometheus.GaugeValue, gap.Seconds(), e.Name)
		}
		if !st.Oldest.IsZero() {
			ch <- prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, max(0, now.Sub(st.Oldest).Seconds()), e.Name)
		}
		wait := time.Duration(0)
		if st.NextTry.After(now) {
			wait = st.NextTry.Sub(now)
		}
		ch <- prometheus.MustNewConstMetric(nextTryDesc, prometheus.GaugeValue, wait.Seconds(), e.Name)
	}
}

type storageCollector struct{ s *server }

func (c storageCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- readOnlyDesc
	ch <- freeDesc
	ch <- reserveDesc
}

func (c storageCollector) Collect(ch chan<- prometheus.Metric) {
	st, readOnly := c.s.Health.Disk(), 0.0
	if st.ReadOnly {
		readOnly = 1
	}
	ch <- prometheus.MustNewConstMetric(readOnlyDesc, prometheus.GaugeValue, readOnly)
	if st.Free >= 0 {
		ch <- prometheus.MustNewConstMetric(freeDesc, prometheus.GaugeValue, float64(st.Free))
		ch <- prometheus.MustNewConstMetric(reserveDesc, prometheus.GaugeValue, float64(st.Reserve))
	}
}

type endpointCollector struct{ s *server }

func (c endpointCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- queriesDesc
	ch <- statesDesc
	ch <- healthDesc
	ch <- debtDesc
}

func (c endpointCollector) Collect(ch chan<- prometheus.Metric) {
	all, err := c.s.Registry.Endpoints()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(queriesDesc, err)
		return
	}
	for _, e := range all {
		st, err := c.s.Daemon.State(e.Name)
		if err != nil {
			continue // its loop is starting
		}
		ch <- prometheus.MustNewConstMetric(queriesDesc, prometheus.GaugeValue, float64(st.Queries), e.Name)
		for _, s := range registry.States() {
			ch <- prometheus.MustNewConstMetric(statesDesc, prometheus.GaugeValue, float64(st.States[s]), e.Name, string(s))
		}
		ch <- prometheus.MustNewConstMetric(debtDesc, prometheus.GaugeValue, st.Debt, e.Name)
		for _, h := range registry.HealthStates() {
			v := 0.0
			if st.Health.State == h {
				v = 1
			}
			ch <- prometheus.MustNewConstMetric(healthDesc, prometheus.GaugeValue, v, e.Name, h)
		}
	}
}
