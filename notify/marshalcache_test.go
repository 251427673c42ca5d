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
	"github.com/freshet/freshet/notify/loan"
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
	members := func(c *registry.Change) []byte {
		doc, err := s.openChange(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		return doc.Small()
	}
	first := members(c)
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			got := members(c)
			if "{"+string(got)+"}" != string(want) {
				t.Errorf("got %s, want %s", got, want)
			}
			if &got[0] != &first[0] {
				t.Error("marshalled again for another follower")
			}
		})
	}
	all.Wait()
	fold := *c
	fold.Prev = 0
	if string(members(&fold)) == string(members(c)) {
		t.Error("a fold was taken for the change that it ends with")
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
		d.cache = loan.Cache[documentKey, *content]{Capacity: keepDocuments}
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
