package notify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/docs"
	"github.com/freshet/freshet/web/docs/docstest"
)

// A change that names the edits behind it is a message as the document describes it.
func TestEditsAreDescribed(t *testing.T) {
	doc, err := docstest.Open(docs.AsyncAPI)
	if err != nil {
		t.Fatal(err)
	}
	c := registry.Change{Query: "q_1", Epoch: "e", Prev: 1, Seq: 2, Offset: 3, Slot: 4, Time: time.Now().UTC(), CheckedAt: time.Now().UTC(),
		Delta: &diff.Delta{Form: diff.Ask, Boolean: true, NewHash: "sha256:" + strings.Repeat("1", 64),
			OldHash: "sha256:" + strings.Repeat("0", 64)},
		Edits: []registry.DataEdit{{Text: "revision 2145 of Q42", Link: "https://x.example/2145"}, {Text: "changeset 7"}}}
	b, err := notify.MarshalChange(c, notify.Format{})
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Event("change", b); err != nil {
		t.Errorf("%v: %s", err, b)
	}
}
