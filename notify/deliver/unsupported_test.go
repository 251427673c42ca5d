package deliver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// unsupporting is a target that does not understand any subscription.
type unsupporting struct{}

func (unsupporting) Next(context.Context, *registry.Subscription, time.Time) (Step, error) {
	return Step{}, fmt.Errorf("%w: its filter is unknown", ErrUnsupported)
}

// A store may hold subscriptions that a newer version wrote, or that are damaged.
// They are shown as failing, are not called, and others are served.
func TestUnsupportedSubscriptions(t *testing.T) {
	calls := make(chan string, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { calls <- r.URL.Path }))
	defer srv.Close()
	stored := map[string]string{
		"newer":   `{"way":"carrier-pigeon"}`,
		"no-way":  `{}`,
		"filter":  `{"way":"unsupporting"}`,
		"failing": `{"way":"carrier-pigeon","failures":-3}`,
	}
	var all []registry.Subscription
	for id, text := range stored {
		x := pendingCalls(id, srv.URL+"/"+id, 1)
		x.Way = ""
		if err := json.Unmarshal([]byte(text), &x); err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	paused := pendingCalls("paused", srv.URL+"/paused", 1)
	paused.Way, paused.State = "carrier-pigeon", registry.SubscriptionPaused
	s := newTestEngine(t, func(o *Options) { o.Targets["unsupporting"] = unsupporting{} },
		append(all, paused, pendingCalls("good", srv.URL+"/good", 1))...)
	until(t, "the delivery to another subscription", func() bool { return s.Stats().Taken == 1 })
	for id := range stored {
		var x registry.Subscription
		until(t, "the failure of "+id, func() bool { x, _ = s.Subscription(id); return x.LastError != "" })
		if x.State != registry.Active || x.Failures == 0 || x.FailingSince == nil || x.NextTry == nil || time.Until(*x.NextTry) < 30*time.Minute {
			t.Errorf("%s: %+v", id, x)
		}
		if !strings.Contains(x.LastError, "this version of the server") || id == "newer" && !strings.Contains(x.LastError, `"carrier-pigeon"`) {
			t.Errorf("%s: the reason is %q", id, x.LastError)
		}
	}
	s.waker.Wake("q")
	if _, err := s.Resume("newer"); err != nil {
		t.Error(err)
	}
	until(t, "another try after it is resumed", func() bool { x, _ := s.Subscription("newer"); return x.LastError != "" && x.NextTry != nil })
	if x, _ := s.Subscription("paused"); x.Failures != 0 {
		t.Errorf("a paused subscription fails: %+v", x)
	}
	if err := s.Drop("newer", nil); err != nil {
		t.Error(err)
	}
	until(t, "the end of a dropped one", func() bool { return s.Stats().Subscriptions == 5 })
	if n := len(calls); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}
