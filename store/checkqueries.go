package store

import (
	"errors"
	"strings"

	"github.com/freshet/freshet/diff"
)

// The checks of queries: their registrations, indexes, logs of changes, subscriptions and
// holders.

func (c *checker) spaces() error {
	total := uint64(0)
	err := c.tx.Bucket(bSpaces).ForEach(func(name, _ []byte) error {
		s, _ := findSpace(c.tx, string(name))
		total += s.queries
		if owner(c.tx, s.number) != s.name {
			c.found("endpoint %s: its number %d does not lead back", name, s.number)
		}
		for bucket, want := range map[string]uint64{
			string(bRevisions): s.queries, string(bRemovals): s.removals,
		} {
			if n := c.size([]byte(bucket), key8(s.number)); n != want {
				c.found("endpoint %s: %d entries in %s, not %d", name, n, bucket, want)
			}
		}
		return nil
	})
	if n := loadCounters(c.tx).queries; n != total {
		c.found("%d queries are counted, %d are there", n, total)
	}
	return err
}

func (c *checker) registrations() error {
	holds, names := 0, 0
	err := c.tx.Bucket(bQueries).ForEach(func(id, v []byte) error {
		s, err := parseQuery(string(id), v)
		if err != nil {
			c.found("query %s: %v", id, err)
			return nil
		}
		c.indexed(&s, &holds, &names)
		if !owned(c.tx, s.space) {
			c.gone[s.serial] = true
			return nil
		}
		c.serials[s.serial] = s.ID
		if owner(c.tx, s.space) != s.Endpoint {
			c.found("query %s: stored under another endpoint", id)
		}
		c.query(&s)
		return nil
	})
	if n := c.size(bNames, nil); n != uint64(2*names) {
		c.found("%d entries for %d names", n, names)
	}
	if n := c.size(bLive, nil); n != uint64(holds) {
		c.found("%d entries for %d live holds", n, holds)
	}
	queries := along{c: c.tx.Bucket(bQueries).Cursor()}
	return errors.Join(err, c.tx.Bucket(bStats).ForEach(func(id, _ []byte) error {
		if queries.get(id) == nil {
			c.found("query %s: statistics without a registration", id)
		}
		return nil
	}))
}

func (c *checker) indexed(s *storedQuery, holds, names *int) {
	is := func(bucket, key []byte) {
		if string(c.tx.Bucket(bucket).Get(key)) != s.ID {
			c.found("query %s: not to be found in %s", s.ID, bucket)
		}
	}
	is(bRevisions, key16(s.space, s.revision))
	for _, h := range s.Holders {
		if h.Name != "" {
			*names++
			is(bNames, nameKey(h.Name, s.serial, h.Caller))
			is(bNames, callerKey(h.Caller, h.Name, s.serial))
		}
		if h.Live {
			*holds++
			if c.tx.Bucket(bLive).Get(liveKey(s.ID, h.Caller)) == nil {
				c.found("query %s: its live hold is not listed", s.ID)
			}
		}
	}
}

// query checks the statistics, the result and the changes of one query.
func (c *checker) query(s *storedQuery) {
	r := record{serial: s.serial, space: s.space}
	var err error
	if v := c.tx.Bucket(bStats).Get([]byte(s.ID)); v != nil {
		r, err = parseRecord(v)
	}
	if err != nil {
		c.found("query %s: %v", s.ID, err)
		return
	}
	if r.serial != s.serial || r.space != s.space {
		c.found("query %s: statistics of another query", s.ID)
	}
	v := c.tx.Bucket(bResults).Get(key8(s.serial))
	if (v != nil) != (r.seq > 0) {
		c.found("query %s: at change %d, result kept: %t", s.ID, r.seq, v != nil)
		return
	}
	if v == nil {
		return
	}
	result, err := c.pack.unpackResult(v)
	if err != nil {
		c.found("query %s: result: %v", s.ID, err)
		return
	}
	hash := result.Hash()
	if hash != resultHash(v) || hash != r.stats.Hash {
		c.found("query %s: the result has the hash %s, kept are %s and %s", s.ID, hash, resultHash(v), r.stats.Hash)
	}
	c.history(s, r.seq, hash)
}

