package store

import (
	"fmt"
	"testing"

	"github.com/freshet/freshet/diff"
)

// BenchmarkPrepare encodes and compresses a baseline for a commit.
func BenchmarkPrepare(b *testing.B) {
	for _, rows := range []int{20, 1000, 100_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			d := open(b, b.TempDir(), Options{})
			body := rowsBody(rows, 0)
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				b.StopTimer()
				r, err := diff.DecodeJSON(body, diff.Select, diff.Options{})
				if err != nil {
					b.Fatal(err)
				}
				delta := diff.Compare(nil, r)
				b.StartTimer()
				if _, err := d.Ledger.Prepare(nil, r, delta); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
