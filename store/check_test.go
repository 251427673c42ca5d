package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// Check finds missing, wrong and superfluous entries.
func TestCheckFinds(t *testing.T) {
	deleteFirst := func(bucket []byte) func(tx *bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			k, _ := tx.Bucket(bucket).Cursor().First()
			return tx.Bucket(bucket).Delete(k)
		}
	}
	damage := map[string]func(tx *bbolt.Tx) error{
		"a result without a query": func(tx *bbolt.Tx) error { return tx.Bucket(bResults).Put(key8(9999), []byte("x")) },
		"a wrong counter": func(tx *bbolt.Tx) error {
			c := loadCounters(tx)
			c.logBytes++
			return c.save(tx)
		},
		"a wrong count": func(tx *bbolt.Tx) error {
			c := loadCounters(tx)
			c.queries++
			return c.save(tx)
		},
		"an offset given twice": func(tx *bbolt.Tx) error {
			c := loadCounters(tx)
			c.offset = 1
			return c.save(tx)
		},
		"another result": func(tx *bbolt.Tx) error {
			b := tx.Bucket(bResults)
			k1, _ := b.Cursor().First()
			_, v2 := b.Cursor().Last()
			return b.Put(k1, append([]byte(nil), v2...))
		},
		"a result cut short": func(tx *bbolt.Tx) error {
			b := tx.Bucket(bResults)
			k, v := b.Cursor().First()
			return b.Put(k, append([]byte(nil), v[:len(v)-1]...))
		},
		"a gap in the log": func(tx *bbolt.Tx) error {
			c := tx.Bucket(bChanges).Cursor()
			c.First()
			k, v := c.Next()
			l, err := parseLogEntry(k, v)
			if err != nil {
				return err
			}
			n := loadCounters(tx)
			size, err := deleteChange(tx, l.offset, k)
			n.logBytes -= size
			return errors.Join(err, n.save(tx))
		},
		"a change cut short": func(tx *bbolt.Tx) error {
			b := tx.Bucket(bChanges)
			k, v := b.Cursor().First()
			return b.Put(k, append([]byte(nil), v[:len(v)-1]...))
		},
		"an endpoint that cannot be read": func(tx *bbolt.Tx) error { return tx.Bucket(bEndpoints).Put([]byte("city"), []byte("{")) },
		"a health that cannot be read": func(tx *bbolt.Tx) error {
			s, _ := findSpace(tx, "city")
			return tx.Bucket(bHealth).Put(key8(s.number), []byte("{"))
		},
		"a token that cannot be read": func(tx *bbolt.Tx) error { return tx.Bucket(bTokens).Put([]byte("shop"), []byte("{")) },
	}
	for _, bucket := range [][]byte{bStats, bQueries, bNames, bLive, bRevisions, bResults, bOffsets, bOld, bOwners, bSpaces} {
		damage["an entry missing in "+string(bucket)] = deleteFirst(bucket)
	}
	for name, spoil := range damage {
		t.Run(name, func(t *testing.T) {
			d := open(t, t.TempDir(), Options{})
			for _, id := range []string{"q_a", "q_b"} {
				put(t, d, id, "city", registry.Holder{Caller: "x", Name: "n" + id, Live: true})
				for slot, v := range []string{"x", "y", "z"} {
					step(t, d, "city", id, uint64(slot+1), id, v)
				}
			}
			check(t, d)
			if err := d.update(spoil); err != nil {
				t.Fatal(err)
			}
			err := d.Check()
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), d.path) {
				t.Fatalf("not found: %v", err)
			}
			t.Log(err)
		})
	}
}
