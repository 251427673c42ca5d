package feed_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/endpoint/feed"
	. "github.com/freshet/freshet/registry/feed"
)

// Feeds of one server have two connections at most, and each of them hears everything, in order and once.
func TestFeedsTakeTurns(t *testing.T) {
	const feeds, events = 4, 300
	var open, most, again atomic.Int32
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		for end := time.Now().Add(time.Second); open.Load() > 2 && time.Now().Before(end); { // this side hears later of an end
			time.Sleep(time.Millisecond)
		}
		for n := open.Load(); n > most.Load(); {
			most.Store(n)
		}
		from := 1
		if id := r.Header.Get("Last-Event-ID"); id != "" { // it goes on where it was
			again.Add(1)
			_, digits, _ := strings.Cut(id, `"offset":`)
			if _, err := fmt.Sscanf(digits, "%d", &from); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		for n := from; n <= events; n++ {
			added(n).write(w)
			select {
			case <-r.Context().Done():
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
		<-r.Context().Done() // the connection stays open
	})
	ctx, cancel := context.WithTimeout(t.Context(), patien)
	defer cancel()
	done := errors.New("done")
	var work sync.WaitGroup
	for i := range feeds {
		work.Go(func() {
			source, err := feed.Open(Definition{Name: fmt.Sprint(i), Kind: Wikimedia, URL: s.URL + fmt.Sprintf("/%d", i)},
				feed.Options{Pause: 5 * time.Millisecond})
			if err != nil {
				t.Error(err)
				return
			}
			cursor, last := "", int64(0)
			for err == nil {
				err = source.Follow(ctx, cursor, func(b Batch) error {
					for _, e := range b.Events {
						if e.Offset != last+1 {
							t.Errorf("feed %d: event %d after %d", i, e.Offset, last)
						}
						last = e.Offset
					}
					if cursor = b.Cursor; b.Gap != "" {
						t.Errorf("feed %d: %s", i, b.Gap)
					}
					if last == events {
						return done
					}
					return nil
				})
			}
			if !errors.Is(err, done) {
				t.Errorf("feed %d has heard %d events: %v", i, last, err)
			}
		})
	}
	work.Wait()
	if most.Load() != 2 || again.Load() == 0 {
		t.Errorf("%d connections at a time, %d continued", most.Load(), again.Load())
	}
}
