package ui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
)

// Readers who compare distant versions cannot use all of the server's capacity.
func TestDearComparisonsAreBounded(t *testing.T) {
	r := newRig(t)
	versions := make([]*diff.Result, fewChanges+5)
	for i := range versions {
		versions[i] = r.numbers(i)
	}
	q := r.history("long", versions...)
	at := queryPath(q.ID)
	for range cap(r.pages.joins) {
		r.pages.joins <- struct{}{}
	}
	for _, far := range []string{"?b=1", "?a=1&b=204"} {
		r.get(at + far).status(200).has("Try again in a moment.")
	}
	r.get(at + "/difference?a=1&b=204&side=added&row=0&col=0").status(429)
	r.get(at + "?b=203&a=204").lacks("Try again").has("row only in 203")
	for range cap(r.pages.joins) {
		<-r.pages.joins
	}
	r.get(at+"?a=1&b=204").lacks("Try again").has("1 row only in 1", "1 row only in 204")
	if n := len(r.pages.joins); n != 0 {
		t.Errorf("%d places are still taken", n)
	}
}

// The memory of a comparison is bounded too.
func TestHeavyComparisonsAreRefused(t *testing.T) {
	r := newRig(t)
	const size, n = 2 << 20, 22
	versions := make([]*diff.Result, n)
	for i := range versions {
		versions[i] = table(t, [2]diff.Term{iri("big"), lit(fmt.Sprint(i) + strings.Repeat("x", size))})
	}
	q := r.history("heavy", versions...)
	at := queryPath(q.ID)
	r.get(fmt.Sprintf("%s?a=1&b=%d", at, n)).status(200).has("hold more than 64").lacks("not kept")
	r.get(fmt.Sprintf("%s?a=%d&b=%d", at, n-2, n)).has("1 row only in 22")
}
