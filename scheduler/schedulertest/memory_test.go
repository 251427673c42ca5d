package schedulertest_test

import (
	"testing"

	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest"
)

func TestMemory(t *testing.T) {
	schedulertest.TestLedger(t, func(*testing.T) (scheduler.Ledger, schedulertest.Seeder) {
		m := &schedulertest.Memory{}
		return m, m
	})
}
