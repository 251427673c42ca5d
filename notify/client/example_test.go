package client_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/client"
	"github.com/freshet/freshet/notify/live"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/registry"
)

type everybody struct{}

func (everybody) Authenticate(_, _ string) (registry.Caller, error) {
	return registry.Caller{Name: registry.Anonymous, Role: registry.RoleAdmin}, nil
}

// departures serves one query, departures, with two rows.
func departures() (address string, stop func()) {
	log := notifytest.NewLog("store")
	b := diff.NewBuilder(diff.Select, diff.Options{})
	if err := b.SetVars([]string{"train"}); err != nil {
		panic(err)
	}
	for _, train := range []string{"IC 5", "RE 7"} {
		if err := b.Row(diff.Term{Kind: diff.Literal, Value: train}); err != nil {
			panic(err)
		}
	}
	rows, err := b.Finish()
	if err != nil {
		panic(err)
	}
	log.Record(log.Add("departures", diff.Select, false), rows, time.Now())
	hub := notify.NewServer(notifytest.Options(log, notify.NewWaker(), everybody{}))
	s := httptest.NewServer(live.New(hub))
	return s.URL, func() {
		_ = hub.Shutdown(context.Background()) // it does not fail without a deadline
		s.Close()
	}
}

func ExampleFollow() {
	server, stop := departures()
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err := client.Follow(ctx, client.Options{Server: server, Query: "departures"}, func(e client.Event) error {
		if e.Result == nil { // nothing has come yet
			return nil
		}
		fmt.Printf("%s: %d rows at seq %d\n", e.Kind, e.Result.Len(), e.State.Seq)
		cancel() // seen enough
		return nil
	})
	fmt.Println(err)
	// Output:
	// snapshot: 2 rows at seq 1
	// context canceled
}
