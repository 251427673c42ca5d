package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// The data of a removed query or endpoint is deleted in the background, in
// transactions so small that they hardly delay a slot. The list of tasks is stored in
// the file, so a crash only delays them.

// purgeAtOnce is the number of entries that one transaction deletes.
const purgeAtOnce = 500

// deleteRemoved deletes what was removed, until ctx ends.
func deleteRemoved(ctx context.Context, d *boltFile) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.removed:
		}
		for more := true; more && ctx.Err() == nil; {
			err := guarded(func() (err error) {
				more, err = purgeSome(d)
				return err
			})
			if errors.Is(err, registry.ErrReadOnly) || ctx.Err() != nil {
				break // continues when the disk has space
			} else if err != nil {
				d.log.Error("deleting what was removed failed; it is tried again later", "file", d.path, "error", err)
				break
			}
		}
	}
}

// purgeSome runs one transaction and reports whether there is more to do.
func purgeSome(d *boltFile) (more bool, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		k, _ := tx.Bucket(bPurge).Cursor().First()
		more = k != nil
		return nil
	})
	if err != nil || !more {
		return false, err
	}
	if d.replica != nil {
		return true, d.purgeTogether()
	}
	s := new(purgeStep)
	_, err = d.execute(func(*bbolt.Tx) (command, error) { return s, nil })
	return !s.done, err
}

// purgeTogether asks for the next step of the purge on all nodes.
func (d *boltFile) purgeTogether() error {
	done, err := fetch(d, func(tx *bbolt.Tx) (uint64, error) { return number(tx.Bucket(bMeta).Get(kPurges)), nil })
	if err != nil {
		return err
	}
	return d.replica.Once(fmt.Sprintf("purge-%d", done+1), &purgeStep{Number: done + 1})
}

// A purgeStep deletes some of the data that waits for it. It is a command, because what it
// deletes counts toward retention. With a journal the steps are numbered, so that a step that
// several nodes ask for is done once.
type purgeStep struct {
	Number uint64 // 0 without a journal
	done   bool   // nothing is left
}

func (s *purgeStep) kind() byte { return kindPurge }

func (s *purgeStep) frees() bool { return true }

func (s *purgeStep) Resume(tx *bbolt.Tx) error {
	if s.Number != number(tx.Bucket(bMeta).Get(kPurges))+1 {
		return errMoved
	}
	return nil
}

func (s *purgeStep) Apply(tx *bbolt.Tx) error {
	if s.Number > 0 {
		if err := tx.Bucket(bMeta).Put(kPurges, key8(s.Number)); err != nil {
			return err
		}
	}
	p := purger{tx: tx, left: purgeAtOnce, counters: loadCounters(tx)}
	for p.left > 0 {
		k, _ := tx.Bucket(bPurge).Cursor().First()
		if k == nil {
			s.done = true
			break
		}
		if err := p.item(k[0], number(k[1:])); err != nil {
			return err
		}
	}
	return p.counters.save(tx)
}

// A purger is one transaction of the purge.
type purger struct {
	tx       *bbolt.Tx
	left     int
	counters counters
}

// item works on one task and removes it from the list once it is complete.
func (p *purger) item(kind byte, n uint64) error {
	p.left--
	var err error
	switch kind {
	case purgeHistory:
		err = p.history(n)
	case purgeSpace:
		err = p.space(n)
	case purgeRounds:
		err = p.rounds(n)
	default:
		err = fmt.Errorf("%w: unknown task %q in the list of deletions", ErrDamaged, kind)
	}
	if err != nil || p.left <= 0 {
		return err
	}
	return p.tx.Bucket(bPurge).Delete(purgeKey(kind, n))
}

// history deletes a query's result and changes.
func (p *purger) history(serial uint64) error {
	if err := p.tx.Bucket(bResults).Delete(key8(serial)); err != nil {
		return err
	}
	for ; p.left > 0; p.left-- {
		k, v := p.tx.Bucket(bChanges).Cursor().Seek(key8(serial))
		if !hasPrefix(k, key8(serial)) {
			return nil
		}
		l, err := parseLogEntry(k, v)
		if err != nil {
			return err
		}
		n, err := deleteChange(p.tx, l.offset, k)
		if err != nil {
			return err
		}
		p.counters.logBytes -= min(n, p.counters.logBytes)
	}
	return nil
}

// space deletes the data of a removed endpoint; its queries' histories become separate
// tasks.
func (p *purger) space(n uint64) error {
	for ; p.left > 0; p.left-- {
		k, id := p.tx.Bucket(bRevisions).Cursor().Seek(key8(n))
		if !hasPrefix(k, key8(n)) {
			break
		}
		if err := p.member(n, number(skipNumber(k)), string(id)); err != nil {
			return err
		}
	}
	if err := p.profiles(n); err != nil {
		return err
	}
	for _, name := range [][]byte{bRemovals, bSlots} {
		if err := p.prefix(name, key8(n)); err != nil {
			return err
		}
	}
	if err := p.prefix(bHealth, cohortPrefix(n)); err != nil {
		return err
	}
	for _, k := range [][]byte{policyKey(n), editedKey(n), proofKey(n), besideKey(n)} {
		if err := p.tx.Bucket(bHealth).Delete(k); err != nil {
			return err
		}
	}
	return p.tx.Bucket(bHealth).Delete(key8(n))
}

// member discards a query of a removed endpoint, and with it its entry in revisions.
func (p *purger) member(space, revision uint64, id string) error {
	s, err := parseQuery(id, p.tx.Bucket(bQueries).Get([]byte(id)))
	if err != nil {
		return fmt.Errorf("query %s: %w", id, err)
	}
	if s.space != space || s.revision != revision {
		return errors.Join(ErrDamaged, fmt.Errorf("query %s has another endpoint or revision than it is listed under", id))
	}
	t := &totals{tx: p.tx, holdings: map[string]registry.Holdings{}} // the rest has gone with the endpoint
	return errors.Join(discard(t, &s), t.saveHoldings())
}

func (p *purger) prefix(bucket, prefix []byte) error {
	c := p.tx.Bucket(bucket).Cursor()
	for ; p.left > 0; p.left-- {
		k, _ := c.Seek(prefix)
		if !hasPrefix(k, prefix) {
			return nil
		}
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// profiles turns the profiles of a removed endpoint into separate tasks.
func (p *purger) profiles(space uint64) error {
	var dead []storedProfile
	err := p.tx.Bucket(bProfiles).ForEach(func(id, v []byte) error {
		if number(skipNumber(v)) != space {
			return nil
		}
		n, err := parseProfile(v)
		dead = append(dead, n)
		return err
	})
	for i := range dead {
		err = errors.Join(err, discardProfile(p.tx, &dead[i]))
		p.left--
	}
	return err
}

// rounds deletes the rounds of a removed profile.
func (p *purger) rounds(serial uint64) error {
	for _, name := range [][]byte{bRounds, bOpen, bEnds, bCaptures} {
		if err := p.prefix(name, key8(serial)); err != nil {
			return err
		}
	}
	return nil
}

func (s *purgeStep) touch(*Others) {}
