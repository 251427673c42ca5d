package webhook_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A caller has a limited number of webhooks, and others have theirs.
func TestWebhooksOfOneCaller(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	r.log.Add("q", diff.Select, false)
	r.MostEach = 3
	var first registry.Subscription
	for i := range 3 {
		s, err := r.Create(admin, registry.WebhookRequest{URL: h.http.URL, Query: "q"})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = s
		}
	}
	_, err := r.Create(admin, registry.WebhookRequest{URL: h.http.URL, Query: "q"})
	if p := (*registry.Problem)(nil); !errors.As(err, &p) || p.Kind != registry.KindQuota || !strings.Contains(p.Detail,
		"limits.token_webhooks") {
		t.Errorf("a webhook too many: %v", err)
	}
	if _, err := r.Create(registry.Caller{Name: "other", Role: registry.RoleApp}, registry.WebhookRequest{URL: h.http.URL,
		Query: "q"}); err != nil {
		t.Errorf("another caller: %v", err)
	}
	if err := r.Engine.Drop(first.ID, nil); err != nil {
		t.Fatal(err)
	}
	until(t, "room for another", func() bool {
		_, err := r.Create(admin, registry.WebhookRequest{URL: h.http.URL, Query: "q"})
		return err == nil
	})
}

// Requests at the same time do not pass a limit together.
func TestWebhooksAtOnce(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	r.log.Add("q", diff.Select, false)
	r.MostEach = 3
	var made atomic.Int32
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if _, err := r.Create(admin, registry.WebhookRequest{URL: h.http.URL, Query: "q"}); err == nil {
				made.Add(1)
			}
		})
	}
	all.Wait()
	if n, done := r.Engine.Claim("another", registry.Webhook, admin.Name, ""); made.Load() != 3 || n.Held != 3 {
		t.Errorf("%d webhooks are made, and %d held", made.Load(), n.Held)
	} else {
		done()
	}
}
