package store

import (
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest"
)

type seeder struct{ d *DB }

func (s seeder) Register(q registry.Query) error {
	_, err := s.d.EditQuery(q.ID, func(into *registry.Query, _ bool) error {
		*into = q
		return nil
	})
	return err
}

func (s seeder) Remove(id string) error {
	_, err := s.d.EditQuery(id, func(q *registry.Query, _ bool) error {
		q.Holders = nil
		return nil
	})
	return err
}

func TestLedger(t *testing.T) {
	schedulertest.TestLedger(t, func(t *testing.T) (scheduler.Ledger, schedulertest.Seeder) {
		d := open(t, t.TempDir(), Options{})
		return d, seeder{d}
	})
}
