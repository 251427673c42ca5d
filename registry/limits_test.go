package registry_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

func problemOf(t *testing.T, err error) *registry.Problem {
	t.Helper()
	var p *registry.Problem
	if !errors.As(err, &p) {
		t.Fatalf("got %v, want a problem", err)
	}
	return p
}

func ask(n int) registry.Registration {
	return registry.Registration{Text: fmt.Sprintf("ASK { <http://x/%d> ?p ?o }", n)}
}

// The limits of a token apply to every way to register. They do not refuse what the
// token already holds, and do not count what it releases. They do not apply to other
// tokens or to admins.
func TestTokenLimits(t *testing.T) {
	r := newRig(t, registry.Limits{TokenQueries: 3, TokenBytes: 3000})
	for n := range 3 {
		r.must(t, alice, ask(n))
	}
	if _, _, err := r.Register(alice, ask(3)); problemOf(t, err).Kind != registry.KindQuota || !strings.Contains(err.Error(),
		"limits.token_queries") {
		t.Errorf("a fourth query: %v", err)
	}
	if _, _, err := r.Follow(t.Context(), alice, "", ask(3).Text); problemOf(t, err).Kind != registry.KindQuota {
		t.Errorf("a fourth query by a subscription: %v", err)
	}
	if _, _, err := r.Register(bob, ask(3)); err != nil {
		t.Errorf("another token's: %v", err)
	}
	if _, _, err := r.Register(alice, ask(3)); err == nil {
		t.Error("a query of somebody else's is held besides")
	}
	r.must(t, alice, ask(1))
	for n := 3; n < 10; n++ {
		r.must(t, admin, ask(n))
	}
	if err := r.Release(alice, r.must(t, alice, ask(0)).ID, false); err != nil {
		t.Fatal(err)
	}
	q := r.must(t, alice, ask(3))
	if h, err := r.store.Queries.Holdings("alice"); err != nil || h.Queries != 3 || h.Bytes != 3*q.Size() {
		t.Errorf("alice holds %+v, %v", h, err)
	}
	big := registry.Registration{Text: "ASK { ?s ?p \"" + strings.Repeat("x", 2000) + "\" }"}
	if err := r.Release(alice, q.ID, false); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Register(alice, big); problemOf(t, err).Kind != registry.KindQuota || !strings.Contains(err.Error(),
		"limits.token_bytes") {
		t.Errorf("a large query: %v", err)
	}
	if err := r.store.Check(); err != nil {
		t.Error(err)
	}
}

// The queries of a deleted endpoint no longer count once they are purged.
func TestTokenLimitsOfADeletedEndpoint(t *testing.T) {
	r := newRig(t, registry.Limits{TokenQueries: 3})
	if _, err := r.CreateEndpoint(admin, registry.Endpoint{Name: "moon", URL: "http://127.0.0.1:3031/sparql"}); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		reg := ask(n)
		reg.Endpoint = "moon"
		r.must(t, alice, reg)
	}
	if err := r.DeleteEndpoint("moon", nil); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		h, err := r.store.Queries.Holdings("alice")
		if err != nil || time.Now().After(end) {
			t.Fatalf("alice holds %+v, %v", h, err)
		}
		if h == (registry.Holdings{}) {
			break
		}
	}
	reg := ask(0)
	reg.Endpoint = "city"
	r.must(t, alice, reg)
	if err := r.store.Check(); err != nil {
		t.Error(err)
	}
}

func TestTokenRate(t *testing.T) {
	r := newRig(t, registry.Limits{TokenRate: 2})
	r.conf.Profiles = r.store.Profiles
	r.reopen(t)
	for n := range 40 {
		r.must(t, alice, ask(n%3))
	}
	_, _, err := r.Register(alice, ask(0))
	if p := problemOf(t, err); p.Kind != registry.KindRate || p.RetryAfter != time.Second {
		t.Errorf("the 41st at once: %+v", p)
	}
	if _, _, err := r.CreateProfile(alice, registry.ProfileRequest{}); problemOf(t, err).Kind != registry.KindRate {
		t.Errorf("a profile: %v", err)
	}
	r.must(t, bob, ask(0))
	for range 100 {
		r.must(t, admin, ask(0))
	}
	r.now = r.now.Add(time.Second)
	r.must(t, alice, ask(0))
	r.must(t, alice, ask(0))
	if _, _, err := r.Register(alice, ask(0)); err == nil {
		t.Error("three in a second")
	}
}

