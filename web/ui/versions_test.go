package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
)

// Versions that lie far apart are compared exactly, in either direction, and each row says
// since when it is there.
func TestDistantVersions(t *testing.T) {
	r := newRig(t)
	versions := make([]*diff.Result, 205)
	for i := range versions {
		versions[i] = r.numbers(i)
	}
	q := r.history("long", versions...)
	at := queryPath(q.ID)
	r.get(at+"?a=1&b=204").status(200).has("1 row only in 1", "1 row only in 204")
	r.get(at+"?a=204&b=1").status(200).has("1 row only in 1", "1 row only in 204")
	r.get(at + "/difference?a=1&b=204&side=added&row=0&col=0").status(200)
	r.get(at+"?b=3").status(200).has("version 3 since", "1 to 205 are kept", "added by change 3")
	r.get(at).status(200).has("added by change 205")
}

// The size of changes does not matter, and a reader who has left costs nothing.
func TestLongHeavyComparisons(t *testing.T) {
	r := newRig(t)
	const size, n = 2 << 20, 22
	versions := make([]*diff.Result, n)
	for i := range versions {
		versions[i] = table(t, [2]diff.Term{iri("big"), lit(fmt.Sprint(i) + strings.Repeat("x", size))})
	}
	q := r.history("heavy", versions...)
	at := queryPath(q.ID)
	r.get(fmt.Sprintf("%s?a=1&b=%d", at, n)).status(200).has("1 row only in 1", "1 row only in 22")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v := resultHandler{&visit{Server: r.pages, r: httptest.NewRequestWithContext(ctx, "GET", at, nil)}}
	if _, err := v.version(q.ID, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader has left: %v", err)
	}
}
