package rounds

import (
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/update"
)

// A ProfileState is a profile with its recorded progress.
type ProfileState struct {
	Profile registry.Profile
	Rounds  uint64    // number of the last round opened
	Opened  time.Time // when the latest round was opened, zero when there was none
	Slot    uint64    // in which that was
	Open    []registry.Round
	// Expected holds, by item, when a change of a predicted one was expected
	// last; items without such a time may be missing at the end.
	Expected []Expectation
}

// An Expectation is a moment, and its slot, in which a change was expected.
type Expectation struct {
	At   time.Time `json:"at,omitzero"`
	Slot uint64    `json:"slot,omitempty"`
}

// Expect adds the intervals that expectations began. A ledger calls it for each
// round of a batch. slot is that of the batch, 0 when it has none.
func (s *ProfileState) Expect(r *registry.Round, slot uint64) {
	for i := range min(len(r.Intervals), len(s.Profile.Items)) {
		x := &r.Intervals[i]
		if !s.Profile.Items[i].When.Predicted || !x.HasBounds() {
			continue
		}
		for len(s.Expected) <= i {
			s.Expected = append(s.Expected, Expectation{})
		}
		if e := &s.Expected[i]; x.From.After(e.At) {
			*e = Expectation{At: x.From, Slot: max(slot, r.Slot, x.First)}
		}
	}
}

// A Model is the recorded rate of a query's changes by hour and weekday, learnt
// for profiles that predict it.
type Model struct {
	Query string
	Week  update.Week
}

// Updates are what a ledger has to record.
type Updates struct {
	Rounds []registry.Round // opened, advanced or ended, by profile and number
	Models []Model
	Ended  []string // profiles of which a round ended, ascending
}
