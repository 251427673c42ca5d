package notifytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// Subscriptions keeps subscriptions in memory. It is a deliver.Store.
type Subscriptions struct {
	mu sync.Mutex
	m  map[string][]byte // as JSON, so that nothing is shared with a caller
}

var _ deliver.Store = (*Subscriptions)(nil)

// NewSubscriptions returns an empty store.
func NewSubscriptions() *Subscriptions { return &Subscriptions{m: map[string][]byte{}} }

// Subscription implements deliver.Store.
func (m *Subscriptions) Subscription(id string) (s registry.Subscription, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.m[id]
	if !ok {
		return s, fmt.Errorf("subscription %s: %w", id, registry.ErrNotFound)
	}
	err = json.Unmarshal(b, &s)
	return s, err
}

// Subscriptions implements deliver.Store.
func (m *Subscriptions) Subscriptions(after string, limit int) (list []registry.Subscription, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(m.m)) {
		if id > after && len(list) < limit {
			var s registry.Subscription
			if err := json.Unmarshal(m.m[id], &s); err != nil {
				return nil, err
			}
			list = append(list, s)
		}
	}
	return list, nil
}

// EditSubscription implements deliver.Store. Like a store with a journal, it may call do more
// than once: it always calls it twice.
func (m *Subscriptions) EditSubscription(id string, do func(*registry.Subscription, bool) error) (s registry.Subscription, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, found := m.m[id]
	for range 2 {
		s = registry.Subscription{ID: id}
		if found {
			if err := json.Unmarshal(b, &s); err != nil {
				return s, err
			}
		}
		err = do(&s, found)
	}
	if err != nil {
		return registry.Subscription{}, err
	}
	s.ID = id
	if s.State == "" || s.State == registry.Ended {
		delete(m.m, id)
		return s, nil
	}
	m.m[id], err = json.Marshal(s)
	return s, err
}

// TestSubscriptions runs the conformance suite of deliver.Store. open returns an empty store
// each time.
func TestSubscriptions(t *testing.T, open func(t *testing.T) deliver.Store) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, deliver.Store)
	}{
		{"Kept", subscriptionKept},
		{"ErrorsUndoOneEdit", subscriptionErrors},
		{"Deleted", subscriptionDeleted},
		{"Listed", subscriptionsListed},
		{"Concurrent", subscriptionsConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, open(t)) })
	}
}

func full(id string) registry.Subscription {
	at := time.Date(2026, 11, 20, 9, 0, 0, 123456789, time.UTC)
	return registry.Subscription{ID: id, Way: registry.Webhook, Caller: "shop", Name: "n", Query: "q_1", Callback: "https://x/?k=\u2028<&>",
		Secrets: []registry.Secret{{Key: "new"}, {Key: "old", Until: &at}}, Lease: registry.Duration(time.Hour), ExpiresAt: &at,
		Filter: json.RawMessage(`{"min_rows":2}`), Rate: registry.Duration(time.Second), State: registry.Active, Reason: "r", CreatedAt: at,
		Intent: &registry.Intent{Mode: "subscribe", Secret: "s", Lease: registry.Duration(time.Minute), At: at,
			Filter: json.RawMessage(`{"min_rows":3}`), Rate: registry.Duration(time.Minute)},
		Cursor: registry.Position{Epoch: "e", Seq: 1<<53 - 1}, Seen: registry.Position{Epoch: "e", Seq: 7}, Version: `"e.7.srj"`,
		Outbox: &registry.OutboxMessage{ID: "msg_1", Type: "t", From: registry.Position{Epoch: "e", Seq: 1},
			Until: registry.Position{Epoch: "e", Seq: 2}, At: at, Check: at, Text: "x"},
		Withheld: []registry.Withheld{{Query: "q_2", From: registry.Position{Epoch: "f", Seq: 1}, Until: registry.Position{Epoch: "f",
			Seq: 3}, First: 8, Fresh: true}},
		RateCursor: registry.Position{Epoch: "e", Seq: 9},
		Failures:   3, FailingSince: &at, LastError: "x", LastAttempt: &at, NextTry: &at, LastDelivery: &at, Deliveries: 9, GaveUp: 1,
		Dead: []registry.DeadLetter{{OutboxMessage: registry.OutboxMessage{ID: "msg_0", At: at}, Attempts: 10, Error: "e", GivenUp: at,
			Replay: true}}}
}

