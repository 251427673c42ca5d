package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/freshet/freshet/endpoint"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// An Executor lets a loop ask an endpoint: the two packages do not know each
// other.
type Executor struct{ *endpoint.Client }

func (x Executor) Execute(ctx context.Context, q *registry.Query, m scheduler.Memory, limit time.Duration) scheduler.Answer {
	a := x.Client.Execute(ctx, q, endpoint.Memory(m), limit)
	return scheduler.Answer{Outcome: a.Outcome, Result: a.Result, Memory: scheduler.Memory(a.Memory), Elapsed: a.Elapsed, Age: a.Age, Error: a.Error}
}

// A registrar tells the live server which refusals are the caller's to mend.
type registrar struct{ *registry.Registry }

func (r registrar) Follow(ctx context.Context, c registry.Caller, endpoint, sparql string) (registry.Query, func(), error) {
	q, done, err := r.Registry.Follow(ctx, c, endpoint, sparql)
	if p, ok := errors.AsType[*registry.Problem](err); ok {
		kind := notify.ErrRefused
		switch p.Kind {
		case registry.KindLimit, registry.KindQuota, registry.KindRate, registry.KindStorageFull: // waiting may help
			kind = notify.ErrLimit
		}
		err = fmt.Errorf("%w: %w", kind, p)
	}
	return q, done, err
}
