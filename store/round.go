package store

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/rounds"
	"go.etcd.io/bbolt"
)

// The rounds of profiles, and the models that predict them.

func parseRound(v []byte) (r registry.Round, err error) {
	if v == nil {
		return r, fmt.Errorf("%w: a round is missing", ErrDamaged)
	}
	err = parseJSON(v, &r, "a round")
	return r, err
}

// A roundWriter stores the rounds of a batch.
type roundWriter struct {
	tx       *bbolt.Tx
	space    uint64 // of the batch's endpoint
	slot     uint64 // of the batch, 0 if it has none
	epoch    storeEpoch
	keep     Retention
	now      time.Time
	position func(query string) registry.Position
}

func (w *roundWriter) all(list []registry.Round) error {
	for i := range list {
		if err := w.round(list[i]); err != nil {
			return fmt.Errorf("round %d of profile %s: %w", list[i].Number, list[i].Profile, err)
		}
	}
	return nil
}

func (w *roundWriter) round(r registry.Round) error {
	n, err := findProfile(w.tx, r.Profile)
	if errors.Is(err, registry.ErrNotFound) {
		return nil // removed in the meantime
	}
	if err != nil {
		return err
	}
	if n.space != w.space || r.Number == 0 || !r.IsOf(&n.Profile) {
		return nil // it belongs to an earlier profile of the same id
	}
	r.ProfileCreatedAt = time.Time{}
	p, err := findProgress(w.tx, n.ID)
	if err != nil {
		return err
	}
	key := key16(n.serial, r.Number)
	before := w.tx.Bucket(bRounds).Get(key)
	if before == nil && r.Number <= p.Rounds {
		return nil // it has ended and was trimmed, or belongs to another profile
	}
	r.Intervals = append([]registry.Interval(nil), r.Intervals...)
	if before != nil {
		was, err := parseRound(before)
		if err != nil || was.State != registry.RoundOpen {
			return err // an end exists
		}
		keepCaptured(&r, &was)
	}
	w.positions(&r)
	x := rounds.ProfileState{Profile: n.Profile, Expected: p.Expected}
	x.Expect(&r, w.slot)
	p.Expected = x.Expected
	if err := w.place(&r, &n, &p, before == nil); err != nil {
		return err
	}
	return errors.Join(putJSON(w.tx.Bucket(bRounds), key, &r), w.trimRounds(&n, &p), p.save(w.tx, n.ID))
}

// keepCaptured preserves the recorded data of captured intervals.
func keepCaptured(r, was *registry.Round) {
	r.Trigger = was.Trigger
	for i := range r.Intervals {
		if i < len(was.Intervals) && was.Intervals[i].Done != nil {
			r.Intervals[i].Done = was.Intervals[i].Done
		}
		if i < len(was.Intervals) && was.Intervals[i].Cause.Seq > 0 {
			r.Intervals[i].Cause = was.Intervals[i].Cause
		}
	}
}

// positions fills in the queries' current positions.
func (w *roundWriter) positions(r *registry.Round) {
	at := func(query string, p *registry.Position) {
		if query == "" || p.Epoch != "" {
			return
		}
		if now := w.position(query); now.Epoch != "" {
			*p = now
		}
	}
	at(r.Trigger.Query, &r.Trigger.Position)
	for i := range r.Intervals {
		v := &r.Intervals[i]
		at(v.Cause.Query, &v.Cause.Position)
		if v.Done != nil {
			done := *v.Done
			at(v.Query, &done.Position)
			v.Done = &done
		}
	}
}

// place updates the counts and the lists that contain a round.
func (w *roundWriter) place(r *registry.Round, n *storedProfile, p *storedProgress, fresh bool) error {
	key := key16(n.serial, r.Number)
	if fresh {
		p.Rounds = r.Number
		if r.OpenedAt.After(p.Opened) {
			p.Opened = r.OpenedAt
		}
		p.Slot = max(p.Slot, r.Slot)
		p.Open++
	}
	if r.State == registry.RoundOpen {
		r.Position = registry.Position{}
		return w.tx.Bucket(bOpen).Put(key, nil)
	}
	p.Open--
	p.Ends++
	p.Ended = r.EndedAt
	r.Position = registry.Position{}
	var errs error
	if r.State == registry.RoundCaptured {
		p.Captured++
		r.Position = registry.Position{Epoch: w.epoch.of(n.serial), Seq: p.Captured}
		errs = w.tx.Bucket(bCaptures).Put(key16(n.serial, p.Captured), key8(p.Ends))
	} else {
		p.Expired++
	}
	end := append(key8(r.Number), append(key8(p.Captured), key8(p.Expired)...)...)
	return errors.Join(errs, w.tx.Bucket(bOpen).Delete(key), w.tx.Bucket(bEnds).Put(key16(n.serial, p.Ends), end))
}

