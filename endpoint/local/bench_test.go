package local

import (
	"context"
	"testing"
)

// BenchmarkOpen starts an engine beside others. This is about
// the cost of stopping a running query on an empty dataset.
func BenchmarkOpen(b *testing.B) {
	path := enginePath(b)
	for b.Loop() {
		e, err := Open(context.Background(), Options{Path: path})
		if err != nil {
			b.Fatal(err)
		}
		e.Close()
	}
}

// BenchmarkQuery measures a call: an empty question, a point lookup, and a scan
// of the dataset.
func BenchmarkQuery(b *testing.B) {
	e := loaded(b, numbers(1000))
	for _, c := range []struct{ name, text string }{
		{"empty", "ASK {}"},
		{"lookup", "SELECT ?o { <http://x/s500> <http://x/p> ?o }"},
		{"scan=1000", "SELECT ?s ?o { ?s <http://x/p> ?o }"},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := e.Query(context.Background(), c.text, "json", nil, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUpdate measures a small update, and one that must be kept as a dump
// because it is not repeatable.
func BenchmarkUpdate(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"data", "INSERT DATA { <http://x/a> <http://x/p> 1 }"},
		{"dumped", "DELETE WHERE { <http://x/id> ?p ?o } ; INSERT { <http://x/id> <http://x/p> ?u } WHERE { BIND (UUID() AS ?u) }"},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := loaded(b, numbers(1000))
			for b.Loop() {
				if err := e.Update(context.Background(), c.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
