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
	w.m.slots["city"] = []scheduler.Slot{{Started: time.Unix(98, 0), Finished: time.Unix(100, 0)}}
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
		strings.Contains(paused, "\nfreshet_endpoint_slot_interval_seconds{") || strings.Contains(paused, "\nfreshet_endpoint_health{") ||
		strings.Contains(paused, "\nfreshet_endpoint_next_try_seconds{") || !strings.Contains(paused, "\nfreshet_queries{") {
		t.Error("a paused endpoint has an age, an interval or a health, or no queries")
	}
	if strings.Contains(s, "moon") || strings.Contains(s, "BREW") || strings.Contains(s, "nowhere") {
		t.Error("labels of what is gone, or of what a client chose")
	}
}

// When the last slot ended is known also after a restart, and only to the node that asks the endpoint: what another one knew
// would look like a slot that hangs.
func TestLastSlotIsThatOfTheLoop(t *testing.T) {
	local := true
	w := newWorld(t, func(c *Config) { c.Local = func(string) bool { return local } })
	const name = "\nfreshet_slot_last_timestamp_seconds"
	look := func() string { return string(w.get("/metrics").status(200).body) }
	if s := look(); strings.Contains(s, name) {
		t.Error("no slot has run")
	}
	w.m.slots["city"] = []scheduler.Slot{{Endpoint: "city", Started: time.Unix(98, 0), Finished: time.Unix(100, 0)}}
	if s := look(); !strings.Contains(s, name+"{endpoint=\"city\"} 100\n") {
		t.Error("a slot has ended before the start")
	}
	w.m.slots["city"][0].Finished = time.Time{}
	if s := look(); !strings.Contains(s, name+"{endpoint=\"city\"} 98\n") {
		t.Error("a slot has begun and was not finished")
	}
	local = false
	w.config.Metrics.ObserveSlot(scheduler.Slot{Endpoint: "city", Started: time.Unix(98, 0), Finished: time.Unix(100, 0)})
	if s := look(); strings.Contains(s, name) {
		t.Error("another node asks the endpoint")
	}
}
