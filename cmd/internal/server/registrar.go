package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A registrar marks the errors that a caller of the live server can correct.
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
