package notify

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// aChange returns a change that replaces one row by another of the given length.
func aChange(t testing.TB, query string, seq uint64, length int) *registry.Change {
	t.Helper()
	rows := func(v string) *diff.Result {
		b := diff.NewBuilder(diff.Select, diff.Options{})
		b.SetVars([]string{"s"})
		b.Row(diff.Term{Kind: diff.Literal, Value: strings.Repeat(v, length)})
		r, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	return &registry.Change{Query: query, Epoch: "e", Prev: seq - 1, Seq: seq, Time: time.Unix(int64(seq), 0),
		Delta: diff.Compare(rows("a"), rows("b"))}
}

func TestWrittenOnce(t *testing.T) {
	s := NewServer(Options{})
	c := aChange(t, "q", 2, 10)
	want, err := MarshalChange(*c, Format{})
	if err != nil {
		t.Fatal(err)
	}
	members := func(c *registry.Change) string {
		body, err := s.changeContent(c, nil)
		if err != nil {
			t.Error(err)
			return ""
		}
		return string(body.pieces[0])
	}
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if got := "{" + members(c) + "}"; got != string(want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
	all.Wait()
	if n := s.documents.cache.misses; n != 1 {
		t.Errorf("marshalled %d times for a thousand followers", n)
	}
	fold := *c
	fold.Prev = 0
	if members(&fold) == members(c) || s.documents.cache.misses != 2 {
		t.Error("a fold was taken for the change that it ends with")
	}
}

func TestKeptIsBounded(t *testing.T) {
	var k onceCache[int, []byte]
	put := func(key, size int) {
		if _, err := k.get(key, func() ([]byte, error) { return make([]byte, size), nil }, func(b []byte) int { return len(b) }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 * keepEntries {
		put(i, 1)
		put(0, 1) // is used all the time
	}
	if len(k.byKey) != keepEntries || k.order.Len() != keepEntries || k.byKey[0] == nil {
		t.Errorf("%d small ones kept, %d in order, the one in use: %v", len(k.byKey), k.order.Len(), k.byKey[0] != nil)
	}
	for i := range 60 {
		put(-i, 1<<20)
		if k.weight > keepWeight {
			t.Fatalf("%d bytes kept", k.weight)
		}
	}
	sum := 0
	for _, m := range k.byKey {
		sum += len(m.value)
	}
	if sum != k.weight || k.order.Len() != len(k.byKey) || len(k.byKey) < 3 {
		t.Errorf("%d bytes counted, %d kept in %d", k.weight, sum, len(k.byKey))
	}
	put(1<<20, 2*keepWeight)
	if len(k.byKey) != 1 {
		t.Errorf("%d kept beside one that is too heavy", len(k.byKey))
	}
	k.sweep()
	if put(7, 1); len(k.byKey) != 1 || k.byKey[7] == nil {
		t.Errorf("%d kept after a light one came", len(k.byKey))
	}
	k.sweep()
	if k.sweep(); len(k.byKey) != 0 || k.weight != 0 || k.sweeps {
		t.Errorf("%d kept of %d bytes that are not asked for", len(k.byKey), k.weight)
	}
}

// A document that was dropped is made again, and the transfer ends if it differs.
func TestDocumentIsMadeAgain(t *testing.T) {
	d := NewDocuments()
	text, made := bytes.Repeat([]byte("0123456789"), 20_000), 0
	open := func(key string) *Document {
		doc, _, err := d.Open("test", key, func(w io.Writer) (any, error) { made++; w.Write(text); return nil, nil })
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	letGo := func(doc *Document) {
		doc.held.Drop()
		for _, m := range d.cache.byKey {
			d.cache.drop(m)
		}
	}
	doc := open("a")
	var got bytes.Buffer
	err := doc.Each(func(p []byte) error {
		letGo(doc)
		if len(p) > Chunk || cap(p) > Chunk {
			t.Errorf("a piece of %d bytes", cap(p))
		}
		got.Write(p)
		return nil
	})
	if want := (len(text) + Chunk - 1) / Chunk; err != nil || got.String() != string(text) || made != want {
		t.Errorf("%d bytes of %d, made %d times, want %d: %v", got.Len(), len(text), made, want, err)
	}
	doc = open("a")
	letGo(doc)
	text = append([]byte("x"), text[1:]...)
	if _, err := doc.WriteTo(io.Discard); !errors.Is(err, ErrMoved) {
		t.Errorf("other bytes: %v", err)
	}
}
