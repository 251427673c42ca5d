package alert_test

import (
	"context"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/registry"
)

// A slowPast says which query is asked for, and then waits.
type slowPast struct {
	alert.Past
	began chan string
	goOn  chan bool
}

func (p slowPast) Versions(query string, _ uint64, _ int) ([]registry.Version, error) {
	p.began <- query
	<-p.goOn
	return nil, nil
}

// A caller who tries several rules leaves room for the trials of others.
func TestTrialsOfOneCaller(t *testing.T) {
	r := newRig(t)
	own, others := r.log.Add("own", diff.Select, false), r.log.Add("others", diff.Select, false)
	past := slowPast{began: make(chan string), goOn: make(chan bool)}
	r.stop()
	r.options.Past = past
	r.start()
	done := make(chan bool)
	try := func(c registry.Caller, query string) {
		_, _ = r.Try(context.Background(), c, registry.RuleSettings{Query: query, When: "rows > 0"})
		done <- true
	}
	for range 3 {
		go try(app, own)
	}
	if first := <-past.began; first != own {
		t.Errorf("%s began first", first)
	}
	select {
	case <-past.began:
		t.Fatal("a second trial of a caller runs")
	case <-time.After(100 * time.Millisecond):
	}
	go try(registry.Caller{Name: "other", Role: registry.RoleApp}, others)
	if next := <-past.began; next != others {
		t.Errorf("%s began next", next)
	}
	close(past.goOn)
	for range 2 {
		<-past.began
	}
	for range 4 {
		<-done
	}
}
