package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/rounds"
	"go.etcd.io/bbolt"
)

// A ProfileStore stores profiles. It implements registry.ProfileStore.
type ProfileStore struct{ *boltFile }

func (d *ProfileStore) Profile(id string) (registry.Profile, error) {
	n, err := newest(d.boltFile, func(tx *bbolt.Tx) (storedProfile, error) { return findProfile(tx, id) })
	return n.Profile, err
}

func (d *ProfileStore) FindProfile(owner, name string, most int) (list []registry.Profile, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		return eachProfile(tx, 0, "", func(n *storedProfile) (bool, error) {
			if name != "" && n.Name == name && (owner == "" || n.Owner == owner) {
				list = append(list, n.Profile)
			}
			return true, nil
		})
	})
	slices.SortStableFunc(list, func(a, b registry.Profile) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return list[:min(len(list), most)], err
}

func (d *ProfileStore) EditProfile(id string, b registry.Bounds, edit func(p *registry.Profile,
	found bool) error) (registry.Profile, error) {
	var e *profileEdit
	_, err := d.execute(func(tx *bbolt.Tx) (command, error) {
		e = &profileEdit{ID: id}
		if err := e.prepare(tx, edit); err != nil {
			return nil, err
		}
		if e.found {
			return e, nil
		}
		e.Bounds = b
		return e, cmp.Or(e.within(tx), d.disk.room())
	})
	if err != nil {
		return registry.Profile{}, err
	}
	return e.now, nil
}

// A profileEdit is a profile before and after an edit. It is a command.
type profileEdit struct {
	old    storedProfile
	now    registry.Profile
	found  bool
	ID     string
	Seen   revision        // of old
	Value  json.RawMessage `json:",omitempty"` // now, as stored; nil if the profile is removed
	Bounds registry.Bounds // of a new profile
}

// prepare reads the profile, edits it in memory, and checks that it can be stored. It returns
// errUnchanged if the edit has no effect.
func (e *profileEdit) prepare(tx *bbolt.Tx, edit func(p *registry.Profile, found bool) error) (err error) {
	id := e.ID
	e.old, err = findProfile(tx, id)
	if e.found = err == nil; notFoundIsFine(err) != nil {
		return err
	}
	e.Seen, e.now = e.old.revision(), e.old.Profile
	e.now.ID = id
	if err := edit(&e.now, e.found); err != nil {
		return err
	}
	p, removed := &e.now, len(e.now.Items) == 0
	switch {
	case p.ID != id || e.found && p.Endpoint != e.old.Endpoint:
		return fmt.Errorf("profile %s: its id and endpoint cannot be edited", id)
	case removed && !e.found:
		return errUnchanged
	case removed:
		return nil
	case p.Endpoint == "" || id == "" || len(id) > 500:
		return fmt.Errorf("profile %s: it needs an endpoint, and an id of at most 500 bytes", id)
	case e.found && p.Owner != e.old.Owner:
		return fmt.Errorf("profile %s: its owner cannot be edited", id)
	}
	if e.Value, err = json.Marshal(p); err != nil {
		return fmt.Errorf("profile %s: %w", id, err)
	}
	if e.found && bytes.Equal(e.Value, e.old.json) {
		return errUnchanged
	}
	return nil
}

// within returns a problem if a new profile exceeds its bounds, or its endpoint was removed.
func (e *profileEdit) within(tx *bbolt.Tx) error {
	if e.found || e.removes() {
		return nil
	}
	if err := needsEndpoint(tx, e.Bounds.Endpoint); err != nil {
		return err
	}
	before := loadHoldings(tx, e.now.Owner)
	after := before
	after.Profiles++
	after.Bytes += e.now.Size()
	return e.Bounds.Check(0, 0, before, after)
}

func (e *profileEdit) kind() byte { return kindProfile }

func (e *profileEdit) Resume(tx *bbolt.Tx) (err error) {
	e.old, err = findProfile(tx, e.ID)
	if e.found = err == nil; notFoundIsFine(err) != nil {
		return err
	}
	if !e.removes() {
		if err := parseJSON(e.Value, &e.now, "profile "+e.ID); err != nil {
			return err
		}
	}
	if e.now.ID = e.ID; e.old.revision() != e.Seen || e.within(tx) != nil {
		return errMoved // the caller decides again, and learns why
	}
	return nil
}

func (e *profileEdit) frees() bool { return e.removes() }

func (e *profileEdit) removes() bool { return e.Value == nil }

func (e *profileEdit) Apply(tx *bbolt.Tx) error {
	if e.removes() {
		return removeProfile(tx, &e.old)
	}
	c := loadCounters(tx)
	sp, err := ensureSpace(tx, &c, e.now.Endpoint)
	if err != nil {
		return err
	}
	next := storedProfile{Profile: e.now, json: e.Value, serial: e.old.serial, space: sp.number}
	if !e.found {
		if err := replaceProfile(tx, e.ID); err != nil {
			return err
		}
		if err := addToHoldings(tx, e.now.Owner, registry.Holdings{Profiles: 1, Bytes: e.now.Size()}); err != nil {
			return err
		}
		c.serial++
		next.serial = c.serial
	}
	c.revision++
	sp.profiled = c.revision
	return errors.Join(next.save(tx), sp.save(tx), c.save(tx))
}

// A storedProfile is a registered profile with its internal keys.
type storedProfile struct {
	registry.Profile
	serial, space uint64
	json          []byte
}

