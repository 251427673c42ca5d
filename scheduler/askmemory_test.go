package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// A rememberer is a service that recognises the remembered body of a single query, as
// the client of an endpoint does.
type rememberer struct {
	*service
	values func(q *registry.Query) string
}

func (r rememberer) Execute(ctx context.Context, q *registry.Query, m scheduler.Memory, limit time.Duration) scheduler.Answer {
	a := r.service.Execute(ctx, q, m, limit)
	if q.Merged || !a.Outcome.Complete() {
		return a
	}
	body := [2]uint64{uint64(character(r.values(q))), 1}
	if m.Body == body {
		a.Outcome, a.Result = registry.Unchanged, nil
	}
	a.Memory = scheduler.Memory{Body: body, Vars: m.Vars}
	return a
}

// A merged answer that changes a result forgets the body of the old one: if the values
// return, the query alone must not be taken for unchanged.
func TestMergedChangeForgetsTheBody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := newDataset(t)
		w := newWorld(t, merging(endpoint("never", time.Second, "rr"), registry.MergeOff), d.reply)
		for _, n := range names("n", 20) {
			d.set(n, "first")
			d.register(w, n)
		}
		open := func(mode string) {
			var err error
			w.as.Merge = mode
			w.loop, err = scheduler.NewLoop(scheduler.Config{
				Endpoint: w.as, Ledger: w.ledger, Executor: rememberer{w.service, func(q *registry.Query) string {
					return d.now(constant.FindStringSubmatch(q.Text)[1])[0]
				}},
			})
			if err != nil {
				t.Fatal(err)
			}
			w.run()
		}
		for _, step := range []struct{ mode, value string }{
			{registry.MergeOff, "first"}, {registry.MergeValues, "second"}, {registry.MergeOff, "first"},
		} {
			for n := range d.versions {
				d.set(n, step.value)
			}
			open(step.mode)
			w.tick()
			w.tick()
			w.stop()
			d.checkTruth(w, true)
		}
	})
}
