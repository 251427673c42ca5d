package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// Check verifies the whole store and returns all inconsistencies joined into one
// error. It reads all keys of the file, and checks each registration and its indexes, each
// result and its hash, the numbering of changes per query and overall, and that each
// change starts from the hash of the previous one. Reads and writes continue meanwhile.
func (d *DB) Check() error {
	return guarded(func() error {
		c := checker{pack: d.pack, serials: map[uint64]string{}, gone: map[uint64]bool{}, known: map[uint64]bool{},
			holdings: map[string]registry.Holdings{}, alerts: map[string]uint64{}}
		err := d.view(c.all)
		if err = errors.Join(append(c.findings, err)...); err != nil {
			return fmt.Errorf("check %s: %w: %w", d.path, ErrDamaged, err)
		}
		return nil
	})
}

// maxFindings is the maximum number of findings that Check returns.
const maxFindings = 100

// A checker checks what one read transaction sees.
type checker struct {
	pack     *packer
	tx       *bbolt.Tx
	findings []error
	serials  map[uint64]string            // of live queries
	gone     map[uint64]bool              // serials of queries that wait for the purge
	known    map[uint64]bool              // serials of profiles
	holdings map[string]registry.Holdings // by caller
	alerts   map[string]uint64            // bytes of messages, by caller and receiver
	before   []byte                       // the key of the last change

	queries, holds, names, changes, old, logBytes uint64
}

// all walks over all buckets twice: the checks rely on buckets that can be walked over. What an entry is compared with
// comes before it, or is looked up.
func (c *checker) all(tx *bbolt.Tx) error {
	c.tx = tx
	err := tx.ForEach(func(bucket []byte, _ *bbolt.Bucket) error {
		return c.walk(bucket, func(_, _, _ []byte) {})
	})
	for _, x := range []struct {
		bucket []byte
		check  func(bucket, k, v []byte)
	}{
		{bPurge, c.pending}, {bEndpoints, c.endpoint}, {bTokens, c.token}, {bSpaces, c.space}, {bQueries, c.registration}, {bStats, c.statistics},
		{bResults, c.ofQuery}, {bSnapshots, c.ofQuery}, {bChanges, c.change},
		{bSubscriptions, c.subscription}, {bRules, c.rule}, {bRuleStates, c.ruleState}, {bAlerts, c.alert},
		{bProfiles, c.profile}, {bRounds, c.ofProfile}, {bOpen, c.ofProfile}, {bEnds, c.ofProfile}, {bCaptures, c.ofProfile},
	} {
		if err == nil {
			err = c.walk(x.bucket, x.check)
		}
	}
	if err == nil {
		c.totals()
	}
	return err
}

// walk reads all entries of a bucket. A page that comes again has keys that do not increase, so the walk ends.
func (c *checker) walk(bucket []byte, check func(bucket, k, v []byte)) error {
	var last []byte
	cur := c.tx.Bucket(bucket).Cursor()
	for k, v := cur.First(); k != nil; k, v = cur.Next() {
		if last != nil && bytes.Compare(k, last) <= 0 || v == nil {
			return fmt.Errorf("%s: a key is out of place", bucket)
		}
		check(bucket, k, v)
		last = append(last[:0], k...)
	}
	return nil
}

func (c *checker) found(format string, args ...any) {
	if len(c.findings) < maxFindings {
		c.findings = append(c.findings, fmt.Errorf(format, args...))
	}
}

// is reports a finding unless a condition holds.
func (c *checker) is(holds bool, format string, args ...any) {
	if !holds {
		c.found(format, args...)
	}
}

// size counts the keys of a bucket that begin with prefix.
func (c *checker) size(bucket, prefix []byte) (n uint64) {
	cur := c.tx.Bucket(bucket).Cursor()
	for k, _ := cur.Seek(prefix); hasPrefix(k, prefix) && k != nil; k, _ = cur.Next() {
		n++
	}
	return n
}

