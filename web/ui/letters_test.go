package ui

import (
	"html"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// letterBox drops dead letters from the store, without an engine that sends.
type letterBox struct {
	web.DeadLetters
	store deliver.Store
}

func (b letterBox) DropLetter(id, letter string) (registry.Subscription, error) {
	return b.store.EditSubscription(id, func(s *registry.Subscription, _ bool) error {
		s.Dead = slices.DeleteFunc(s.Dead, func(d registry.DeadLetter) bool { return d.ID == letter })
		return nil
	})
}

// "Drop all" drops the dead letters of the page before, also if another node that records the next
// one has a clock that is behind.
func TestDropAllLetters(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.pages.DeadLetters = letterBox{store: r.store.Subscriptions}
	letter := func(id string, age time.Duration) registry.DeadLetter {
		return registry.DeadLetter{OutboxMessage: registry.OutboxMessage{ID: id, Type: "change"}, GivenUp: time.Now().Add(-age)}
	}
	bury := func(to string, letters ...registry.DeadLetter) {
		t.Helper()
		r.follower(registry.Subscription{ID: to, Way: registry.Webhook, Caller: "ops", Callback: "https://good.example/" + to,
			State: registry.Active, Dead: letters})
	}
	ids := func(to string) (list []string) {
		s, err := r.store.Subscriptions.Subscription(to)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range s.Dead {
			list = append(list, d.ID)
		}
		return list
	}
	a, b, late, other := letter("msg_a", time.Hour), letter("msg_b", time.Minute), letter("msg_late", 2*time.Hour),
		letter("msg_other", 2*time.Hour)
	bury("one", a, b)
	page := r.get("/dead-letters/drop").status(200).has("2 messages that were given up.")
	form := regexp.MustCompile(`name="newest" value="([^"]*)"`).FindStringSubmatch(page.body)
	bury("one", a, b, late)
	bury("two", other)
	if form == nil {
		t.Fatalf("the page does not say which letters it means: %s", page.main())
	}
	r.follow(r.post("/dead-letters/drop", "newest", html.UnescapeString(form[1]))).has("2 messages are dropped.")
	if x, y := ids("one"), ids("two"); len(x) != 1 || x[0] != "msg_late" || len(y) != 1 {
		t.Errorf("left: %v and %v", x, y)
	}
}
