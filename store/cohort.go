package store

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
)

// What is known about asking queries together is stored beside the endpoint's health,
// one entry per cohort.

func cohortPrefix(space uint64) []byte { return append(key8(space), "cohort"...) }

func cohortKey(space uint64, key string) []byte {
	sum := sha256.Sum256([]byte(key)) // keys may be long
	return append(cohortPrefix(space), sum[:16]...)
}

// saveCohorts writes and deletes the states of cohorts.
func saveCohorts(tx *bbolt.Tx, space uint64, b *scheduler.Batch) error {
	to := tx.Bucket(bHealth)
	for _, key := range b.DroppedCohorts {
		if err := to.Delete(cohortKey(space, key)); err != nil {
			return err
		}
	}
	for _, s := range b.Cohorts {
		v, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("cohort %q: %w", s.Key, err)
		}
		if err := to.Put(cohortKey(space, s.Key), v); err != nil {
			return err
		}
	}
	return nil
}

// loadCohorts returns the states of an endpoint's cohorts.
func loadCohorts(tx *bbolt.Tx, space uint64) (list []cohort.State, err error) {
	prefix, c := cohortPrefix(space), tx.Bucket(bHealth).Cursor()
	for k, v := c.Seek(prefix); hasPrefix(k, prefix); k, v = c.Next() {
		var s cohort.State
		if err := json.Unmarshal(v, &s); err != nil {
			return nil, fmt.Errorf("%w: a cohort of queries: %w", ErrDamaged, err)
		}
		list = append(list, s)
	}
	return list, nil
}
