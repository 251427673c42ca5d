package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/rounds"
	"go.etcd.io/bbolt"
)

var _ registry.ProfileStore = (*DB)(nil)

// A storedProfile is a registered profile with its internal keys.
type storedProfile struct {
	registry.Profile
	serial, space uint64
	json          []byte
}

// A progress is the state of a profile. It is rewritten with its rounds, while the
// profile itself is not.
type progress struct {
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

func parseNeed(v []byte) (storedProfile, error) {
	if len(v) < 16 {
		return storedProfile{}, fmt.Errorf("%w: a profile is missing", ErrDamaged)
	}
	n := storedProfile{serial: number(v), space: number(v[8:]), json: v[16:]}
	if err := json.Unmarshal(n.json, &n.Profile); err != nil {
		return n, fmt.Errorf("%w: a profile cannot be read: %w", ErrDamaged, err)
	}
	return n, nil
}

// findProfile returns a live profile, or registry.ErrNotFound.
func findProfile(tx *bbolt.Tx, id string) (storedProfile, error) {
	var v []byte
	if id != "" {
		v = tx.Bucket(bProfiles).Get([]byte(id))
	}
	if v == nil || owner(tx, number(after(v))) == "" {
		return storedProfile{}, fmt.Errorf("profile %s: %w", id, registry.ErrNotFound)
	}
	n, err := parseNeed(v)
	if err != nil {
		return n, fmt.Errorf("profile %s: %w", id, err)
	}
	return n, nil
}

func (n *storedProfile) save(tx *bbolt.Tx) error {
	v := binary.BigEndian.AppendUint64(key8(n.serial), n.space)
	return tx.Bucket(bProfiles).Put([]byte(n.ID), append(v, n.json...))
}

func findProgress(tx *bbolt.Tx, id string) (p progress, err error) {
	v := tx.Bucket(bProgress).Get([]byte(id))
	if v == nil {
		return progress{First: 1}, nil
	}
	if err := json.Unmarshal(v, &p); err != nil {
		return p, fmt.Errorf("profile %s: %w: %w", id, ErrDamaged, err)
	}
	return p, nil
}

func (p *progress) save(tx *bbolt.Tx, id string) error {
	v, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return tx.Bucket(bProgress).Put([]byte(id), v)
}

// Profile implements registry.ProfileStore.
func (d *DB) Profile(id string) (p registry.Profile, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		n, err := findProfile(tx, id)
		p = n.Profile
		return err
	})
	return p, err
}

// EditProfile implements registry.ProfileStore.
func (d *DB) EditProfile(id string, edit func(p *registry.Profile, found bool) error) (registry.Profile, error) {
	var p registry.Profile
	err := d.edit(func(tx *bbolt.Tx) (frees bool, err error) {
		old, err := findProfile(tx, id)
		found := err == nil
		if err != nil && !errors.Is(err, registry.ErrNotFound) {
			return false, err
		}
		p = old.Profile
		p.ID = id
		if err := edit(&p, found); err != nil {
			return false, err
		}
		if p.ID != id || found && p.Endpoint != old.Endpoint {
			return false, fmt.Errorf("profile %s: its id and endpoint cannot be edited", id)
		}
		switch {
		case len(p.Items) > 0:
			return false, d.keepProfile(tx, &old, p, found)
		case found:
			return true, removeProfile(tx, &old)
		}
		return true, nil
	})
	if err != nil {
		return registry.Profile{}, err
	}
	if len(p.Items) == 0 {
		d.wakePurge()
	}
	return p, nil
}

func (d *DB) keepProfile(tx *bbolt.Tx, old *storedProfile, p registry.Profile, found bool) error {
	if p.Endpoint == "" || p.ID == "" || len(p.ID) > 500 {
		return fmt.Errorf("profile %s: it needs an endpoint, and an id of at most 500 bytes", p.ID)
	}
	text, err := json.Marshal(&p)
	if err != nil {
		return fmt.Errorf("profile %s: %w", p.ID, err)
	}
	if found && bytes.Equal(text, old.json) {
		return errUnchanged
	}
	c := loadCounters(tx)
	sp, err := ensureSpace(tx, &c, p.Endpoint)
	if err != nil {
		return err
	}
	next := storedProfile{Profile: p, json: text, serial: old.serial, space: sp.number}
	if !found {
		if err := d.disk.room(); err != nil {
			return err
		}
		if err := buryProfile(tx, p.ID); err != nil {
			return err
		}
		c.serial++
		next.serial = c.serial
	}
	c.revision++
	sp.profiled = c.revision
	if !found {
		if err := addToHoldings(tx, p.Owner, registry.Holdings{Profiles: 1, Bytes: p.Size()}); err != nil {
			return err
		}
	} else if p.Owner != old.Owner {
		return fmt.Errorf("profile %s: its owner cannot be edited", p.ID)
	}
	return errors.Join(next.save(tx), sp.save(tx), c.save(tx))
}

// buryProfile discards a profile of the same id that still waits for the purge with
// its endpoint.
func buryProfile(tx *bbolt.Tx, id string) error {
	v := tx.Bucket(bProfiles).Get([]byte(id))
	if v == nil {
		return nil
	}
	dead, err := parseNeed(v)
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
		at := number(after(v))
		if space > 0 && at != space || owner(tx, at) == "" {
			continue
		}
		n, err := parseNeed(v)
		if err != nil {
			return fmt.Errorf("profile %s: %w", k, err)
		}
		if more, err := f(&n); err != nil || !more {
			return err
		}
	}
	return nil
}

// FindProfile implements registry.ProfileStore.
func (d *DB) FindProfile(owner, name string, most int) (list []registry.Profile, err error) {
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

// profileStatus combines a profile's progress with its rounds.
func (d *DB) profileStatus(tx *bbolt.Tx, n *storedProfile) (registry.ProfileStatus, error) {
	at, err := findProgress(tx, n.ID)
	if err != nil {
		return registry.ProfileStatus{}, err
	}
	s := registry.ProfileStatus{Position: registry.Position{Epoch: d.epoch.of(n.serial), Seq: at.Captured},
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

// mentionsProfile searches a profile's user-visible fields for a lower-case text.
func mentionsProfile(p *registry.Profile, text string) bool {
	return text == "" || strings.Contains(strings.ToLower(p.Name), text) || strings.Contains(p.ID, text)
}