// totals compares what was counted.
func (c *checker) totals() {
	counted := loadCounters(c.tx)
	c.is(counted.queries == c.queries, "%d queries are counted, %d are there", counted.queries, c.queries)
	c.is(counted.logBytes == c.logBytes, "the log is counted as %d bytes and has %d", counted.logBytes, c.logBytes)
	if k, _ := c.tx.Bucket(bOffsets).Cursor().Last(); number(k) > counted.offset {
		c.found("offset %d was given, the counter is at %d", number(k), counted.offset)
	}
	for _, x := range []struct {
		bucket []byte
		want   uint64
	}{
		{bNames, 2 * c.names}, {bLive, c.holds}, {bOffsets, c.changes}, {bOld, c.old},
		{bHoldings, uint64(len(c.holdings))}, {bAlertBytes, uint64(len(c.alerts))},
	} {
		n := c.size(x.bucket, nil)
		c.is(n == x.want, "%s has %d entries, not %d", x.bucket, n, x.want)
	}
	for caller, want := range c.holdings {
		got := loadHoldings(c.tx, caller)
		c.is(got == want, "%s is counted to hold %+v, not %+v", caller, got, want)
	}
	for key, want := range c.alerts {
		v := c.tx.Bucket(bAlertBytes).Get([]byte(key))
		c.is(v != nil && number(v) == want, "the %d bytes of messages to %q are not counted", want, key)
	}
}

func (c *checker) endpoint(_, name, _ []byte) {
	e, err := findEndpoint(c.tx, string(name))
	c.is(err == nil && e.Endpoint.Name == string(name), "endpoint %q cannot be read: %v", name, err)
}

func (c *checker) token(_, name, v []byte) {
	var t registry.Token
	err := json.Unmarshal(v, &t)
	c.is(err == nil && t.Name == string(name), "token %q cannot be read: %v", name, err)
}

func (c *checker) space(_, name, _ []byte) {
	s, _ := findSpace(c.tx, string(name))
	if _, err := loadHealth(c.tx.Bucket(bHealth), s.number); err != nil {
		c.found("endpoint %s: %v", name, err)
	}
	c.queries += s.queries
	c.is(owner(c.tx, s.number) == s.name, "endpoint %s: its number %d does not lead back", name, s.number)
	for bucket, want := range map[string]uint64{string(bRevisions): s.queries, string(bRemovals): s.removals} {
		n := c.size([]byte(bucket), key8(s.number))
		c.is(n == want, "endpoint %s: %d entries in %s, not %d", name, n, bucket, want)
	}
}

// pending records the serials whose history waits for the purge.
func (c *checker) pending(_, k, _ []byte) {
	if k[0] == purgeHistory {
		c.gone[number(k[1:])] = true
	}
}

func (c *checker) registration(_, id, v []byte) {
	s, err := parseQuery(string(id), v)
	if err != nil {
		c.found("query %s: %v", id, err)
		return
	}
	is := func(bucket, key []byte) {
		c.is(string(c.tx.Bucket(bucket).Get(key)) == s.ID, "query %s: not to be found in %s", s.ID, bucket)
	}
	is(bRevisions, key16(s.space, s.revision))
	for _, h := range s.Holders {
		if h.Name != "" {
			c.names++
			is(bNames, nameKey(h.Name, s.serial, h.Caller))
			is(bNames, callerKey(h.Caller, h.Name, s.serial))
		}
		if h.Live {
			c.holds++
			c.is(c.tx.Bucket(bLive).Get(liveKey(s.ID, h.Caller)) != nil, "query %s: its live hold is not listed", s.ID)
		}
		c.hold(h.Caller, registry.Holdings{Queries: 1, Bytes: s.Size()})
	}
	if !owned(c.tx, s.space) {
		c.gone[s.serial] = true
		return
	}
	c.serials[s.serial] = s.ID
	c.is(owner(c.tx, s.space) == s.Endpoint, "query %s: stored under another endpoint", id)
	c.query(&s)
}

func (c *checker) hold(caller string, more registry.Holdings) {
	h := c.holdings[caller]
	c.holdings[caller] = registry.Holdings{Queries: h.Queries + more.Queries, Bytes: h.Bytes + more.Bytes, Profiles: h.Profiles +
		more.Profiles}
}

