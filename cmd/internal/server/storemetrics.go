package server

// This file exports the metrics of the store.

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet/freshet/store"
)

var (
	storeSizeDesc   = prometheus.NewDesc("freshet_store_size_bytes", "Size of the store's file.", nil, nil)
	storeUnusedDesc = prometheus.NewDesc("freshet_store_unused_bytes", "Bytes of the store's file that are free to be used again.", nil, nil)
)

// A storeCollector reports the size of the store.
type storeCollector struct{ db *store.DB }

func (c storeCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- storeSizeDesc
	ch <- storeUnusedDesc
}

func (c storeCollector) Collect(ch chan<- prometheus.Metric) {
	size, unused, err := c.db.Size()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(storeSizeDesc, err)
		return
	}
	ch <- prometheus.MustNewConstMetric(storeSizeDesc, prometheus.GaugeValue, float64(size))
	ch <- prometheus.MustNewConstMetric(storeUnusedDesc, prometheus.GaugeValue, float64(unused))
}
