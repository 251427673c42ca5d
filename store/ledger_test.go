package store

import (
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest"
)

type seeder struct{ d *DB }

func (s seeder) Register(q registry.Query) error {
	_, err := s.d.Queries.EditQuery(q.ID, func(into *registry.Query, _ bool) error {
		*into = q
		return nil
	})
	return err
}

func (s seeder) Remove(id string) error {
	_, err := s.d.Queries.EditQuery(id, func(q *registry.Query, _ bool) error {
		q.Holders = nil
		return nil
	})
	return err
}

func testLedger(t *testing.T, options func(dir string) Options) {
	schedulertest.TestLedger(t, func(t *testing.T) (scheduler.Ledger, schedulertest.Seeder) {
		dir := t.TempDir()
		d := open(t, dir, options(dir))
		return d.Ledger, seeder{d}
	})
}

func (s seeder) Want(p registry.Profile) error {
	_, err := s.d.Profiles.EditProfile(p.ID, registry.Bounds{}, func(into *registry.Profile, _ bool) error {
		*into = p
		return nil
	})
	return err
}

func (s seeder) Unwant(id string) error {
	_, err := s.d.Profiles.EditProfile(id, registry.Bounds{}, func(p *registry.Profile, _ bool) error {
		p.Items = nil
		return nil
	})
	return err
}

func (s seeder) Ends(id string) (list []registry.Round, err error) {
	st, err := s.d.Rounds.ProfileStatus(id)
	if err != nil {
		return nil, err
	}
	ends, err := s.d.Rounds.Ends(id, st.Epoch, 0, 1000)
	for _, e := range ends {
		list = append(list, e.Round)
	}
	return list, err
}
