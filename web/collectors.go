package web

// This file collects the metrics that a scrape reads from the registry and the scheduler.

import (
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
)

// A metric is one whose values are read at the moment of a scrape.
type metric struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

func level(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) metric {
	return metric{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

var (
	queriesDesc = level("freshet_endpoint_queries", "Queries registered on the endpoint.", "endpoint")
	debtDesc    = level("freshet_endpoint_debt_seconds", "Execution seconds beyond the budgets of slots, not yet repaid.", "endpoint")
	statesDesc  = level("freshet_queries", "Queries by the state of their result.", "endpoint", "state")
	healthDesc  = level("freshet_endpoint_health", "1 for the state of health that the endpoint is in.", "endpoint", "state")
	oldestDesc  = level("freshet_oldest_result_age_seconds",
		"Time since the oldest result of the endpoint was last known to be true; paused queries and endpoints are left out.", "endpoint")
	intervalDesc = level("freshet_endpoint_slot_interval_seconds",
		"Usual time between two slots of the endpoint; none when it is paused or runs by hand.", "endpoint")
	lastSlotDesc = level("freshet_slot_last_timestamp_seconds",
		"When the last slot ended, or began if the server was killed before it ended.", "endpoint")
	nextTryDesc = level("freshet_endpoint_next_try_seconds",
		"Time until the endpoint is asked again; 0 when it is asked as usual.", "endpoint")

	readOnlyDesc = level("freshet_store_read_only", "1 while the disk is full and nothing can be written.")
	freeDesc     = level("freshet_store_free_bytes", "Bytes free on the disk that holds the store.")
	reserveDesc  = level("freshet_store_reserve_bytes", "Bytes of that disk that are kept free of what is new.")

	troublesDesc = level("freshet_troubles",
		"What keeps results from being fresh, and what fires, by kind: storage, node, endpoint, alert, rule, query.", "kind")

	deliveriesDesc = counter("freshet_deliveries_total",
		"Messages by how they ended: delivered, failed, retried, dropped.", "way", "result")
	connectionsDesc = level("freshet_connections", "Followers connected now.", "kind")
	subsDesc        = level("freshet_subscriptions", "Subscriptions by state.", "way", "state")
	waitingDesc     = level("freshet_waiting_changes", "Changes that subscribers have not received, summed over subscriptions.", "way")
	lagDesc         = level("freshet_delivery_lag_seconds",
		"For how long the oldest change has waited that some subscriber has not received, its pauses and its own settings aside; "+
			"0 when none waits.", "way")

	rulesDesc       = level("freshet_rules", "Alert rules by state.", "state")
	alertsDesc      = level("freshet_rule_alerts", "Alerts of rules by state: pending, firing.", "state")
	evaluationsDesc = counter("freshet_rule_evaluations_total",
		"Evaluations of alert rules by how they ended: complete, failed.", "result")
	ruleLagDesc = level("freshet_rule_lag_seconds",
		"For how long the oldest change has waited on which some rule was not evaluated; 0 when none waits.")
	peopleMessagesDesc = counter("freshet_notify_messages_total",
		"Messages to people about changes since the start, by service: delivered, failed attempts, dropped (given up).", "service", "result")
	alertMessagesDesc = counter("freshet_alert_messages_total",
		"Messages about alerts by how they ended: delivered, failed (attempts), dropped.", "receiver", "result")
	alertWaitingDesc = level("freshet_alert_messages_waiting", "Messages about alerts that are not delivered.", "receiver")

	feedStateDesc = level("freshet_feed_state", "1 for the state that the feed is in: live, behind, gap, silent, failing.", "feed", "state")
	feedLagDesc   = level("freshet_feed_lag_seconds",
		"Time from the publication of the feed's last event until it was here, for kinds whose events have times.", "feed")
	feedHeardDesc = level("freshet_feed_heard_age_seconds", "Time since the last event or heartbeat of the feed.", "feed")
	feedEvents    = counter("freshet_feed_events_total", "Events of the feed by what they did: came, matched (queries), "+
		"possible (queries), doubled.", "feed", "kind")
	feedWrongDesc = level("freshet_feed_proof_was_wrong", "1 while nothing is proved at the endpoint, because a result differed although "+
		"no event of the feed had reached its query.", "feed", "endpoint")
	feedGapsDesc = counter("freshet_feed_gaps_total", "Times that events of the feed were missing.", "feed")

	causesDesc = counter("freshet_feed_executions_total", "Executions at an endpoint with a feed, by why the result was not proved.",
		"endpoint", "cause")

	asksDesc    = counter("freshet_asks_total", "Requests to the endpoint, by how many queries they are for.", "endpoint", "kind")
	membersDesc = counter("freshet_ask_members_total", "Queries in these requests.", "endpoint", "kind")
	voidDesc    = counter("freshet_asks_void_total", "Requests for several queries whose answer said nothing about them.", "endpoint")
	auditsDesc  = counter("freshet_merge_audits_total",
		"Merged answers that were compared with the answer of the query alone.", "endpoint", "result")
)

// A reader reads some metrics at the moment of a scrape.
type reader func(put func(m metric, v float64, labels ...string)) error

// Describe implements prometheus.Collector. It names no metric, because readers leave out what there is none of.
func (reader) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (read reader) Collect(ch chan<- prometheus.Metric) {
	err := read(func(m metric, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(m.Desc, m.kind, v, labels...)
	})
	if err != nil {
		ch <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
	}
}

// scrapes returns the handler of scrapes. It adds the metrics that are read at the
// moment of the scrape.
func scrapes(s *server) http.Handler {
	now := prometheus.NewRegistry()
	now.MustRegister(reader(s.collectEndpoints), reader(s.collectStorage), reader(s.collectOutlook), reader(s.collectFeeds),
		reader(s.collectDeliveries), reader(s.collectRules))
	return promhttp.HandlerFor(prometheus.Gatherers{s.Metrics.registry, now}, promhttp.HandlerOpts{DisableCompression: true})
}

// collectEndpoints reports the endpoints whose loops run. An endpoint without a result
// has no oldest result.
func (s *server) collectEndpoints(put func(metric, float64, ...string)) error {
	all, err := s.Registry.Endpoints()
	now := s.Now()
	for _, e := range all {
		if !s.Local(e.Name) {
			continue
		}
		st, err := s.Daemon.State(e.Name)
		if err != nil {
			continue // its loop is starting
		}
		put(queriesDesc, float64(st.Queries), e.Name)
		for _, x := range registry.States() {
			put(statesDesc, float64(st.States[x]), e.Name, string(x))
		}
		put(debtDesc, st.Debt, e.Name)
		at := st.Last.Finished
		if at.IsZero() { // the process that began it was killed
			at = st.Last.Started
		}
		if !at.IsZero() {
			put(lastSlotDesc, float64(at.UnixMilli())/1000, e.Name)
		}
		if e.Pause == nil {
			collectHealth(&e, &st, now, put)
		}
		s.collectAsks(e.Name, put)
	}
	return err
}

// collectHealth reports how an endpoint is that is not paused.
func collectHealth(e *registry.Endpoint, st *scheduler.LoopState, now time.Time, put func(metric, float64, ...string)) {
	for _, h := range registry.HealthStates() {
		put(healthDesc, oneIf(st.Health.State == h), e.Name, h)
	}
	if gap := scheduler.Gap(*e); gap > 0 {
		put(intervalDesc, gap.Seconds(), e.Name)
	}
	if !st.Oldest.IsZero() {
		put(oldestDesc, max(0, now.Sub(st.Oldest).Seconds()), e.Name)
	}
	put(nextTryDesc, max(0, st.NextTry.Sub(now).Seconds()), e.Name)
}

// collectAsks counts the requests to an endpoint by kind.
func (s *server) collectAsks(endpoint string, put func(metric, float64, ...string)) {
	asked, err := s.Merging.Asked(endpoint)
	if err != nil {
		return // its loop is starting
	}
	for _, k := range cohort.Kinds() {
		put(asksDesc, float64(asked.Requests[k]), endpoint, string(k))
		put(membersDesc, float64(asked.Members[k]), endpoint, string(k))
	}
	put(voidDesc, float64(asked.Void), endpoint)
	put(auditsDesc, float64(asked.Same), endpoint, "same")
	put(auditsDesc, float64(asked.Different), endpoint, "different")
	for cause, n := range asked.Causes {
		put(causesDesc, float64(n), endpoint, cause)
	}
}

// collectFeeds reports change feeds. A feed that only takes messages is live, and is heard from now and then.
func (s *server) collectFeeds(put func(metric, float64, ...string)) error {
	all, err := s.ChangeFeeds.Feeds()
	for _, f := range all {
		for _, state := range []string{feed.Live, feed.Behind, feed.Gap, feed.Silent, feed.Failing} {
			put(feedStateDesc, oneIf(f.State == state), f.Name, state)
		}
		if f.LagSeconds != nil {
			put(feedLagDesc, *f.LagSeconds, f.Name)
		}
		if !f.Heard.IsZero() {
			put(feedHeardDesc, max(0, s.Now().Sub(f.Heard).Seconds()), f.Name)
		}
		for kind, n := range map[string]uint64{"came": f.Events, "matched": f.Matched, "possible": f.Possible, "doubled": f.Duplicates} {
			put(feedEvents, float64(n), f.Name, kind)
		}
		put(feedGapsDesc, float64(f.Gaps), f.Name)
		for _, name := range f.Endpoints {
			wrong := slices.ContainsFunc(f.Wrong, func(w feed.Wrong) bool { return w.Endpoint == name })
			put(feedWrongDesc, oneIf(wrong), f.Name, name)
		}
	}
	return err
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (s *server) collectStorage(put func(metric, float64, ...string)) error {
	st := s.Health.Disk()
	put(readOnlyDesc, oneIf(st.ReadOnly))
	if st.Free >= 0 {
		put(freeDesc, float64(st.Free))
		put(reserveDesc, float64(st.Reserve))
	}
	return nil
}

func (s *server) collectDeliveries(put func(metric, float64, ...string)) error {
	now, lagOf := s.Now(), s.Lags(s.Now())
	states, alerts := map[[2]string]int{}, map[string]uint64{}
	waiting, lags := map[registry.Way]uint64{}, map[registry.Way]time.Duration{}
	for x, err := range s.AllSubscriptions {
		if err != nil {
			return err
		}
		states[[2]string{string(x.Way), string(x.State)}]++
		if x.Profile != "" {
			continue // it follows captures, not changes
		}
		lag, err := lagOf(&x)
		if err != nil {
			return err
		}
		if waiting[x.Way] += lag.Changes; x.Way == registry.Alerts {
			alerts[x.To.Kind] += lag.Changes
		}
		if lag.Behind == 0 {
			continue
		}
		if due, held := s.Due(&x, now.Add(-time.Duration(lag.Behind)), now); !held {
			lags[x.Way] = max(lags[x.Way], now.Sub(due))
		}
	}
	for _, d := range s.Deliveries() {
		if d.Kind != "" {
			messages := alertMessagesDesc
			if d.Way == registry.People {
				messages = peopleMessagesDesc
			} else {
				put(alertWaitingDesc, float64(alerts[d.Kind]), d.Kind)
			}
			for result, n := range map[string]uint64{"delivered": d.Delivered, "failed": d.Failed, "dropped": d.Dropped} {
				put(messages, float64(n), d.Kind, result)
			}
			continue
		}
		way := string(d.Way)
		for result, n := range map[string]uint64{"delivered": d.Delivered, "failed": d.Failed, "retried": d.Retried, "dropped": d.Dropped} {
			put(deliveriesDesc, float64(n), way, result)
		}
		if d.Way.Connected() {
			put(connectionsDesc, float64(d.Connections), way)
		}
	}
	for key, n := range states {
		put(subsDesc, float64(n), key[0], key[1])
	}
	for _, way := range registry.Ways {
		put(waitingDesc, float64(waiting[way]), string(way))
		put(lagDesc, lags[way].Seconds(), string(way))
	}
	return nil
}

func (s *server) collectRules(put func(metric, float64, ...string)) error {
	t, err := s.Rules.Totals()
	if err != nil {
		return err
	}
	for _, status := range registry.RuleStatuses() {
		put(rulesDesc, float64(t.Rules[status]), string(status))
	}
	for _, state := range []registry.AlertState{registry.AlertPending, registry.AlertFiring} {
		put(alertsDesc, float64(t.Alerts[state]), string(state))
	}
	put(evaluationsDesc, float64(t.Evaluated), "complete")
	put(evaluationsDesc, float64(t.Failed), "failed")
	lag := time.Duration(0)
	for query, at := range t.Behind {
		since, err := waitingSince(s.History, query, at)
		if err != nil && !missing(err) {
			return err
		}
		if !since.IsZero() {
			lag = max(lag, s.Now().Sub(since))
		}
	}
	put(ruleLagDesc, lag.Seconds())
	return nil
}

// Behind counts the changes between two positions.
func Behind(at, newest registry.Position) uint64 {
	switch {
	case at.Epoch != newest.Epoch:
		return newest.Seq
	case newest.Seq > at.Seq:
		return newest.Seq - at.Seq
	}
	return 0
}

// waitingSince is when the oldest change was committed that follows a position, of one query or of all (""); zero for
// none. If the log does not lead on from there, that is the oldest change that is kept.
func waitingSince(h History, query string, at registry.Position) (time.Time, error) {
	var waiting []registry.Change
	var kept []registry.Version
	var err error
	if query == "" {
		if waiting, err = h.All(at, 1); isGap(err) {
			waiting, err = h.All(registry.Offset{}, 1)
		}
	} else if waiting, err = h.After(query, at, 1); isGap(err) {
		kept, err = h.Versions(query, 0, 1)
	}
	if _, told := ProblemOf(err); err != nil && !told {
		return time.Time{}, err
	}
	switch {
	case len(waiting) > 0:
		return waiting[0].Time, nil
	case len(kept) > 0:
		return kept[0].Time, nil
	}
	return time.Time{}, nil
}

// sinceBegun returns since when a subscription lacks changes of which the oldest was committed at a time. One without a
// position in the log lacks nothing from before its last delivery, or before it began.
func sinceBegun(s *registry.Subscription, newest registry.Position, oldest time.Time) time.Time {
	if s.Progress().Epoch == newest.Epoch {
		return oldest
	}
	begun := s.CreatedAt
	if s.LastDelivery != nil {
		begun = *s.LastDelivery
	}
	if begun.After(oldest) {
		return begun
	}
	return oldest
}

// alertsWaitSince returns since when messages about alerts wait for a receiver that fails; zero if none do.
func alertsWaitSince(s *registry.Subscription) time.Time {
	if s.Waiting() == 0 || s.FailingSince == nil {
		return time.Time{}
	}
	return *s.FailingSince
}

func (c endpointAPI) templates(e registry.Endpoint) error {
	templates, err := c.Merging.Templates(e.Name)
	if err != nil && !missing(err) { // its loop may be starting
		return err
	}
	return c.json(http.StatusOK, map[string]any{"templates": append([]cohort.Snapshot{}, templates...)})
}
