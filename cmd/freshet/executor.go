package main

import (
	"context"
	"time"

	"github.com/freshet/freshet/endpoint"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// An executor lets a loop ask an endpoint: the two packages do not know each
// other.
type executor struct{ *endpoint.Client }

func (x executor) Execute(ctx context.Context, q *registry.Query, m scheduler.Memory, limit time.Duration) scheduler.Answer {
	a := x.Client.Execute(ctx, q, endpoint.Memory(m), limit)
	return scheduler.Answer{Outcome: a.Outcome, Result: a.Result, Memory: scheduler.Memory(a.Memory), Elapsed: a.Elapsed, Age: a.Age, Error: a.Error}
}