func put(t *testing.T, st deliver.Store, all ...registry.Subscription) {
	t.Helper()
	for _, s := range all {
		_, err := st.EditSubscription(s.ID, func(into *registry.Subscription, found bool) error {
			if found || into.ID != s.ID || into.State != "" {
				return fmt.Errorf("found %t, %+v", found, *into)
			}
			*into = s
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// subscriptionKept checks that a store returns every field, and that the caller may modify
// what it returns.
func subscriptionKept(t *testing.T, st deliver.Store) {
	want := full("wh_1")
	put(t, st, want)
	for range 2 {
		got, err := st.Subscription("wh_1")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("what was kept differs (-want +got):\n%s", d)
		}
		got.Secrets[0].Key, got.Dead[0].ID, got.Filter[0] = "spoilt", "spoilt", 'x'
	}
	if _, err := st.Subscription("wh_2"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("a subscription that is not there: %v", err)
	}
	if _, err := st.Subscription(""); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("no id: %v", err)
	}
}

func subscriptionErrors(t *testing.T, st deliver.Store) {
	put(t, st, full("a"))
	no := errors.New("no")
	set := func(name string, err error) func(*registry.Subscription, bool) error {
		return func(s *registry.Subscription, _ bool) error {
			s.Name, s.State = s.Name+name, registry.Active
			return err
		}
	}
	var after registry.Subscription
	for i, e := range []struct {
		id   string
		want error
	}{{"a", nil}, {"a", no}, {"b", no}, {"a", nil}} {
		var err error
		if after, err = st.EditSubscription(e.id, set(fmt.Sprint(i+1), e.want)); !errors.Is(err, e.want) || e.want == nil && err != nil {
			t.Errorf("edit %d: %v, want %v", i, err, e.want)
		}
	}
	if s, err := st.Subscription("a"); err != nil || s.Name != "n14" || after.Name != "n14" {
		t.Errorf("a is named %q (after the edit: %q), want n14: %v", s.Name, after.Name, err)
	}
	if _, err := st.Subscription("b"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("b was made by an edit that failed: %v", err)
	}
}

func subscriptionDeleted(t *testing.T, st deliver.Store) {
	put(t, st, full("a"), full("b"))
	end := func(state registry.SubscriptionState) func(*registry.Subscription, bool) error {
		return func(s *registry.Subscription, _ bool) error { s.State = state; return nil }
	}
	for id, state := range map[string]registry.SubscriptionState{"a": registry.Ended, "b": "", "c": registry.Ended} {
		if _, err := st.EditSubscription(id, end(state)); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := st.Subscriptions("", 10); err != nil || len(list) != 0 {
		t.Errorf("left are %d: %v", len(list), err)
	}
	put(t, st, full("a")) // a new subscription may reuse the id
}

func subscriptionsListed(t *testing.T, st deliver.Store) {
	var want []string
	for i := range 25 {
		id := fmt.Sprintf("%c%02d", 'a'+i%3, i)
		want = append(want, id)
		put(t, st, full(id))
	}
	slices.Sort(want)
	var got []string
	for after := ""; ; {
		page, err := st.Subscriptions(after, 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, s := range page {
			got = append(got, s.ID)
		}
		after = got[len(got)-1]
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("pages (-want +got):\n%s", d)
	}
	if page, err := st.Subscriptions("b", 1); err != nil || len(page) != 1 || page[0].ID != want[9] {
		t.Errorf("after an id that is not there: %v, %v", page, err)
	}
}

func subscriptionsConcurrent(t *testing.T, st deliver.Store) {
	put(t, st, full("a"))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				_, err := st.EditSubscription("a", func(s *registry.Subscription, _ bool) error {
					s.Deliveries++
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s, err := st.Subscription("a"); err != nil || s.Deliveries != 89 {
		t.Errorf("%d edits of 89 are there: %v", s.Deliveries, err)
	}
}