func (c *checker) statistics(_, id, _ []byte) {
	c.is(c.tx.Bucket(bQueries).Get(id) != nil, "query %s: statistics without a registration", id)
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
	c.is(r.serial == s.serial && r.space == s.space, "query %s: statistics of another query", s.ID)
	v := c.tx.Bucket(bResults).Get(key8(s.serial))
	if (v != nil) != (r.seq > 0) {
		c.found("query %s: at change %d, result kept: %t", s.ID, r.seq, v != nil)
	} else if v != nil && c.result(v, r.stats.Hash, fmt.Sprintf("query %s: the result", s.ID)) {
		c.history(s, r.seq, r.stats.Hash)
	}
}

// result checks a stored result. It reports whether it can be read.
func (c *checker) result(v []byte, hash, what string) bool {
	r, err := c.pack.unpackResult(v)
	if err != nil {
		c.found("%s: %v", what, err)
		return false
	}
	c.is(r.Hash() == hash && resultHash(v) == hash, "%s has the hash %s, kept are %s and %s", what, r.Hash(), resultHash(v), hash)
	return true
}

// history checks that a query's changes are numbered without a gap up to seq and that
// their hashes form a chain that ends at the result.
func (c *checker) history(s *storedQuery, seq uint64, hash string) {
	cur := c.tx.Bucket(bChanges).Cursor()
	last, offset, reached := uint64(0), uint64(0), ""
	for k, v := cur.Seek(key8(s.serial)); hasPrefix(k, key8(s.serial)); k, v = cur.Next() {
		l, err := parseLogEntry(k, v)
		var change registry.Change
		if err == nil {
			change, err = l.unpack(c.pack, "")
		}
		if err != nil {
			c.found("query %s: %v", s.ID, err)
			return
		}
		delta := change.Delta
		c.is(last == 0 || l.seq == last+1 && l.offset > offset && delta.OldHash == reached,
			"query %s: change %d does not follow change %d", s.ID, l.seq, last)
		c.is(l.query == s.ID && l.baseline == (l.seq == 1), "query %s: change %d is of query %s, baseline: %t", s.ID, l.seq, l.query, l.baseline)
		kept := c.tx.Bucket(bSnapshots).Get(k)
		c.is((kept != nil) == l.snapshot, "query %s: change %d, result kept: %t", s.ID, l.seq, kept != nil)
		if kept != nil {
			c.result(kept, delta.NewHash, fmt.Sprintf("query %s: the result after change %d", s.ID, l.seq))
		}
		last, offset, reached = l.seq, l.offset, delta.NewHash
	}
	c.is(last == 0 || last == seq && reached == hash,
		"query %s: the log ends at change %d, the statistics say %d; it leads to %s, the result is %s", s.ID, last, seq, reached, hash)
}

// ofQuery checks that an entry of a history has an owner.
func (c *checker) ofQuery(bucket, k, _ []byte) {
	serial := number(k)
	c.is(c.serials[serial] != "" || c.gone[serial], "%s: number %d belongs to no query", bucket, serial)
}

// change checks the index of offsets, the size of the log, and that retention may drop all changes except the newest of
// each query.
func (c *checker) change(bucket, k, v []byte) {
	c.ofQuery(bucket, k, v)
	c.changes++
	for _, b := range [][]byte{v, c.tx.Bucket(bSnapshots).Get(k)} {
		if b != nil {
			c.logBytes += uint64(len(k) + len(b))
		}
	}
	l, err := parseLogEntry(k, v)
	if err != nil {
		c.found("%v", err)
	} else {
		c.is(string(c.tx.Bucket(bOffsets).Get(key8(l.offset))) == string(k), "change %d of %s: not to be found by its offset %d", l.seq,
			l.query, l.offset)
	}
	if c.before != nil && number(c.before) == number(k) {
		c.old++
		if l, err = parseLogEntry(c.before, c.tx.Bucket(bChanges).Get(c.before)); err == nil {
			c.is(c.tx.Bucket(bOld).Get(key8(l.offset)) != nil, "change %d of %s: retention does not know it", l.seq, l.query)
		}
	}
	c.before = k
}

