package store

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/policy"
	"go.etcd.io/bbolt"
)

// newsSince reads what a loop must know: what changed after a revision, and the state
// that the last batch recorded.
func newsSince(tx *bbolt.Tx, e storeEpoch, endpoint string, rev uint64) (scheduler.News, error) {
	n := scheduler.News{Revision: loadCounters(tx).revision}
	s, ok := findSpace(tx, endpoint)
	if !ok {
		n.Full, n.Reprofiled = rev > 0, true
		return n, nil
	}
	n.Space = s.number
	if n.Reprofiled = rev == 0 || s.profiled > rev || rev < s.floor; n.Reprofiled {
		var err error
		if n.Profiles, err = profileStates(tx, &s); err == nil {
			n.Models, err = readModels(tx, n.Profiles)
		}
		if err != nil {
			return n, err
		}
	}
	n.Full = rev > 0 && rev < s.floor
	if rev == 0 {
		var err error
		if n.Cohorts, err = loadCohorts(tx, s.number); err != nil {
			return n, err
		}
	}
	if n.Full {
		rev = 0
	}
	if n.Revision != rev { // else nothing was registered, edited, removed or reached by an event
		if err := entries(tx, &s, e, rev, &n); err != nil {
			return n, err
		}
		if err := touchedSince(tx, &s, rev, &n); err != nil {
			return n, err
		}
		if rev > 0 {
			n.Removed = removedSince(tx, &s, rev)
		}
	}
	err := lastOf(tx, &s, &n)
	if err == nil {
		n.Feeds, err = loadFeeds(tx)
	}
	return n, err
}

// entries reads the queries whose revision is larger than rev, in the order of their
// revisions. It reads them in the order of the file, which costs far less than searches.
func entries(tx *bbolt.Tx, s *storedSpace, e storeEpoch, rev uint64, n *scheduler.News) error {
	type place struct {
		id []byte
		at int
	}
	var places []place
	c := tx.Bucket(bRevisions).Cursor()
	for k, id := c.Seek(key16(s.number, rev+1)); hasPrefix(k, key8(s.number)); k, id = c.Next() {
		places = append(places, place{id, len(places)})
	}
	if len(places) == 0 {
		return nil
	}
	slices.SortFunc(places, func(a, b place) int { return bytes.Compare(a.id, b.id) })
	n.Entries = make([]policy.Entry, len(places))
	queries, stats := ascendingReader{c: tx.Bucket(bQueries).Cursor()}, ascendingReader{c: tx.Bucket(bStats).Cursor()}
	for _, p := range places {
		v := queries.get(p.id)
		q, err := parseQuery(string(p.id), v)
		if err != nil {
			return fmt.Errorf("query %s: %w", p.id, err)
		}
		r, err := readRecord(entryOf(stats.get(p.id), v), e)
		if err != nil {
			return fmt.Errorf("query %s: %w", p.id, err)
		}
		n.Entries[p.at] = policy.Entry{Query: q.Query, Stats: r.stats}
	}
	return nil
}

// removedSince lists the queries that were removed and not registered again.
func removedSince(tx *bbolt.Tx, s *storedSpace, rev uint64) (ids []string) {
	c := tx.Bucket(bRemovals).Cursor()
	for k, id := c.Seek(key16(s.number, rev+1)); hasPrefix(k, key8(s.number)); k, id = c.Next() {
		if r, _, ok := liveRecord(tx, string(id)); !ok || r.space != s.number {
			ids = append(ids, string(id))
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func lastOf(tx *bbolt.Tx, s *storedSpace, n *scheduler.News) error {
	var err error
	b := tx.Bucket(bHealth)
	if n.Health, err = loadHealth(b, s.number); err != nil {
		return err
	}
	n.Edited = loadEdited(b, s.number)
	if _, err := getJSON(b, proofKey(s.number), &n.Proof, "the proofs of an endpoint"); err != nil {
		return err
	}
	if _, err := getJSON(b, besideKey(s.number), &n.Beside, "the trial runs of an endpoint"); err != nil {
		return err
	}
	if v := b.Get(policyKey(s.number)); v != nil {
		if n.Policy, err = parsePolicy(v); err != nil {
			return err
		}
	}
	k, v := lastWith(tx.Bucket(bSlots), key8(s.number))
	if k == nil {
		return nil
	}
	return parseJSON(v, &n.Last, "a slot")
}

func besideKey(space uint64) []byte { return append(key8(space), "beside"...) }

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
		if err := putJSON(to, cohortKey(space, s.Key), &s); err != nil {
			return fmt.Errorf("cohort %q: %w", s.Key, err)
		}
	}
	return nil
}

func loadCohorts(tx *bbolt.Tx, space uint64) (list []cohort.State, err error) {
	prefix, c := cohortPrefix(space), tx.Bucket(bHealth).Cursor()
	for k, v := c.Seek(prefix); hasPrefix(k, prefix); k, v = c.Next() {
		var s cohort.State
		if err := parseJSON(v, &s, "a cohort of queries"); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// The state that a policy keeps for an endpoint as a whole is stored beside the
// endpoint's health.

func policyKey(space uint64) []byte { return append(key8(space), "policy"...) }

const policyVersion = 1

func appendPolicy(b []byte, s *scheduler.PolicyState) []byte {
	b = append(b, policyVersion)
	return putFloats(putText(b, s.Policy), s.State)
}

func parsePolicy(b []byte) (scheduler.PolicyState, error) {
	in := scan{b: b}
	if in.byte() != policyVersion {
		in.fail()
	}
	s := scheduler.PolicyState{Policy: in.text(), State: in.floats()}
	return s, in.end("what a policy has learnt")
}
