package notify

import (
	"context"
	"runtime"

	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// sharePage reads a page once for all cursors that go the same step. No one may
// write to it.
func (s *Server) sharePage(query string, from, newest registry.Position, read func() ([]registry.Change, error)) ([]registry.Change, error) {
	return s.pages.get(documentKey{changeKey: changeKey{query, newest.Epoch, from.Seq, newest.Seq}}, read, pageWeight)
}

func pageWeight(page []registry.Change) int {
	n := len(page) * 512
	for i := range page {
		n += int(cursor.DeltaSize(page[i].Delta))
	}
	return n
}

// foldPlaces are for readers for whom more than a page of the log is added up.
// Each keeps a processor busy for as long as that takes: one processor stays free.
func foldPlaces() chan struct{} { return make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1)) }

// longFold waits for a place, or for the end of ctx.
func (s *Server) longFold(ctx context.Context) (leave func()) {
	select {
	case s.folds <- struct{}{}:
		return func() { <-s.folds }
	case <-ctx.Done():
		return func() {}
	}
}
