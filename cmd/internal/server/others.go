// What this node does about what other nodes of its cluster have written.

package server

import (
	"context"
	"sync"

	"github.com/freshet/freshet/store"
)

// followOthers brings the memory of this node up to date with what other nodes write, and then
// wakes its followers, until ctx ends.
func (s *Server) followOthers(ctx context.Context) {
	var edits sync.WaitGroup
	defer edits.Wait()
	s.Store.WatchOthers(ctx, func(o store.Others) {
		if len(o.Endpoints) > 0 { // a loop that ends may wait for a commit
			edits.Go(func() { s.Registry.Edited(nil, nil, o.Endpoints.List()) })
		}
		if o.Tokens {
			s.live.Recheck()
		}
		if err := s.alerts.Refresh(o.Rules.List()); err != nil {
			s.log.Error("alert rules that another node has changed are not in force", "error", err)
		}
		if err := s.deliveries.engine.Refresh(o.Subscriptions.List()); err != nil {
			s.log.Error("subscriptions that another node has changed are not in force", "error", err)
		}
		if len(o.Queries) > 0 {
			s.Registry.Edited(o.Queries.List(), o.Hidden.List(), nil)
		}
		s.heardOf(o.Feeds.List())
		s.Waker.Wake(o.Changed.List()...)
	})
}
