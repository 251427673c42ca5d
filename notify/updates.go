package notify

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// Updates answers with server-sent events that say when results have moved on. It sends u.First, then the message of a topic
// whenever its query is at a position that the client does not know, and u.Last before the server goes down or an
// operator ends the stream. One message may stand for several changes. A query that is gone gets one last message.
// The caller of Updates must check that the client may read the queries.
func (s *Server) Updates(w http.ResponseWriter, r *http.Request, caller string, u registry.Updates) {
	s.stream(w, r, func(ctx context.Context, e *events) error {
		ctx, drop := context.WithCancel(ctx)
		defer drop()
		t := updates{s: s, e: e, awake: s.opts.Waker.Follow(), topics: map[string][]*updatesTopic{}}
		defer t.awake.Close()
		for _, x := range u.Topics {
			about := eventsOf(r, caller)
			about.Query = x.Query
			topic := &updatesTopic{UpdatesTopic: x, listed: s.Enlist(*about, drop)}
			defer topic.listed.Leave()
			if x.After != nil {
				topic.at = *x.After
			}
			topic.listed.follow(topic.at, t.awake)
			t.topics[x.Query] = append(t.topics[x.Query], topic)
			t.awake.Add(x.Query)
		}
		err := e.event("message", "", u.First)
		u.First = nil // it may be large, and a stream long
		if err == nil {
			err = t.run(ctx)
		}
		if err == nil && r.Context().Err() == nil {
			err = e.event("message", "", u.Last)
		}
		return err
	})
}

// An updates is a stream of Updates. All its topics share a follower, so it costs one goroutine.
type updates struct {
	s      *Server
	e      *events
	awake  *Follower
	topics map[string][]*updatesTopic // by query
}

type updatesTopic struct {
	registry.UpdatesTopic
	at     registry.Position // what the client knows
	listed *Entry
}

// run looks at all queries now and at each heartbeat, and at those that were woken in between.
func (t *updates) run(ctx context.Context) error {
	beat := time.NewTicker(t.s.opts.Timing.Ping)
	defer beat.Stop()
	err := t.look(nil)
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-beat.C:
			if err = t.e.comment(); err == nil {
				err = t.look(nil)
			}
		case <-t.awake.C():
			err = t.look(t.awake.Take())
		}
	}
	return err
}

// look tells the client which of some queries are at another position than it knows; of all without any.
func (t *updates) look(queries []string) error {
	if len(queries) == 0 {
		queries = slices.Collect(maps.Keys(t.topics))
	}
	for _, query := range queries {
		st, _, err := t.s.opts.Log.Current(query, false)
		gone := errors.Is(err, registry.ErrNotFound)
		if err != nil && !gone {
			return err
		}
		for _, topic := range t.topics[query] {
			if !gone && (st.Position.Seq == 0 || st.Position == topic.at) || topic.listed.paused.Load() {
				continue
			}
			topic.at = st.Position
			topic.listed.moved(topic.at)
			if err := t.e.event("message", "", topic.Message()); err != nil {
				return err
			}
			topic.listed.delivered(time.Now())
		}
		if gone {
			delete(t.topics, query)
			t.awake.Remove(query)
		}
	}
	return nil
}
