package store

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// Check verifies the whole store and returns all inconsistencies joined into one
// error. It reads all keys of the file, and checks each registration and its indexes, each
// result and its hash, the numbering of changes per query and overall, and that each
// change starts from the hash of the previous one. Reads and writes continue meanwhile.
func (d *DB) Check() error {
	return guarded(d.check)
}

func (d *DB) check() error {
	c := checker{pack: d.pack, serials: map[uint64]string{}, gone: map[uint64]bool{}}
	err := d.view(func(tx *bbolt.Tx) error {
		c.tx = tx
		for _, part := range []func() error{
			c.keys, c.spaces, c.registrations, c.pending, c.orphans, c.log, c.old, c.subscriptions, c.rules, c.profiles, c.holdings,
		} {
			if err := part(); err != nil {
				return err
			}
		}
		return nil
	})
	if err = errors.Join(append(c.findings, err)...); err != nil {
		return fmt.Errorf("check %s: %w: %w", d.path, ErrDamaged, err)
	}
	return nil
}

// keys reads all keys and values. A page that comes again has keys that do not increase, so the walk ends.
func (c *checker) keys() error {
	return c.tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		var last []byte
		cur := b.Cursor()
		for k, v := cur.First(); k != nil; k, v = cur.Next() {
			if last != nil && bytes.Compare(k, last) <= 0 || v == nil {
				return fmt.Errorf("%s: a key is out of place", name)
			}
			last = append(last[:0], k...)
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
	serials  map[uint64]string // of live queries
	gone     map[uint64]bool   // serials that wait for the purge
}

func (c *checker) found(format string, args ...any) {
	if len(c.findings) < maxFindings {
		c.findings = append(c.findings, fmt.Errorf(format, args...))
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

// log checks the index of offsets against the changes, and their size.
func (c *checker) log() error {
	n, size := uint64(0), uint64(0)
	err := c.tx.Bucket(bChanges).ForEach(func(k, v []byte) error {
		n++
		size += uint64(len(k) + len(v))
		l, err := parseLogEntry(k, v)
		if err != nil {
			c.found("%v", err)
		} else if string(c.tx.Bucket(bOffsets).Get(key8(l.offset))) != string(k) {
			c.found("change %d of %s: not to be found by its offset %d", l.seq, l.query, l.offset)
		}
		if r := c.tx.Bucket(bSnapshots).Get(k); r != nil {
			size += uint64(len(k) + len(r))
		}
		return nil
	})
	counted := loadCounters(c.tx)
	if m := c.size(bOffsets, nil); m != n {
		c.found("%d offsets for %d changes", m, n)
	}
	if counted.logBytes != size {
		c.found("the log is counted as %d bytes and has %d", counted.logBytes, size)
	}
	if k, _ := c.tx.Bucket(bOffsets).Cursor().Last(); number(k) > counted.offset {
		c.found("offset %d was given, the counter is at %d", number(k), counted.offset)
	}
	return err
}

// old checks that retention may drop all changes except the newest of each query.
func (c *checker) old() error {
	expected := uint64(0)
	var before []byte
	err := c.tx.Bucket(bChanges).ForEach(func(k, v []byte) error {
		if before != nil && number(before) == number(k) {
			expected++
			l, err := parseLogEntry(before, c.tx.Bucket(bChanges).Get(before))
			if err == nil && c.tx.Bucket(bOld).Get(key8(l.offset)) == nil {
				c.found("change %d of %s: retention does not know it", l.seq, l.query)
			}
		}
		before = k
		return nil
	})
	if n := c.size(bOld, nil); n != expected {
		c.found("retention knows %d changes, not %d", n, expected)
	}
	return err
}

// profiles checks the data of each profile: its rounds are the open and the ended
// ones, captures are numbered without a gap, and the counts match.
func (c *checker) profiles() error {
	known := map[uint64]bool{}
	err := c.tx.Bucket(bProfiles).ForEach(func(id, v []byte) error {
		n, err := parseProfile(v)
		if err != nil {
			c.found("profile %s: %v", id, err)
			return nil
		}
		known[n.serial] = true
		if !owned(c.tx, n.space) {
			return nil // waits for the purge
		}
		if n.ID != string(id) || owner(c.tx, n.space) != n.Endpoint {
			c.found("profile %s: stored under another id or endpoint", id)
		}
		p, err := findProgress(c.tx, n.ID)
		if err != nil {
			c.found("%v", err)
			return nil
		}
		c.rounds(&n, &p)
		return nil
	})
	for _, bucket := range [][]byte{bRounds, bOpen, bEnds, bCaptures} {
		_ = c.tx.Bucket(bucket).ForEach(func(k, _ []byte) error { // the callback returns no error
			serial := number(k)
			waits := c.tx.Bucket(bPurge).Get(purgeKey(purgeRounds, serial)) != nil
			if !known[serial] && !waits {
				c.found("%s: number %d belongs to no profile", bucket, serial)
			}
			return nil
		})
	}
	return err
}

func (c *checker) rounds(n *storedProfile, p *storedProgress) {
	prefix := key8(n.serial)
	open, all, ends := c.size(bOpen, prefix), c.size(bRounds, prefix), c.size(bEnds, prefix)
	if open != p.Open || all != open+ends || p.Captured+p.Expired != p.Ends || ends > 0 && ends != p.Ends+1-p.First {
		c.found("profile %s: %d rounds, %d of them open and %d ended; counted are %+v", n.ID, all, open, ends, *p)
	}
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
	if captured > 0 && captured != p.Captured {
		c.found("profile %s: the last capture is %d, %d are counted", n.ID, captured, p.Captured)
	}
}
