package web

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/web/api"
)

// A viewer renders query resources for one caller. It caches the budgets of endpoints
// and the due times that expect has read.
type viewer struct {
	*call
	budget func(endpoint string) (time.Duration, error)
	due    map[string]time.Time // by query
	proofs func(*registry.Query) (*feed.Proof, error)
}

func (c queryAPI) viewer() *viewer {
	budget := once(func(endpoint string) (time.Duration, error) {
		e, err := c.Registry.Endpoint(endpoint)
		return time.Duration(e.Budget), err
	})
	return &viewer{call: c.call, budget: budget, proofs: c.ChangeFeeds.Proofs()}
}

// expect reads when queries are due.
func (v *viewer) expect(items ...registry.ListedQuery) (err error) {
	ids := map[string][]string{}
	for _, it := range items {
		ids[it.Query.Endpoint] = append(ids[it.Query.Endpoint], it.Query.ID)
	}
	v.due, err = v.NextRuns(ids)
	return err
}

// NextRuns returns when queries run next, by their ids, with one call for each endpoint. Those of endpoints
// that are gone are left out.
func (c *Config) NextRuns(queries map[string][]string) (map[string]time.Time, error) {
	due := map[string]time.Time{}
	for endpoint, ids := range queries {
		times, err := c.Daemon.Due(endpoint, ids)
		if missing(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		for i, t := range times {
			due[ids[i]] = t
		}
	}
	return due, nil
}

// id returns the view of a query as it is now.
func (v *viewer) id(id string) (api.Query, error) {
	it, err := v.Queries.Item(id)
	if err != nil {
		return api.Query{}, err
	}
	if err := v.expect(it); err != nil {
		return api.Query{}, err
	}
	return v.item(it)
}

// proof returns the proof of a result, or why there is none.
func (v *viewer) proof(q *registry.Query, st registry.Status) (p *feed.Proof, why string, err error) {
	switch p, err = v.proofs(q); {
	case err != nil || p == nil:
		return nil, "", err
	case p.Until.IsZero():
		return nil, p.Unprovable, nil
	}
	// It is the proof of this result only if no other one came before it was read.
	if again, err := v.Queries.Item(q.ID); err != nil || again.Status.Position != st.Position {
		return nil, "its result changes at this moment", nil
	}
	return p, "", nil
}

func (v *viewer) item(it registry.ListedQuery) (api.Query, error) {
	q, st := it.Query, it.Status
	share, err := v.share(q, st)
	if err != nil {
		return api.Query{}, err
	}
	p, why, err := v.proof(&q, st)
	if err != nil {
		return api.Query{}, err
	}
	return api.Query{ID: q.ID, Proved: p, Unprovable: why, Endpoint: q.Endpoint, Name: q.NameFor(v.caller.Name), Form: q.Form,
		Ordered: q.Ordered, Query: q.Text,
		DefaultGraphs: q.DefaultGraphs, NamedGraphs: q.NamedGraphs,
		State: st.State, Epoch: st.Position.Epoch, Seq: st.Position.Seq, Hash: optional(st.Hash), Rows: st.Rows,
		Boolean:   answerOf(q.Form, st.Hash),
		CheckedAt: moment(st.CheckedAt), ChangedAt: moment(st.ChangedAt), NextDue: moment(v.due[q.ID]),
		Executions: st.Executions, Changes: st.Changes, Median: seconds(st), BudgetShare: share, Outcome: st.Outcome, Error: st.Error,
		FailingSince: moment(st.FailingSince), Failures: st.Failures,
		Warnings: list(st.Warnings(&q)), Tags: list(q.Tags()), Weight: q.Weight(), MaxStaleness: registry.Duration(q.MaxStaleness()),
		MinInterval: registry.Duration(q.MinInterval()), Alone: q.Alone(), Public: q.Public(), CreatedAt: q.CreatedAt.UTC(), Paused: q.Paused(),
		Holders: len(q.Holders), Registrations: v.registrations(q), Links: v.links(q.ID)}, nil
}

// yesHash returns the hash of the positive answer to ASK.
var yesHash = sync.OnceValue(func() string {
	b := diff.NewBuilder(diff.Ask, diff.Options{})
	err := b.SetBoolean(true)
	r, e := b.Finish()
	if err != nil || e != nil {
		panic("a result of ASK cannot be made")
	}
	return r.Hash()
})

// answerOf returns the answer to an ASK query by the hash of its result, nil for other forms
// and before the first result.
func answerOf(f diff.Form, hash string) *bool {
	if f != diff.Ask || hash == "" {
		return nil
	}
	yes := hash == yesHash()
	return &yes
}

func (s *server) links(id string) api.QueryLinks {
	at := "/v1/queries/" + url.PathEscape(id)
	return api.QueryLinks{Results: s.url(at + "/results"), Changes: s.url(at + "/changes"), Hub: s.url("/v1/hub"),
		Live: "ws" + strings.TrimPrefix(s.url("/v1/live"), "http"), Explain: s.url(at + "/explain")}
}

// registrations returns the holders of q that the caller may see: its own, and all
// for an admin.
func (v *viewer) registrations(q registry.Query) []registry.Holder {
	out := []registry.Holder{}
	for _, h := range q.Holders {
		if h.Caller == v.caller.Name || v.caller.Role.Includes(registry.RoleAdmin) {
			h.Tags = list(h.Tags)
			out = append(out, h)
		}
	}
	return out
}

// share returns the expected share of the endpoint's budget K: the median execution
// time, times the recent executions per slot, divided by K.
func (v *viewer) share(q registry.Query, st registry.Status) (*float64, error) {
	if st.Executions == 0 {
		return nil, nil
	}
	k, err := v.budget(q.Endpoint)
	if err != nil && !missing(err) {
		return nil, err
	}
	stats, err := v.Queries.Stats(q.ID)
	if err != nil && !missing(err) {
		return nil, err
	}
	if k <= 0 {
		return nil, nil
	}
	f := st.Median.Seconds() * frequency(stats.Samples) / k.Seconds()
	return &f, nil
}

// frequency returns the executions per slot between the first and the last sample. A
// query with one sample counts as run in every slot.
func frequency(s []policy.Sample) float64 {
	if len(s) < 2 {
		return 1
	}
	slots := s[len(s)-1].Slot - s[0].Slot
	if slots == 0 {
		return 1
	}
	return min(1, float64(len(s)-1)/float64(slots))
}

func seconds(st registry.Status) *float64 {
	if st.Executions == 0 {
		return nil
	}
	s := st.Median.Seconds()
	return &s
}

// moment returns t in UTC, nil if it is zero.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// optional returns nil for the zero value.
func optional[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// list returns s as a list that is never null in JSON.
func list[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// viewRun returns nil if there has been no run.
func viewRun(r policy.Run) *api.Run {
	if r.At.IsZero() {
		return nil
	}
	return &api.Run{Slot: r.Slot, At: r.At.UTC(), Elapsed: r.Elapsed.Seconds(), Outcome: r.Outcome, Error: r.Error, Why: r.Why, How: r.How}
}

func viewStats(s policy.Stats, st registry.Status) api.Stats {
	v := api.Stats{Last: s.Last, Executions: s.Executions, Changes: s.Changes, Median: seconds(st), Failures: s.Failures, Cuts: s.Cuts,
		NotBefore: s.NotBefore, Samples: make([]api.Sample, len(s.Samples))}
	for i, x := range s.Samples {
		v.Samples[i] = api.Sample{Slot: x.Slot, Elapsed: x.Elapsed.Seconds(), Changed: x.Changed, Jaccard: x.Jaccard}
	}
	return v
}

func (c queryAPI) explain(q registry.Query) error {
	e, err := c.Daemon.Explain(q.Endpoint, q.ID)
	if err != nil {
		return err
	}
	it, err := c.Queries.Item(q.ID)
	if err != nil {
		return err
	}
	stats, err := c.Queries.Stats(q.ID)
	if err != nil && !missing(err) {
		return err
	}
	if e.Inputs == nil {
		e.Inputs = map[string]float64{}
	}
	p, unprovable, err := c.viewer().proof(&q, it.Status)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, api.Explanation{Explanation: e, LastRun: viewRun(e.LastRun), NextDue: moment(e.NextDue), Proved: p,
		Unprovable: unprovable,
		Statistics: viewStats(stats, it.Status)})
}

// describeMerge adds the query's template to its view.
func describeMerge(v *api.Query, q *registry.Query) {
	template, reason := scheduler.Mergeable(q)
	v.Template, v.Merge = optional(template), &api.Merge{Allowed: reason == "", Reason: reason}
}
