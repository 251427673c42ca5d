package store

import (
	"fmt"
	"strings"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// A RoundStore reads profiles with their progress and their rounds. It implements web.Profiles
// and notify.Captures.
type RoundStore struct{ *boltFile }

// ListProfiles returns a page of at most limit profiles after cursor in id order, and
// the next cursor, "" at the end.
func (d *RoundStore) ListProfiles(f registry.ProfileFilter, cursor string, limit int) (items []registry.ListedProfile,
	next string, err error) {
	if limit <= 0 {
		return nil, "", nil
	}
	err = d.view(func(tx *bbolt.Tx) error {
		in := uint64(0)
		if f.Endpoint != "" {
			s, ok := findSpace(tx, f.Endpoint)
			if !ok {
				return nil
			}
			in = s.number
		}
		text := strings.ToLower(f.Text)
		return eachProfile(tx, in, cursor, func(n *storedProfile) (bool, error) {
			if n.ID == cursor || f.Owner != "" && n.Owner != f.Owner || !mentionsProfile(&n.Profile, text) {
				return true, nil
			}
			if len(items) == limit {
				next = items[limit-1].Profile.ID
				return false, nil
			}
			s, err := profileStatus(tx, n, d.epoch)
			items = append(items, registry.ListedProfile{Profile: n.Profile, Status: s})
			return true, err
		})
	})
	return items, next, err
}

// ProfileItem returns one profile. It wraps registry.ErrNotFound.
func (d *RoundStore) ProfileItem(id string) (registry.ListedProfile, error) {
	return newest(d.boltFile, func(tx *bbolt.Tx) (item registry.ListedProfile, err error) {
		n, err := findProfile(tx, id)
		if err != nil {
			return item, err
		}
		item.Profile = n.Profile
		item.Status, err = profileStatus(tx, &n, d.epoch)
		return item, err
	})
}

// mentionsProfile searches a profile's user-visible fields for a lower-case text.
func mentionsProfile(p *registry.Profile, text string) bool {
	return text == "" || strings.Contains(strings.ToLower(p.Name), text) || strings.Contains(p.ID, text)
}

// lookAtRounds is the maximum number of rounds that one call examines for those in a
// given state.
const lookAtRounds = 5000

// Rounds returns a profile's rounds in a state ("": any) below a number (0: all),
// newest first. next is the number to continue with, 0 at the end; a page may be
// shorter than limit.
func (d *RoundStore) Rounds(id string, state registry.RoundState, before uint64, limit int) (list []registry.Round, next uint64,
	err error) {
	err = newestView(d.boltFile, func(tx *bbolt.Tx) error {
		list, next = nil, 0
		n, err := findProfile(tx, id)
		if err != nil {
			return err
		}
		c := tx.Bucket(bRounds).Cursor()
		k, v := seekBefore(c, n.serial, before)
		for looked := 0; hasPrefix(k, key8(n.serial)) && k != nil; k, v = c.Prev() {
			if looked++; looked > lookAtRounds {
				return nil
			}
			r, err := parseRound(v)
			if err != nil {
				return fmt.Errorf("profile %s: %w", id, err)
			}
			if state == "" || r.State == state {
				if len(list) == limit {
					return nil
				}
				list = append(list, r)
			}
			next = r.Number
		}
		next = 0
		return nil
	})
	return list, next, err
}

// seekBefore moves to the last round below a number, or to the last one for 0.
func seekBefore(c *bbolt.Cursor, serial, before uint64) (k, v []byte) {
	from := key16(serial, before)
	if before == 0 {
		from = key8(serial + 1)
	}
	if k, _ = c.Seek(from); k == nil {
		return c.Last()
	}
	return c.Prev()
}

// ProfileStatus returns the status of one profile.
func (d *RoundStore) ProfileStatus(id string) (registry.ProfileStatus, error) {
	item, err := d.ProfileItem(id)
	return item.Status, err
}

// Captured returns the captures after p, oldest first. It returns a *registry.GapError
// if the log does not continue from p.
func (d *RoundStore) Captured(id string, p registry.Position, limit int) ([]registry.RoundEnd, error) {
	return newest(d.boltFile, func(tx *bbolt.Tx) ([]registry.RoundEnd, error) {
		n, end, err := endOf(tx, d.epoch, id, p)
		if err != nil {
			return nil, err
		}
		return readEnds(tx, &n, end, limit, func(r *registry.Round) bool { return r.State == registry.RoundCaptured })
	})
}

// Ends returns the rounds that ended after the given one, captured or expired, oldest
// first.
func (d *RoundStore) Ends(id string, epoch string, end uint64, limit int) ([]registry.RoundEnd, error) {
	return newest(d.boltFile, func(tx *bbolt.Tx) ([]registry.RoundEnd, error) {
		n, err := findProfile(tx, id)
		if err != nil {
			return nil, err
		}
		p, err := findProgress(tx, id)
		switch {
		case err != nil:
			return nil, err
		case epoch != d.epoch.of(n.serial):
			return nil, &registry.GapError{Reason: registry.OtherEpoch}
		case end > p.Ends:
			return nil, &registry.GapError{Reason: registry.Ahead}
		case end+1 < p.First:
			return nil, &registry.GapError{Reason: registry.TooOld}
		}
		return readEnds(tx, &n, end, limit, func(*registry.Round) bool { return true })
	})
}

// EndOf returns the number of the end that captured p.
func (d *RoundStore) EndOf(id string, p registry.Position) (uint64, error) {
	return newest(d.boltFile, func(tx *bbolt.Tx) (uint64, error) {
		_, end, err := endOf(tx, d.epoch, id, p)
		return end, err
	})
}

// endOf finds the position of a capture among its profile's ends. Seq 0 is the
// position before the first one.
func endOf(tx *bbolt.Tx, epoch storeEpoch, id string, p registry.Position) (storedProfile, uint64, error) {
	n, err := findProfile(tx, id)
	if err != nil {
		return n, 0, err
	}
	at, err := findProgress(tx, id)
	switch {
	case err != nil:
		return n, 0, err
	case p.Epoch != epoch.of(n.serial):
		return n, 0, &registry.GapError{Reason: registry.OtherEpoch}
	case p.Seq > at.Captured:
		return n, 0, &registry.GapError{Reason: registry.Ahead}
	case p.Seq == 0 && at.First <= 1:
		return n, 0, nil
	}
	if v := tx.Bucket(bCaptures).Get(key16(n.serial, p.Seq)); v != nil {
		return n, number(v), nil
	}
	// The capture was trimmed. No capture is missing if the next one is present.
	if v := tx.Bucket(bCaptures).Get(key16(n.serial, p.Seq+1)); v != nil {
		return n, number(v) - 1, nil
	}
	if p.Seq == at.Captured {
		return n, max(at.First, 1) - 1, nil
	}
	return n, 0, &registry.GapError{Reason: registry.TooOld}
}

// readEnds reads the ends after a position in order.
func readEnds(tx *bbolt.Tx, n *storedProfile, end uint64, limit int, keep func(*registry.Round) bool) (list []registry.RoundEnd,
	err error) {
	if limit <= 0 {
		return nil, nil
	}
	c := tx.Bucket(bEnds).Cursor()
	for k, v := c.Seek(key16(n.serial, end+1)); hasPrefix(k, key8(n.serial)) && k != nil; k, v = c.Next() {
		r, err := parseRound(tx.Bucket(bRounds).Get(key16(n.serial, number(v))))
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", n.ID, err)
		}
		if !keep(&r) {
			continue
		}
		list = append(list, registry.RoundEnd{Round: r, End: number(skipNumber(k)),
			Captured: number(skipNumber(v)), Expired: number(skipNumber(skipNumber(v)))})
		if len(list) == limit {
			break
		}
	}
	return list, nil
}