// A storedProgress is the state of a profile. It is rewritten with its rounds, while the
// profile itself is not.
type storedProgress struct {
	Rounds   uint64    `json:"rounds"` // number of the last round
	Captured uint64    `json:"captured"`
	Expired  uint64    `json:"expired"`
	Ends     uint64    `json:"ends"`  // number of ends so far
	First    uint64    `json:"first"` // the oldest end still stored
	Open     uint64    `json:"open"`
	Opened   time.Time `json:"opened,omitzero"` // time of the latest opening
	Slot     uint64    `json:"slot,omitempty"`
	Ended    time.Time `json:"ended,omitzero"`
	// Expected is the last forecast of changes of predicted items.
	Expected []rounds.Expectation `json:"expected,omitempty"`
}

func parseProfile(v []byte) (storedProfile, error) {
	if len(v) < 16 {
		return storedProfile{}, fmt.Errorf("%w: a profile is missing", ErrDamaged)
	}
	n := storedProfile{serial: number(v), space: number(v[8:]), json: v[16:]}
	err := parseJSON(n.json, &n.Profile, "a profile")
	return n, err
}

// revision returns the revision of a profile, empty if n is none.
func (n *storedProfile) revision() revision {
	if n.serial == 0 {
		return ""
	}
	return revisionOf(append(key16(n.serial, n.space), n.json...))
}

// findProfile returns a live profile, or registry.ErrNotFound.
func findProfile(tx *bbolt.Tx, id string) (storedProfile, error) {
	var v []byte
	if id != "" {
		v = tx.Bucket(bProfiles).Get([]byte(id))
	}
	if v == nil || !owned(tx, number(skipNumber(v))) {
		return storedProfile{}, fmt.Errorf("profile %s: %w", id, registry.ErrNotFound)
	}
	n, err := parseProfile(v)
	if err != nil {
		return n, fmt.Errorf("profile %s: %w", id, err)
	}
	return n, nil
}

func (n *storedProfile) save(tx *bbolt.Tx) error {
	v := binary.BigEndian.AppendUint64(key8(n.serial), n.space)
	return tx.Bucket(bProfiles).Put([]byte(n.ID), append(v, n.json...))
}

func findProgress(tx *bbolt.Tx, id string) (p storedProgress, err error) {
	found, err := getJSON(tx.Bucket(bProgress), []byte(id), &p, "the progress of profile "+id)
	if !found {
		p.First = 1
	}
	return p, err
}

func (p *storedProgress) save(tx *bbolt.Tx, id string) error {
	return putJSON(tx.Bucket(bProgress), []byte(id), p)
}

// replaceProfile discards a profile of the same id that still waits for the purge with
// its endpoint.
func replaceProfile(tx *bbolt.Tx, id string) error {
	v := tx.Bucket(bProfiles).Get([]byte(id))
	if v == nil {
		return nil
	}
	dead, err := parseProfile(v)
	if err != nil {
		return err
	}
	return discardProfile(tx, &dead)
}

func removeProfile(tx *bbolt.Tx, n *storedProfile) error {
	c := loadCounters(tx)
	sp, ok := findSpace(tx, n.Endpoint)
	if !ok {
		return fmt.Errorf("%w: endpoint %s of profile %s is missing", ErrDamaged, n.Endpoint, n.ID)
	}
	c.revision++
	sp.profiled = c.revision
	return errors.Join(discardProfile(tx, n), sp.save(tx), c.save(tx))
}

// discardProfile deletes the data keyed by the profile's id; its rounds wait for the
// purge.
func discardProfile(tx *bbolt.Tx, n *storedProfile) error {
	return errors.Join(
		addToHoldings(tx, n.Owner, registry.Holdings{Profiles: -1, Bytes: -n.Size()}),
		tx.Bucket(bProfiles).Delete([]byte(n.ID)),
		tx.Bucket(bProgress).Delete([]byte(n.ID)),
		tx.Bucket(bPurge).Put(purgeKey(purgeRounds, n.serial), nil),
	)
}

// eachProfile calls f for live profiles in id order: those of one endpoint's space, or
// all for 0.
func eachProfile(tx *bbolt.Tx, space uint64, from string, f func(*storedProfile) (bool, error)) error {
	c := tx.Bucket(bProfiles).Cursor()
	for k, v := c.Seek([]byte(from)); k != nil; k, v = c.Next() {
		at := number(skipNumber(v))
		if space > 0 && at != space || !owned(tx, at) {
			continue
		}
		n, err := parseProfile(v)
		if err != nil {
			return fmt.Errorf("profile %s: %w", k, err)
		}
		if more, err := f(&n); err != nil || !more {
			return err
		}
	}
	return nil
}

func profileStatus(tx *bbolt.Tx, n *storedProfile, e storeEpoch) (registry.ProfileStatus, error) {
	at, err := findProgress(tx, n.ID)
	if err != nil {
		return registry.ProfileStatus{}, err
	}
	s := registry.ProfileStatus{Position: registry.Position{Epoch: e.of(n.serial), Seq: at.Captured},
		Rounds: at.Rounds, Expired: at.Expired, Open: int(at.Open), EndedAt: at.Ended}
	seen := map[string]bool{}
	for _, i := range n.Items {
		for _, q := range []string{i.Query, i.When.Changed} {
			if q == "" || seen[q] {
				continue
			}
			seen[q] = true
			if _, _, ok := liveRecord(tx, q); !ok {
				s.Missing = append(s.Missing, q)
			}
		}
	}
	return s, nil
}

func (e *profileEdit) touch(o *Others) { o.Queries.add(e.ID) }
