//go:build unix

package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// A later program changes each registration. The same code runs in the process that is killed.
func laterSchema(tx *bbolt.Tx) error {
	b := tx.Bucket(bNames)
	return tx.Bucket(bQueries).ForEach(func(id, _ []byte) error { return b.Put(append([]byte("later "), id...), id) })
}

// migrateLater opens a store as a later program does. It ends when the store is open.
func migrateLater(dir string) (*DB, error) {
	own := migrations
	migrations = append(slices.Clip(own), laterSchema)
	defer func() { migrations = own }()
	return Open(dir, Options{})
}

// A migration runs once, and a process that is killed in it leaves the file as a whole of the older schema or of
// the current one, with the same epoch. An older program refuses the current one.
func TestKillInTheMigration(t *testing.T) {
	const n, kills, seed = 3000, 8, 20261122
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	d := open(t, dir, Options{})
	registerAll(t, d, n, func(i int) registry.Query {
		return registry.Query{ID: fmt.Sprintf("q_%04d", i), Endpoint: "city", Text: "ASK {}", Normal: "ASK {}", CreatedAt: start,
			Holders: []registry.Holder{{Caller: "app", Since: start}}}
	})
	epoch, left := d.Epoch(), 0
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	older := map[string][]byte{}
	for _, name := range []string{File, File + generationSuffix} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		older[name] = b
	}
	takes := time.Duration(0) // from the start of the process to the end of the migration
	for kill := range kills + 1 {
		for name, b := range older {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c := child(t, "migrate", dir)
		began := time.Now()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if kill > 0 {
			time.Sleep(time.Duration(random.Float64() * float64(takes)))
			_ = c.Process.Kill() // it may have ended
		}
		err := c.Wait()
		if kill == 0 {
			if takes = time.Since(began); err != nil {
				t.Fatal(err)
			}
		}
		version, names := uint64(0), 0
		b, err := bbolt.Open(filepath.Join(dir, File), 0o600, &bbolt.Options{ReadOnly: true, Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		err = b.View(func(tx *bbolt.Tx) error {
			version = number(tx.Bucket(bMeta).Get(kSchema))
			return tx.Bucket(bNames).ForEach(func(k, _ []byte) error {
				names++
				return nil
			})
		})
		if closed := b.Close(); err != nil || closed != nil {
			t.Fatal(err, closed)
		}
		switch {
		case version == currentSchema() && names == 0:
			left++
		case version != currentSchema()+1 || names != n:
			t.Fatalf("kill %d: schema %d with %d of %d changes", kill, version, names, n)
		default:
			if _, err := Open(dir, Options{}); !errors.Is(err, ErrSchema) {
				t.Fatalf("kill %d: an older program opens the file: %v", kill, err)
			}
		}
		d, err := migrateLater(dir)
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		if d.Epoch() != epoch {
			t.Fatalf("kill %d: the epoch is %s, before it was %s", kill, d.Epoch(), epoch)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of %d kills left the older schema", left, kills)
}