func (c *checker) subscription(_, k, v []byte) {
	s, err := parseSubscription(string(k), v)
	if err != nil {
		c.found("%v", err)
		return
	}
	c.is(s.ID == string(k), "subscription %s: stored under another id", k)
	n, size, cur := 0, int64(0), c.tx.Bucket(bAlerts).Cursor()
	for key, m := cur.Seek(k); bytes.HasPrefix(key, k) && key != nil; key, m = cur.Next() {
		n, size = n+1, size+int64(len(m))
	}
	c.is(n == s.Stored && size == s.Bytes, "subscription %s: %d messages of %d bytes are counted, %d of %d bytes are there", k,
		s.Stored, s.Bytes, n, size)
}

func (c *checker) rule(_, id, v []byte) {
	if _, err := parseRule(id, v, c.tx.Bucket(bRuleStates)); err != nil {
		c.found("%v", err)
	}
}

func (c *checker) ruleState(_, k, _ []byte) {
	id, _, _ := strings.Cut(string(k), "\x00")
	c.is(c.tx.Bucket(bRules).Get([]byte(id)) != nil, "state %q: there is no such rule", k)
}

func (c *checker) alert(_, k, v []byte) {
	m, err := parseAlert(k, v)
	if err != nil {
		c.found("%v", err)
	}
	c.alerts[m.Caller+"\x00"+string(k[:max(0, len(k)-8)])] += uint64(len(v))
}

// profile checks the data of a profile: its rounds are the open and the ended
// ones, captures are numbered without a gap, and the counts match.
func (c *checker) profile(_, id, v []byte) {
	n, err := parseProfile(v)
	if err != nil {
		c.found("profile %s: %v", id, err)
		return
	}
	c.known[n.serial] = true
	c.hold(n.Owner, registry.Holdings{Profiles: 1, Bytes: n.Size()})
	if !owned(c.tx, n.space) {
		return // waits for the purge
	}
	c.is(n.ID == string(id) && owner(c.tx, n.space) == n.Endpoint, "profile %s: stored under another id or endpoint", id)
	p, err := findProgress(c.tx, n.ID)
	if err != nil {
		c.found("%v", err)
		return
	}
	c.rounds(&n, &p)
}

// ofProfile checks that an entry of a profile's rounds has an owner.
func (c *checker) ofProfile(bucket, k, _ []byte) {
	serial := number(k)
	c.is(c.known[serial] || c.tx.Bucket(bPurge).Get(purgeKey(purgeRounds, serial)) != nil, "%s: number %d belongs to no profile",
		bucket, serial)
}

func (c *checker) rounds(n *storedProfile, p *storedProgress) {
	prefix := key8(n.serial)
	open, all, ends := c.size(bOpen, prefix), c.size(bRounds, prefix), c.size(bEnds, prefix)
	c.is(open == p.Open && all == open+ends && p.Captured+p.Expired == p.Ends && (ends == 0 || ends == p.Ends+1-p.First),
		"profile %s: %d rounds, %d of them open and %d ended; counted are %+v", n.ID, all, open, ends, *p)
	captured := uint64(0)
	cur := c.tx.Bucket(bEnds).Cursor()
	for k, v := cur.Seek(prefix); k != nil && hasPrefix(k, prefix); k, v = cur.Next() {
		r, err := parseRound(c.tx.Bucket(bRounds).Get(key16(n.serial, number(v))))
		switch {
		case err != nil:
			c.found("profile %s: end %d: %v", n.ID, number(skipNumber(k)), err)
			return
		case r.State == registry.RoundExpired:
			continue
		case r.State != registry.RoundCaptured || captured > 0 && r.Position.Seq != captured+1:
			c.found("profile %s: round %d is %s as capture %d, after %d", n.ID, r.Number, r.State, r.Position.Seq, captured)
		case number(c.tx.Bucket(bCaptures).Get(key16(n.serial, r.Position.Seq))) != number(skipNumber(k)):
			c.found("profile %s: capture %d is not to be found", n.ID, r.Position.Seq)
		}
		captured = r.Position.Seq
	}
	c.is(captured == 0 || captured == p.Captured, "profile %s: the last capture is %d, %d are counted", n.ID, captured, p.Captured)
}