func TestTokenProfiles(t *testing.T) {
	r := newRig(t, registry.Limits{TokenProfiles: 2})
	r.conf.Profiles = r.store.Profiles
	r.reopen(t)
	q := r.must(t, alice, ask(0))
	want := func(c registry.Caller, n int) error {
		_, _, err := r.CreateProfile(c, registry.ProfileRequest{Items: []registry.Item{{Query: q.ID,
			When: registry.When{Every: registry.Span{Time: time.Hour}, Slack: registry.Span{Time: time.Minute * time.Duration(n+1)}}}}})
		return err
	}
	for n := range 2 {
		if err := want(alice, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := want(alice, 2); problemOf(t, err).Kind != registry.KindQuota || !strings.Contains(err.Error(), "limits.token_profiles") {
		t.Errorf("a third profile: %v", err)
	}
	if err := want(alice, 1); err != nil {
		t.Errorf("one that is there: %v", err)
	}
	for n := range 4 {
		if err := want(admin, n); err != nil {
			t.Error(err)
		}
	}
	if err := r.store.Check(); err != nil {
		t.Error(err)
	}
}

// Everything whose length the caller chooses and a registration stores counts.
func TestTokenBytesCountEverything(t *testing.T) {
	r := newRig(t, registry.Limits{TokenBytes: 3000})
	r.conf.Profiles = r.store.Profiles
	r.reopen(t)
	q := r.must(t, alice, ask(0))
	long := "http://x/" + strings.Repeat("x", 3000)
	for name, reg := range map[string]registry.Registration{
		"text":           {Text: "ASK { ?s ?p \"" + long + "\" }"},
		"default graphs": {Text: ask(1).Text, DefaultGraphURI: []string{long}},
		"named graphs":   {Text: ask(1).Text, NamedGraphURI: []string{long}},
	} {
		if _, _, err := r.Register(alice, reg); err == nil || problemOf(t, err).Kind != registry.KindQuota {
			t.Errorf("%s: %v", name, err)
		}
	}
	need := registry.ProfileRequest{Window: registry.Span{Time: time.Hour}, Items: []registry.Item{{Query: q.ID,
		When: registry.When{Changed: q.ID, Where: []registry.Condition{{Var: registry.AskVar, Op: "=", Value: long}}}}}}
	if _, _, err := r.CreateProfile(alice, need); err == nil || problemOf(t, err).Kind != registry.KindQuota ||
		!strings.Contains(err.Error(), "limits.token_bytes") {
		t.Errorf("conditions: %v", err)
	}
	need.Items[0].When.Where[0].Value = "true"
	p, _, err := r.CreateProfile(alice, need)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := r.store.Queries.Holdings("alice"); err != nil || h.Bytes != q.Size()+p.Size() || p.Size() == 0 {
		t.Errorf("alice holds %+v, %v", h, err)
	}
	if err := r.store.Check(); err != nil {
		t.Error(err)
	}
	if err := r.DeleteProfile(alice, p.ID); err != nil {
		t.Fatal(err)
	}
	if h, err := r.store.Queries.Holdings("alice"); err != nil || h != (registry.Holdings{Queries: 1, Bytes: q.Size()}) {
		t.Errorf("afterwards alice holds %+v, %v", h, err)
	}
}

// A registration that releases another one needs no additional place.
func TestReplaceAtTheLimit(t *testing.T) {
	size := func(r *rig, n int) int64 {
		q, err := r.Analyse(ask(n))
		if err != nil {
			t.Fatal(err)
		}
		return q.Size()
	}
	for name, limits := range map[string]func(r *rig) registry.Limits{
		"queries of all": func(*rig) registry.Limits { return registry.Limits{Queries: 2} },
		"of a token":     func(*rig) registry.Limits { return registry.Limits{TokenQueries: 2} },
		"bytes":          func(r *rig) registry.Limits { return registry.Limits{TokenBytes: 2 * size(r, 0)} },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, registry.Limits{})
			r.conf.Limits = limits(r)
			r.reopen(t)
			one := ask(0)
			one.Name = "one"
			r.must(t, alice, one)
			two := r.must(t, alice, ask(1))
			one.Text, one.Replace = ask(2).Text, true
			q := r.must(t, alice, one)
			if _, err := r.Exchange(alice, two.ID, ask(3)); err != nil {
				t.Errorf("another query in the place of one: %v", err)
			}
			if _, _, err := r.Register(alice, ask(4)); err == nil {
				t.Error("a third query is held")
			}
			if _, err := r.Exchange(alice, two.ID, ask(5)); err == nil {
				t.Error("a query in the place of one that is not held")
			}
			other := ask(6)
			other.Name, other.Replace = "free", true
			if _, _, err := r.Register(alice, other); err == nil {
				t.Error("replace of nothing is a third query")
			}
			if h, err := r.store.Queries.Holdings("alice"); err != nil || h.Queries != 2 {
				t.Errorf("alice holds %+v, %v", h, err)
			}
			if name == "queries of all" { // bob's hold prevents the release of alice's query from freeing a place
				r.must(t, bob, registry.Registration{Text: one.Text})
				one.Text = ask(7).Text
				if _, _, err := r.Register(alice, one); err == nil {
					t.Error("what another one holds, too, is counted as free")
				}
			}
			if _, err := r.Query(q.ID); err != nil {
				t.Error(err)
			}
			if err := r.store.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A barrierStore blocks edits until several have arrived.
type barrierStore struct {
	registry.QueryStore
	left atomic.Int32
	all  chan struct{}
}

func (s *barrierStore) EditQueries(n registry.Names, edit func(*registry.Query, []*registry.Query, bool) error) (registry.Query, error) {
	if err := s.wait(); err != nil {
		return registry.Query{}, err
	}
	return s.QueryStore.EditQueries(n, edit)
}

// wait waits until as many callers have arrived as there are to be.
func (s *barrierStore) wait() error {
	if s.left.Add(-1) == 0 {
		close(s.all)
	}
	select {
	case <-s.all:
		return nil
	case <-time.After(time.Minute):
		return errors.New("the other edits did not come")
	}
}

// Registrations far from the limits do not wait for each other.
func TestRegistrationsAtTheSameTime(t *testing.T) {
	r := newRig(t, registry.Limits{Queries: 100, TokenQueries: 50, TokenBytes: 1 << 20})
	s := &barrierStore{QueryStore: r.store.Queries, all: make(chan struct{})}
	s.left.Store(4)
	r.conf.Queries = s
	r.reopen(t)
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			if _, _, err := r.Register([]registry.Caller{alice, bob}[n%2], ask(n)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// Limits are exact among registrations at the same time: none is exceeded, and no
// registration that fits is refused.
func TestLimitsAmongRegistrationsAtTheSameTime(t *testing.T) {
	const each, total = 12, 20
	r := newRig(t, registry.Limits{Queries: total, TokenQueries: each})
	var all sync.WaitGroup
	var stored atomic.Int32
	for i := range 8 {
		caller := []registry.Caller{alice, bob}[i%2]
		all.Go(func() {
			for n := range each {
				_, created, err := r.Register(caller, ask(100*i+n))
				var p *registry.Problem
				if created {
					stored.Add(1)
				} else if !errors.As(err, &p) || p.Kind != registry.KindQuota && p.Kind != registry.KindLimit {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	n, err := r.store.Queries.CountQueries()
	if err != nil || n != total || stored.Load() != total {
		t.Errorf("%d queries are registered, %d were created, want %d (%v)", n, stored.Load(), total, err)
	}
	for _, c := range []registry.Caller{alice, bob} {
		if h, err := r.store.Queries.Holdings(c.Name); err != nil || h.Queries > each {
			t.Errorf("%s holds %d queries, the limit is %d (%v)", c.Name, h.Queries, each, err)
		}
	}
}
