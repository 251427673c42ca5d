package web

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/shadow"
)

// shadowsOf compares on a history of three queries, of which one changes.
func shadowsOf(ctx context.Context, endpoint string) (shadow.Comparison, error) {
	if endpoint != "city" {
		return shadow.Comparison{}, registry.ErrNotFound
	}
	p, err := scheduler.ParsePolicy("rr")
	if err != nil {
		return shadow.Comparison{}, err
	}
	var entries []policy.Entry
	for i, id := range []string{"a", "b", "c"} {
		e := policy.Entry{Query: registry.Query{ID: id}, Stats: policy.Stats{Last: 12, Executions: 5}}
		for slot := range uint64(5) {
			e.Stats.Samples = append(e.Stats.Samples, policy.Sample{Slot: 3 * slot, Elapsed: time.Second, Changed: i == 0 && slot == 2})
		}
		entries = append(entries, e)
	}
	r, err := shadow.Play(ctx, shadow.Config{Policy: p, Budget: time.Second, Entries: entries})
	return shadow.Comparison{Endpoint: endpoint, Budget: registry.Duration(time.Second), Slot: 12, Policies: []shadow.Compared{
		{Policy: "hybrid", Current: true}, {Policy: "rr", Estimate: &r},
	}}, err
}

func TestShadows(t *testing.T) {
	w := newWorld(t)
	const at, asJSON = "/v1/endpoints/city/shadows", "Content-Type: application/json"
	var s shadow.Comparison
	if err := json.Unmarshal(w.get(at).status(200).body, &s); err != nil {
		t.Fatal(err)
	}
	if p := s.Policies; len(p) != 2 || !p[0].Current || p[0].Estimate != nil || p[1].Current || p[1].Estimate.Known != 1 ||
		p[1].Estimate.Total.Low == 0 {
		t.Errorf("%+v", s)
	}
	w.get("/v1/endpoints/missing/shadows").problem(404, "not-found")

	chosen := func(a *answer, want string) {
		t.Helper()
		if got := strings.TrimSpace(string(a.status(200).body)); got != `{"shadows":`+want+`}` {
			t.Errorf("chosen are %s, want %s", got, want)
		}
	}
	chosen(w.do("POST", at, `{"policy":"rr"}`, asJSON), `["rr"]`)
	chosen(w.do("POST", at, `{"policy":"ttl"}`, asJSON), `["rr","ttl:max=32:reset"]`)
	chosen(w.do("POST", at, `{"policy":"ttl:reset:max=32"}`, asJSON), `["rr","ttl:max=32:reset"]`)
	if a := w.get("/v1/endpoints/city").status(200); !strings.Contains(string(a.body), `"shadows":["rr","ttl:max=32:reset"]`) {
		t.Errorf("the endpoint does not show its shadows: %s", a.body)
	}
	chosen(w.do("DELETE", at+"?policy="+url.QueryEscape("ttl:max=32"), ""), `["rr"]`)
	w.do("DELETE", at+"?policy=dj", "").problem(404, "not-found")
	for _, bad := range []string{`{"policy":"cv"}`, `{"policy":"lru"}`, `{"policy":"mrsf"}`, `{}`} {
		w.do("POST", at, bad, asJSON).status(422)
	}
	w.do("POST", at, `{"policy":"`+strings.Repeat("x", 2<<20)+`"}`, asJSON).status(413)
	w.do("DELETE", at, "").status(422)
	w.do("POST", "/v1/endpoints/missing/shadows", `{"policy":"rr"}`, asJSON).problem(404, "not-found")
}