// history checks that a query's changes are numbered without a gap up to seq and that
// their hashes form a chain that ends at the result.
func (c *checker) history(s *storedQuery, seq uint64, hash string) {
	cur := c.tx.Bucket(bChanges).Cursor()
	last, offset, reached := uint64(0), uint64(0), ""
	for k, v := cur.Seek(key8(s.serial)); hasPrefix(k, key8(s.serial)); k, v = cur.Next() {
		l, err := parseLogEntry(k, v)
		if err != nil {
			c.found("query %s: %v", s.ID, err)
			return
		}
		delta, err := c.delta(&l)
		if err != nil {
			c.found("query %s: %v", s.ID, err)
			return
		}
		if last > 0 && (l.seq != last+1 || l.offset <= offset || delta.OldHash != reached) {
			c.found("query %s: change %d does not follow change %d", s.ID, l.seq, last)
		}
		if l.query != s.ID || l.baseline != (l.seq == 1) {
			c.found("query %s: change %d is of query %s, baseline: %t", s.ID, l.seq, l.query, l.baseline)
		}
		c.snapshot(&l, delta.NewHash)
		last, offset, reached = l.seq, l.offset, delta.NewHash
	}
	if last > 0 && (last != seq || reached != hash) {
		c.found("query %s: the log ends at change %d, the statistics say %d; it leads to %s, the result is %s", s.ID, last, seq, reached, hash)
	}
}

// snapshot checks the result that is stored beside a change.
func (c *checker) snapshot(l *logEntry, hash string) {
	v := c.tx.Bucket(bSnapshots).Get(key16(l.serial, l.seq))
	if (v != nil) != l.snapshot {
		c.found("query %s: change %d, result kept: %t", l.query, l.seq, v != nil)
	}
	if v == nil {
		return
	}
	if r, err := c.pack.unpackResult(v); err != nil {
		c.found("query %s: result after change %d: %v", l.query, l.seq, err)
	} else if r.Hash() != hash || resultHash(v) != hash {
		c.found("query %s: the result after change %d has the hash %s, kept are %s and %s", l.query, l.seq, r.Hash(), resultHash(v), hash)
	}
}

func (c *checker) delta(l *logEntry) (*diff.Delta, error) {
	change, err := l.unpack(c.pack, "")
	return change.Delta, err
}

// pending records the serials whose history waits for the purge.
func (c *checker) pending() error {
	return c.tx.Bucket(bPurge).ForEach(func(k, _ []byte) error {
		if k[0] == purgeHistory {
			c.gone[number(k[1:])] = true
		}
		return nil
	})
}

// orphans looks for history without an owner.
func (c *checker) orphans() error {
	known := func(serial uint64) bool { return c.serials[serial] != "" || c.gone[serial] }
	for _, bucket := range [][]byte{bResults, bChanges, bSnapshots} {
		err := c.tx.Bucket(bucket).ForEach(func(k, _ []byte) error {
			if !known(number(k)) {
				c.found("%s: number %d belongs to no query", bucket, number(k))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// subscriptions checks that each subscription can be read and is stored under its id.
func (c *checker) subscriptions() error {
	return c.tx.Bucket(bSubscriptions).ForEach(func(k, v []byte) error {
		s, err := parseSubscription(string(k), v)
		if err != nil {
			c.found("%v", err)
		} else if s.ID != string(k) {
			c.found("subscription %s: stored under another id", k)
		}
		return nil
	})
}

// rules checks that each rule, its state and each message about an alert can be read.
func (c *checker) rules() error {
	rules, states, alerts := c.tx.Bucket(bRules), c.tx.Bucket(bRuleStates), c.tx.Bucket(bAlerts)
	err := rules.ForEach(func(id, v []byte) error {
		if _, err := parseRule(id, v, states); err != nil {
			c.found("%v", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = states.ForEach(func(k, _ []byte) error {
		if id, _, _ := strings.Cut(string(k), "\x00"); rules.Get([]byte(id)) == nil {
			c.found("state %q: there is no such rule", k)
		}
		return nil
	})
	if err != nil {
		return err
	}
	bytes := map[string]uint64{}
	err = alerts.ForEach(func(k, v []byte) error {
		m, err := parseAlert(k, v)
		if err != nil {
			c.found("%v", err)
		}
		bytes[m.Caller+"\x00"+string(k[:max(0, len(k)-8)])] += uint64(len(v))
		return nil
	})
	if err != nil {
		return err
	}
	counted := c.tx.Bucket(bAlertBytes)
	if n := c.size(bAlertBytes, nil); n != uint64(len(bytes)) {
		c.found("messages wait for %d receivers of alerts, and are counted for %d", len(bytes), n)
	}
	for key, want := range bytes {
		if v := counted.Get([]byte(key)); v == nil || number(v) != want {
			c.found("the %d bytes of messages to %q are not counted", want, key)
		}
	}
	return nil
}

// holdings compares the counts with the registrations.
func (c *checker) holdings() error {
	all, err := countHoldings(c.tx)
	if err != nil {
		return nil // reported by the checks of registrations and profiles
	}
	for caller, want := range all {
		if got := loadHoldings(c.tx, caller); got != want {
			c.found("%s is counted to hold %+v, not %+v", caller, got, want)
		}
	}
	if n := c.size(bHoldings, nil); n != uint64(len(all)) {
		c.found("%d callers are counted, %d hold something", n, len(all))
	}
	return nil
}
