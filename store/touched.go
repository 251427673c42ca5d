// What follows from change feeds.

package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/proof"
	"go.etcd.io/bbolt"
)

// RecordFeed commits what follows from a batch of events, and the cursor after it. It returns
// scheduler.ErrFenced if another node has taken the lease of the feed. A batch that is too large
// for one command of the journal is recorded by several, of which only the last moves the cursor:
// touches may be added again.
func (d *Ledger) RecordFeed(b scheduler.FeedBatch) error {
	if err := d.refusal(); err != nil {
		return fmt.Errorf("record the feed %s: %w", b.Feed, err)
	}
	list := slices.Sorted(maps.Keys(b.Touched))
	for ; len(list) > touchesTogether; list = list[touchesTogether:] {
		if err := d.recordFeed(b, list[:touchesTogether], nil); err != nil {
			return err
		}
	}
	return d.recordFeed(b, list, &b.State)
}

// touchesTogether is how many touches are in one command. They have at most ten edits each.
const touchesTogether = 2000

func (d *Ledger) recordFeed(b scheduler.FeedBatch, ids []string, state *proof.Feed) error {
	e := &feedEdit{Feed: b.Feed, Token: d.token, State: state}
	for _, id := range ids {
		e.Touched = append(e.Touched, touchedQuery{id, b.Touched[id]})
	}
	if _, err := d.execute(func(tx *bbolt.Tx) (command, error) { return e.withoutKnown(tx), nil }); err != nil {
		return fmt.Errorf("record the feed %s: %w", b.Feed, err)
	}
	return nil
}

// withoutKnown returns the edit without a cursor that is stored already: it may be long, and most batches of some
// feeds only say that nothing has happened.
func (e *feedEdit) withoutKnown(tx *bbolt.Tx) *feedEdit {
	if e.State == nil || string(tx.Bucket(bFeeds).Get(cursorKey(e.Feed))) != e.State.Cursor {
		return e
	}
	short, state := *e, *e.State
	state.Cursor = ""
	short.State, short.Kept = &state, true
	return &short
}

// Feed returns what is recorded about a feed, and false if nothing is.
func (d *Ledger) Feed(name string) (f proof.Feed, ok bool, err error) {
	err = d.view(func(tx *bbolt.Tx) (err error) {
		feeds := tx.Bucket(bFeeds)
		if ok, err = getJSON(feeds, []byte(name), &f, "the feed "+name); err != nil {
			return err
		}
		if c := feeds.Get(cursorKey(name)); ok && c != nil {
			f.Cursor = string(c)
		}
		return nil
	})
	return f, ok, err
}

// cursorKey is the key of the cursor of a feed. No name begins so.
func cursorKey(feed string) []byte { return append([]byte{0}, feed...) }

// loadFeeds returns all feeds without their cursors, nil if there is none.
func loadFeeds(tx *bbolt.Tx) (feeds map[string]proof.Feed, err error) {
	c := tx.Bucket(bFeeds).Cursor()
	for k, v := c.Seek([]byte{1}); k != nil && err == nil; k, v = c.Next() {
		var f proof.Feed
		err = parseJSON(v, &f, "the feed "+string(k))
		if feeds == nil {
			feeds = map[string]proof.Feed{}
		}
		feeds[string(k)] = f
	}
	return feeds, err
}

// Touch returns which events reached a query last, zero if it is compared with none.
func (d *Ledger) Touch(query string) (t proof.Touch, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		s, err := loadTouch(tx, query)
		t = s.touch
		return err
	})
	return t, err
}

// Known returns what is recorded about the last complete answer to a query.
func (d *Ledger) Known(query string) (k scheduler.Known, err error) {
	var packed []byte
	err = d.view(func(tx *bbolt.Tx) error {
		head, v, ok := liveRecord(tx, query)
		if !ok {
			return nil
		}
		r, err := readRecord(v, d.epoch)
		if err != nil {
			return err
		}
		t, err := loadTouch(tx, query)
		k.Before, k.Touch, packed = r.stats.Before, t.touch, slices.Clone(tx.Bucket(bResults).Get(key8(head.serial)))
		return err
	})
	if err == nil && packed != nil {
		k.Result, err = d.pack.unpackResult(packed)
	}
	if err != nil {
		return k, fmt.Errorf("what is known of %s: %w", query, err)
	}
	return k, nil
}

// A storedTouch is the entry of a query in the bucket touched.
type storedTouch struct {
	serial, space, revision uint64
	touch                   proof.Touch
}

// loadTouch returns the entry of a query, zero if it has none.
func loadTouch(tx *bbolt.Tx, id string) (s storedTouch, err error) {
	v := tx.Bucket(bTouched).Get([]byte(id))
	if v == nil {
		return s, nil
	}
	numbers(v, &s.serial, &s.space, &s.revision)
	if len(v) < touchHead {
		return s, fmt.Errorf("%w: the events of query %s", ErrDamaged, id)
	}
	err = parseJSON(v[touchHead:], &s.touch, "the events of query "+id)
	return s, err
}

