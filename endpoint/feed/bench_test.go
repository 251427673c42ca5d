package feed_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/bench/stream"
	"github.com/freshet/freshet/endpoint/feed"
	. "github.com/freshet/freshet/registry/feed"
)

// BenchmarkEvents reads edits as Wikidata publishes them. One operation is 1000 events, with the server.
func BenchmarkEvents(b *testing.B) {
	world, source := stream.NewWorld(1, 1000, nil), stream.NewServer(1, stream.Faults{})
	for range 1010 {
		c := world.Next()
		source.Publish(&c, time.Now())
	}
	s := httptest.NewServer(source)
	defer s.Close()
	end := errors.New("end")
	for b.Loop() {
		f, err := feed.Open(Definition{Kind: Wikimedia, URL: s.URL}, feed.Options{})
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		err = f.Follow(b.Context(), `{"id":[{"topic":"`+stream.Topic+`","partition":0,"offset":2}],"seen":{"`+stream.Topic+
			`/0":{"offset":1,"time":"2020-01-01T00:00:00Z"}}}`, func(x Batch) error {
			if n += len(x.Events); n >= 1000 {
				return end
			}
			return nil
		})
		if !errors.Is(err, end) {
			b.Fatal(err)
		}
	}
}

// Messages of 10 MB, with a million triples, in a flood, do not need memory that grows.
func TestFloodNeedsLittleMemory(t *testing.T) {
	million := `<uri:s> <uri:p> ` + strings.Repeat("1,", 1_000_000) + "1 ."
	huge := `"` + strings.Repeat("x", 9<<20) + `"`
	small := fmt.Sprintf(`data: {"$schema":"/mediawiki/wikibase/entity/rdf_change/2.0.0","entity_id":"Q1","operation":"diff",`+
		`"sequence":0,"sequence_length":1,"meta":{"domain":"www.wikidata.org"},`+
		`"rdf_added_data":{"mime_type":"text/turtle","data":%q}}`+"\n\n", "<uri:s> <uri:p> 1 .")
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		for n := range 8 {
			edit(2*n+1, "diff", "rdf_added_data", turtle(million)).write(w)
			edit(2*n+2, "diff", "rdf_added_data", turtle("<uri:s> <uri:p> "+huge+" .")).write(w)
		}
		for range 300 {
			_, _ = io.WriteString(w, strings.Repeat(small, 100))
		}
	})
	f, err := feed.Open(Definition{Kind: Wikimedia, URL: s.URL}, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most atomic.Uint64
	stop := make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				runtime.ReadMemStats(&now)
				most.Store(max(most.Load(), now.HeapInuse))
			}
		}
	}()
	n := 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := f.Follow(ctx, "", func(b Batch) error { n += len(b.Events); return nil }); err != nil {
		t.Fatal(err)
	}
	close(stop)
	<-over
	more := int64(most.Load()) - int64(before.HeapInuse)
	t.Logf("%d events, %d MB more", n, more>>20)
	if n != 16+30_000 || more > 200<<20 { // half of it belongs to the server of this test
		t.Errorf("%d events, %d MB more", n, more>>20)
	}
}