// trimRounds deletes ended rounds by the same bounds as changes: number and age. The
// newest end is kept.
func (w *roundWriter) trimRounds(n *storedProfile, p *storedProgress) error {
	keep, age := uint64(w.keep.Changes), w.keep.Age
	for range trimQueryAtOnce {
		if p.First >= p.Ends {
			return nil
		}
		end := w.tx.Bucket(bEnds).Get(key16(n.serial, p.First))
		if end == nil { // deleted with another epoch
			p.First++
			continue
		}
		key := key16(n.serial, number(end))
		r, err := parseRound(w.tx.Bucket(bRounds).Get(key))
		if err != nil {
			return err
		}
		tooOld := age > 0 && r.EndedAt.Before(w.now.Add(-age))
		if tooMany := keep > 0 && p.Ends-p.First >= keep; !tooOld && !tooMany {
			return nil
		}
		errs := errors.Join(w.tx.Bucket(bRounds).Delete(key), w.tx.Bucket(bEnds).Delete(key16(n.serial, p.First)))
		if r.State == registry.RoundCaptured {
			errs = errors.Join(errs, w.tx.Bucket(bCaptures).Delete(key16(n.serial, r.Position.Seq)))
		}
		if errs != nil {
			return errs
		}
		p.First++
	}
	return nil
}

// closeRounds forgets all rounds, because a new epoch begins.
func closeRounds(tx *bbolt.Tx) error {
	changed := map[string]storedProgress{}
	err := tx.Bucket(bProgress).ForEach(func(id, _ []byte) error {
		p, err := findProgress(tx, string(id))
		p.Open, p.First = 0, p.Ends+1
		changed[string(id)] = p
		return err
	})
	for id, p := range changed {
		err = errors.Join(err, p.save(tx, id))
	}
	return err
}

// profileStates lists an endpoint's profiles with their open rounds.
func profileStates(tx *bbolt.Tx, s *storedSpace) (list []rounds.ProfileState, err error) {
	err = eachProfile(tx, s.number, "", func(n *storedProfile) (bool, error) {
		p, err := findProgress(tx, n.ID)
		if err != nil {
			return false, err
		}
		x := rounds.ProfileState{Profile: n.Profile, Rounds: p.Rounds, Opened: p.Opened, Slot: p.Slot, Expected: p.Expected}
		x.Open, err = openRounds(tx, n)
		list = append(list, x)
		return true, err
	})
	return list, err
}

func openRounds(tx *bbolt.Tx, n *storedProfile) (list []registry.Round, err error) {
	err = each(tx.Bucket(bOpen), key8(n.serial), func(_ *bbolt.Cursor, k, _ []byte) (bool, error) {
		r, err := parseRound(tx.Bucket(bRounds).Get(k))
		list = append(list, r)
		return true, err
	})
	return list, err
}

// saveModels stores what was learnt about the times of queries' changes.
func saveModels(tx *bbolt.Tx, space uint64, list []rounds.Model) error {
	for i := range list {
		if r, _, ok := liveRecord(tx, list[i].Query); !ok || r.space != space {
			continue
		}
		if err := putJSON(tx.Bucket(bModels), []byte(list[i].Query), &list[i].Week); err != nil {
			return fmt.Errorf("model of %s: %w", list[i].Query, err)
		}
	}
	return nil
}

// readModels returns the models of the queries that profiles predict.
func readModels(tx *bbolt.Tx, list []rounds.ProfileState) (all []rounds.Model, err error) {
	seen := map[string]bool{}
	for _, n := range list {
		for _, i := range n.Profile.Items {
			v := tx.Bucket(bModels).Get([]byte(i.Query))
			if !i.When.Predicted || v == nil || seen[i.Query] {
				continue
			}
			seen[i.Query] = true
			m := rounds.Model{Query: i.Query}
			if err := parseJSON(v, &m.Week, "model of "+i.Query); err != nil {
				return nil, err
			}
			all = append(all, m)
		}
	}
	return all, nil
}

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
	list, err = newest(d.boltFile, func(tx *bbolt.Tx) (list []registry.Round, err error) {
		next = 0
		n, err := findProfile(tx, id)
		if err != nil {
			return nil, err
		}
		c := tx.Bucket(bRounds).Cursor()
		k, v := seekBefore(c, n.serial, before)
		for looked := 0; hasPrefix(k, key8(n.serial)) && k != nil; k, v = c.Prev() {
			if looked++; looked > lookAtRounds {
				return list, nil
			}
			r, err := parseRound(v)
			if err != nil {
				return list, fmt.Errorf("profile %s: %w", id, err)
			}
			if state == "" || r.State == state {
				if len(list) == limit {
					return list, nil
				}
				list = append(list, r)
			}
			next = r.Number
		}
		next = 0
		return list, nil
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
