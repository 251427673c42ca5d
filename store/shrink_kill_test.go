//go:build unix

package store

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"
)

// shrinkForever closes the store, and says each time that it was shrunk.
func shrinkForever(d *DB) error {
	err := d.Close()
	for n := 1; err == nil; n++ {
		if err = Shrink(filepath.Dir(d.path)); err == nil {
			_, err = fmt.Println(n)
		}
	}
	return err
}

// TestKillWhileShrinking kills a process that shrinks a store at random moments. The store goes on.
func TestKillWhileShrinking(t *testing.T) {
	const seed, kills = 20261129, 12
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	epoch := spacious(t, dir)
	for range kills {
		killOnce(t, "shrink", dir, 1+random.IntN(3), time.Duration(random.IntN(30_000))*time.Microsecond)
		d := open(t, dir, Options{})
		check(t, d)
		if d.Epoch() != epoch {
			t.Fatalf("a kill began a new epoch: %s after %s", d.Epoch(), epoch)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
