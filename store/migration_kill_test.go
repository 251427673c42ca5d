//go:build unix

package store

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// makeOlder rewrites the registrations of an open store as schema 7 had them.
func makeOlder(t *testing.T, d *DB, n int) {
	t.Helper()
	err := d.update(func(tx *bbolt.Tx) error {
		for i := range n {
			s, err := findQuery(tx, fmt.Sprintf("q_%04d", i))
			if err != nil {
				return err
			}
			if s.body, err = json.Marshal(&s.Query); err != nil {
				return err
			}
			if err := s.save(tx); err != nil {
				return err
			}
		}
		return tx.Bucket(bMeta).Put(kSchema, key8(7))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A process that is killed while it opens a file of schema 7 leaves it complete: of the
// older schema or of the current one, with the same epoch.
func TestKillInTheMigration(t *testing.T) {
	const n, kills, seed = 3000, 8, 20261122
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	d := open(t, dir, Options{})
	registerAll(t, d, n, func(i int) registry.Query {
		return registry.Query{ID: fmt.Sprintf("q_%04d", i), Endpoint: "city", Text: fmt.Sprintf("SELECT * { ?s <http://x/%d> ?o }", i),
			Normal: fmt.Sprintf("SELECT * { ?s <http://x/%d> ?o }", i), Constants: []string{fmt.Sprintf("http://x/%d", i)}, CreatedAt: start,
			Holders: []registry.Holder{{Caller: "app", Name: fmt.Sprint("name ", i), Since: start}}}
	})
	epoch, left := d.Epoch(), 0
	takes := time.Duration(0) // from the start of the process to the end of the migration
	for kill := range kills + 1 {
		makeOlder(t, d, n)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		c := child(t, "migrate", dir)
		began := time.Now()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if kill > 0 {
			time.Sleep(time.Duration(random.Float64() * float64(takes) / 2))
			_ = c.Process.Kill() // it may have ended
		}
		err := c.Wait()
		if kill == 0 {
			if takes = time.Since(began); err != nil {
				t.Fatal(err)
			}
		}
		b, err := bbolt.Open(dir+"/"+File, 0o600, &bbolt.Options{ReadOnly: true, Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		err = b.View(func(tx *bbolt.Tx) error {
			v, err := schemaVersion(tx)
			if v == 7 {
				left++
			}
			return err
		})
		if closed := b.Close(); err != nil || closed != nil {
			t.Fatal(err, closed)
		}
		d = open(t, dir, Options{})
		if d.Epoch() != epoch {
			t.Fatalf("kill %d: the epoch is %s, before it was %s", kill, d.Epoch(), epoch)
		}
		if err := d.Check(); err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		for i := range n {
			q, err := d.Queries.Query(fmt.Sprintf("q_%04d", i))
			if err != nil || len(q.Constants) != 1 || q.Constants[0] != fmt.Sprintf("http://x/%d", i) || q.Holders[0].Name != fmt.Sprint("name ", i) {
				t.Fatalf("kill %d: %+v, %v", kill, q, err)
			}
		}
	}
	t.Logf("%d of %d kills left the older schema", left, kills)
}
