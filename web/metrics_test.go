package web

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler"
)

func TestMetrics(t *testing.T) {
	w := newWorld(t)
	w.register(selectText)
	w.do("BREW", "/v1/queries", "")
	w.get("/nowhere/at/all")
	w.config.Metrics.ObserveSlot(scheduler.Slot{Endpoint: "city", Started: time.Unix(98, 0), Finished: time.Unix(100, 0),
		Complete: 5, Changed: 2, Failed: 1, Cut: 1, Skipped: 3, Used: 1.5, Budget: 10})
	w.config.Metrics.ObserveSlot(scheduler.Slot{Endpoint: "moon", Finished: time.Unix(100, 0)})
	w.config.Metrics.Forget("moon")
	s := string(w.get("/metrics").status(200).body)
	for _, want := range []string{
		`freshet_build_info{version="0.0-test"} 1`,
		`freshet_http_requests_total{method="POST",route="/v1/queries",status="201"} 1`,
		`freshet_http_requests_total{method="other",route="",status="405"} 1`,
		`freshet_http_requests_total{method="GET",route="",status="404"} 1`,
		`freshet_slots_total{endpoint="city"} 1`,
		`freshet_executions_total{endpoint="city",result="complete"} 5`,
		`freshet_executions_total{endpoint="city",result="skipped"} 3`,
		`freshet_changes_total{endpoint="city"} 2`,
		`freshet_slot_used_seconds_total{endpoint="city"} 1.5`,
		`freshet_slot_budget_seconds_total{endpoint="city"} 10`,
		`freshet_slot_last_timestamp_seconds{endpoint="city"} 100`,
		`freshet_slot_seconds_bucket{endpoint="city",le="1"} 0`,
		`freshet_slot_seconds_bucket{endpoint="city",le="2.5"} 1`,
		`freshet_slot_seconds_sum{endpoint="city"} 2`,
		`freshet_oldest_result_age_seconds{endpoint="city"} 90.25`,
		`freshet_endpoint_next_try_seconds{endpoint="city"} 0`,
		`freshet_endpoint_slot_interval_seconds{endpoint="city"} 60`,
		`freshet_endpoint_queries{endpoint="city"} 1`,
		`freshet_endpoint_health{endpoint="city",state="healthy"} 1`,
		`freshet_endpoint_health{endpoint="city",state="failing"} 0`,
		`freshet_queries{endpoint="city",state="new"} 1`,
		`freshet_queries{endpoint="city",state="failing"} 0`,
		"go_goroutines",
	} {
		if !strings.Contains(s, want) {
			t.Errorf("no %s", want)
		}
	}
	w.post("/v1/endpoints/city/pause", "").status(200)
	if paused := string(w.get("/metrics").status(200).body); strings.Contains(paused, "\nfreshet_oldest_result_age_seconds{") ||
		strings.Contains(paused, "\nfreshet_endpoint_slot_interval_seconds{") {
		t.Error("a paused endpoint has an age or an interval")
	}
	if strings.Contains(s, "moon") || strings.Contains(s, "BREW") || strings.Contains(s, "nowhere") {
		t.Error("labels of what is gone, or of what a client chose")
	}
}
