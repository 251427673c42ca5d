package notify

import (
	"context"
	"iter"
)

// Stream is Follow as a sequence of events. It ends with an error, if there is one.
func (s *Server) Stream(ctx context.Context, query string, o StreamOptions) iter.Seq2[StreamEvent, error] {
	return func(yield func(StreamEvent, error) bool) {
		var at StreamEvent
		stopped := false
		err := s.Follow(ctx, query, &o, func(e *StreamEvent) error {
			if at.At = e.At; !yield(*e, nil) {
				stopped = true
				return errStopped
			}
			return nil
		})
		if err != nil && !stopped {
			yield(at, err)
		}
	}
}

// Connections is the number of connections that are open now.
func (s *Server) Connections() int64 { return s.connections.Load() }
