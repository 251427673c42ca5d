package rounds

import (
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/update"
)

// A ProfileState is a profile with its recorded progress.
type ProfileState struct {
	Profile registry.Profile
	Rounds  uint64    // number of the latest round
	Opened  time.Time // when the latest round was opened, zero if there was none
	Slot    uint64    // slot in which it was opened
	Open    []registry.Round
	// Expected holds, by item, when a predicted item last expected a change.
	// Items at the end may be missing.
	Expected []Expectation
}

// An Expectation is a time, and its slot, at which a change was expected.
type Expectation struct {
	At   time.Time `json:"at,omitzero"`
	Slot uint64    `json:"slot,omitempty"`
}

// Expect updates s with the intervals that predictions began. A ledger calls it for
// each round of a batch. slot is the batch's slot, 0 if it has none.
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

// A Model is the recorded change rate of a query by hour and weekday. It exists for
// queries that profiles predict.
type Model struct {
	Query string
	Week  update.Week
}

// Updates is what a ledger has to record.
type Updates struct {
	Rounds []registry.Round // opened, advanced or ended, by profile and number
	Models []Model
	Ended  []string // ids of the profiles of which a round ended, ascending
}
