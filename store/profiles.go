package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// A ProfileStore stores profiles. It implements registry.ProfileStore.
type ProfileStore struct{ *boltFile }

// Profile implements registry.ProfileStore.
func (d *ProfileStore) Profile(id string) (registry.Profile, error) {
	n, err := newest(d.boltFile, func(tx *bbolt.Tx) (storedProfile, error) { return findProfile(tx, id) })
	return n.Profile, err
}

// FindProfile implements registry.ProfileStore.
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

// EditProfile implements registry.ProfileStore.
func (d *ProfileStore) EditProfile(id string, b registry.Bounds, edit func(p *registry.Profile, found bool) error) (registry.Profile, error) {
	var e *profileEdit
	_, err := d.execute(func(tx *bbolt.Tx) (command, error) {
		e = new(profileEdit)
		if err := e.prepare(tx, id, edit); err != nil {
			return nil, err
		}
		if e.found {
			return e, nil
		}
		e.bounded, e.bounds = b != registry.Bounds{}, b
		return e, cmp.Or(e.within(tx), d.disk.room())
	})
	if err != nil {
		return registry.Profile{}, err
	}
	if e.removes() {
		d.wakePurge()
	}
	return e.now, nil
}

// A profileEdit is a profile before and after an edit. It is a command, of the kind kindNewProfile
// if bounded is set.
type profileEdit struct {
	old     storedProfile
	now     registry.Profile
	found   bool
	json    []byte   // now, as stored
	seen    revision // in a decoded command: what was edited
	bounded bool     // a new profile for which bounds hold
	bounds  registry.Bounds
}

// prepare reads the profile, edits it in memory, and checks that it can be stored. It returns
// errUnchanged if the edit has no effect.
func (e *profileEdit) prepare(tx *bbolt.Tx, id string, edit func(p *registry.Profile, found bool) error) (err error) {
	e.old, err = findProfile(tx, id)
	if e.found = err == nil; err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	e.now = e.old.Profile
	e.now.ID = id
	if err := edit(&e.now, e.found); err != nil {
		return err
	}
	p := &e.now
	switch {
	case p.ID != id || e.found && p.Endpoint != e.old.Endpoint:
		return fmt.Errorf("profile %s: its id and endpoint cannot be edited", id)
	case e.removes() && !e.found:
		return errUnchanged
	case e.removes():
		return nil
	case p.Endpoint == "" || id == "" || len(id) > 500:
		return fmt.Errorf("profile %s: it needs an endpoint, and an id of at most 500 bytes", id)
	case e.found && p.Owner != e.old.Owner:
		return fmt.Errorf("profile %s: its owner cannot be edited", id)
	}
	if e.json, err = json.Marshal(p); err != nil {
		return fmt.Errorf("profile %s: %w", id, err)
	}
	if e.found && bytes.Equal(e.json, e.old.json) {
		return errUnchanged
	}
	return nil
}

// within returns a problem if a new profile exceeds its bounds.
func (e *profileEdit) within(tx *bbolt.Tx) error {
	if !e.bounded {
		return nil
	}
	before := loadHoldings(tx, e.now.Owner)
	after := before
	after.Profiles++
	after.Bytes += e.now.Size()
	return e.bounds.Check(0, 0, before, after)
}

func (e *profileEdit) kind() byte {
	if e.bounded {
		return kindNewProfile
	}
	return kindProfile
}

func (e *profileEdit) frees() bool { return e.removes() }

func (e *profileEdit) removes() bool { return len(e.now.Items) == 0 }

func (e *profileEdit) apply(tx *bbolt.Tx) error {
	if e.removes() {
		return removeProfile(tx, &e.old)
	}
	c := loadCounters(tx)
	sp, err := ensureSpace(tx, &c, e.now.Endpoint)
	if err != nil {
		return err
	}
	next := storedProfile{Profile: e.now, json: e.json, serial: e.old.serial, space: sp.number}
	if !e.found {
		if err := replaceProfile(tx, e.now.ID); err != nil {
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
