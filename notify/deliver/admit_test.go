package deliver

import (
	"errors"
	"testing"

	"github.com/freshet/freshet/registry"
)

// The limit of all subscriptions and that of one caller refuse the next one, each with its own kind.
func TestAdmit(t *testing.T) {
	for _, x := range []struct {
		counts Counts
		kind   registry.Kind
	}{
		{Counts{All: mostSubscriptions - 1, Held: 2}, ""},
		{Counts{All: mostSubscriptions, Held: 2}, registry.KindLimit},
		{Counts{All: mostSubscriptions - 1, Held: 3}, registry.KindQuota},
	} {
		var p *registry.Problem
		err := x.counts.Admit(3, "webhooks")
		if errors.As(err, &p); (x.kind == "") != (err == nil) || err != nil && (p == nil || p.Kind != x.kind) {
			t.Errorf("%+v: %v, want %q", x.counts, err, x.kind)
		}
	}
}