// touchHead is the size of the numbers of a stored touch.
const touchHead = 24

func touchesKey(space, revision uint64, id string) []byte {
	return append(key16(space, revision), id...)
}

// put stores a touch, in place of the one that was loaded.
func (s *storedTouch) put(tx *bbolt.Tx, id string, revision uint64) error {
	list := tx.Bucket(bTouches)
	if s.revision > 0 {
		if err := list.Delete(touchesKey(s.space, s.revision, id)); err != nil {
			return err
		}
	}
	s.revision = revision
	text, err := compactJSON(s.touch)
	if err != nil {
		return err
	}
	return errors.Join(list.Put(touchesKey(s.space, revision, id), nil),
		tx.Bucket(bTouched).Put([]byte(id), append(putNumbers(&s.serial, &s.space, &s.revision), text...)))
}

func forgetTouch(tx *bbolt.Tx, id string) error {
	v := tx.Bucket(bTouched).Get([]byte(id))
	if v == nil {
		return nil
	}
	var s storedTouch
	numbers(v, &s.serial, &s.space, &s.revision)
	return errors.Join(tx.Bucket(bTouches).Delete(touchesKey(s.space, s.revision, id)), tx.Bucket(bTouched).Delete([]byte(id)))
}

// touchedSince adds the touches of n's entries, and those after a revision.
func touchedSince(tx *bbolt.Tx, s *storedSpace, rev uint64, n *scheduler.News) error {
	c := tx.Bucket(bTouches).Cursor()
	if k, _ := c.Seek(key8(s.number)); !hasPrefix(k, key8(s.number)) {
		return nil
	}
	n.Touched = map[string]proof.Touch{}
	add := func(id string) error {
		t, err := loadTouch(tx, id)
		if err == nil && t.revision > 0 && t.space == s.number {
			n.Touched[id] = t.touch
		}
		return err
	}
	for k, _ := c.Seek(key16(s.number, rev+1)); hasPrefix(k, key8(s.number)); k, _ = c.Next() {
		if err := add(string(k[16:])); err != nil {
			return err
		}
	}
	if rev == 0 { // these were all
		return nil
	}
	for i := range n.Entries {
		if err := add(n.Entries[i].Query.ID); err != nil {
			return err
		}
	}
	return nil
}

func proofKey(space uint64) []byte { return append(key8(space), "proof"...) }

// A feedEdit records the state of a feed, and which queries its events reached. It is a command.
type feedEdit struct {
	Feed    string
	Token   uint64         `json:",omitempty"` // of the feed's lease, 0 without a cluster and for what the feed was told
	State   *proof.Feed    `json:",omitempty"` // nil: unchanged
	Kept    bool           `json:",omitempty"` // the cursor is as it was
	Touched []touchedQuery `json:",omitempty"`
}

type touchedQuery struct {
	ID    string
	Touch proof.Touch
}

func (e *feedEdit) kind() byte { return kindFeed }

func (e *feedEdit) frees() bool { return false }

// Resume refuses what was read under a lease that has ended. What a feed was told needs no lease, but there may be one
// from when a node did not know that the feed is of this kind.
func (e *feedEdit) Resume(tx *bbolt.Tx) error {
	if e.Token == 0 {
		return nil
	}
	return fence(tx, FeedLease(e.Feed), e.Token)
}

func (e *feedEdit) Apply(tx *bbolt.Tx) error {
	if len(e.Touched) > 0 {
		if err := e.touchQueries(tx); err != nil {
			return err
		}
	}
	if e.State == nil {
		return nil
	}
	f, to := *e.State, tx.Bucket(bFeeds)
	if f.Cursor = ""; !e.Kept && string(to.Get(cursorKey(e.Feed))) != e.State.Cursor {
		if err := to.Put(cursorKey(e.Feed), []byte(e.State.Cursor)); err != nil {
			return err
		}
	}
	return putJSON(to, []byte(e.Feed), &f)
}

func (e *feedEdit) touchQueries(tx *bbolt.Tx) error {
	counters := loadCounters(tx)
	counters.revision++
	for _, t := range e.Touched {
		r, _, ok := liveRecord(tx, t.ID)
		if !ok {
			continue
		}
		s, err := loadTouch(tx, t.ID)
		if err != nil {
			return err
		}
		if s.serial != r.serial {
			if err := forgetTouch(tx, t.ID); err != nil {
				return err
			}
			s = storedTouch{serial: r.serial, space: r.space}
		}
		s.touch.Join(t.Touch)
		if err := s.put(tx, t.ID, counters.revision); err != nil {
			return err
		}
	}
	return counters.save(tx)
}

// touch adds the feed: the loops of its endpoints look at what has changed.
func (e *feedEdit) touch(o *Others) { o.Feeds.add(e.Feed) }
