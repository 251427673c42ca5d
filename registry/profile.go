package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// A Profile is a complex need (Roitman, Gal, Raschid: "Query scheduling in the
// presence of complex user profiles", section 2.1): a set of queries of one
// endpoint to be refreshed within a common deadline. Rounds capture it again
// and again, see Round. Its items and window never change; Name, Budget and
// Weight may.
//
// All of its queries, including those that trigger it, belong to one endpoint:
// intervals are in that endpoint's slots, and a capture is committed in the
// same transaction as the execution that completes it.
type Profile struct {
	ID       string `json:"id"`
	Owner    string `json:"owner"` // the caller who made it
	Endpoint string `json:"endpoint"`
	Name     string `json:"name,omitempty"`
	Items    []Item `json:"items"`
	// Window is the length of intervals that a change or a prediction starts. It
	// is also how long a round waits for triggers after it opened.
	Window Span `json:"window,omitzero"`
	// Budget is the maximum of execution seconds in a slot for intervals that this
	// profile claims; 0 means no limit of its own. Intervals that another
	// execution captures (ranked, refreshed, or claimed by another profile) cost
	// it nothing.
	Budget Duration `json:"budget,omitempty"`
	// Weight divides the value by which the endpoint's policy ranks its intervals,
	// so that weight 2 goes before weight 1; 0 means 1.
	Weight    float64   `json:"weight,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// An Item is one query of a profile with the times at which it has to run.
type Item struct {
	Query string `json:"query"` // an id once it is stored; a request may use a name
	When  When   `json:"when"`
}

// When says what starts an item's intervals. Exactly one of Every, Changed and
// Predicted is set.
type When struct {
	// Every starts an interval of length Slack at each of its multiples, of time
	// since the Unix epoch or of slot numbers.
	Every Span `json:"every,omitzero"`
	Slack Span `json:"slack,omitzero"`

	// Changed starts an interval at a change of this query that adds a row meeting
	// all of Where. If it is the item's own query, the change captures the
	// interval.
	Changed string      `json:"changed,omitempty"`
	Where   []Condition `json:"where,omitempty"`

	// Predicted starts an interval at the time by which the next change has a
	// probability of one half, according to the item's history.
	Predicted bool `json:"predicted,omitempty"`

	// Within is the length of intervals that a change or a prediction starts; the
	// default is the profile's window.
	Within Span `json:"within,omitzero"`
}

// UnmarshalJSON also accepts the string "predicted" for {"predicted":true}.
func (w *When) UnmarshalJSON(b []byte) error {
	if string(b) == `"predicted"` {
		*w = When{Predicted: true}
		return nil
	}
	type plain When
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode((*plain)(w)); err != nil {
		return fmt.Errorf("when is {every, slack}, {changed, where, within} or {predicted: true, within}: %w", err)
	}
	return nil
}

// IntervalLength is the length of the intervals of item i that a change or a
// prediction starts.
func (p *Profile) IntervalLength(i int) Span {
	if w := p.Items[i].When.Within; !w.IsZero() {
		return w
	}
	return p.Window
}

// A RoundState is the progress of a round.
type RoundState string

// The states of rounds.
const (
	RoundOpen     RoundState = "open"
	RoundCaptured RoundState = "captured"
	RoundExpired  RoundState = "expired"
)

// A Round is a complex execution interval: one interval for each item of a
// profile. It is captured when each item's query was completely executed inside
// the item's interval, for any reason; it expires as soon as that is
// impossible. A profile's Changed items open rounds, or if it has none its
// Predicted items, or else its periodic ones. The other items join with their
// current or next interval.
type Round struct {
	Profile  string     `json:"profile"`
	Number   uint64     `json:"round"` // counts the profile's rounds from 1
	State    RoundState `json:"state"`
	OpenedAt time.Time  `json:"opened_at"`
	Slot     uint64     `json:"slot"` // in which it opened
	// Trigger is the change that opened it; zero if time did.
	Trigger   Cause      `json:"trigger,omitzero"`
	Intervals []Interval `json:"intervals"` // one for each item, in order
	EndedAt   time.Time  `json:"ended_at,omitzero"`
	EndedSlot uint64     `json:"ended_slot,omitempty"`
	Reason    string     `json:"reason,omitempty"` // why it expired, for people
	// Position counts the profile's captures. The ledger sets it.
	Position Position `json:"position,omitzero"`
	// ProfileCreatedAt tells the ledger the profile from others of the same id. The ledger does not keep it.
	ProfileCreatedAt time.Time `json:"profile_created_at,omitzero"`
}

// IsOf reports whether a round that a loop has recorded is of p and not of an earlier profile of the same id.
func (r *Round) IsOf(p *Profile) bool {
	if r.ProfileCreatedAt.IsZero() {
		return !r.OpenedAt.Before(p.CreatedAt)
	}
	return r.ProfileCreatedAt.Equal(p.CreatedAt) // the clock may have been ahead when the profile was made
}

// A Cause is a change that opened a round or one of its intervals.
type Cause struct {
	Query string `json:"query"`
	Position
}

// An Interval is the time in which one item's query has to run: From to Until,
// or slot First to slot Last, inclusive. One that still waits for its trigger
// has neither.
type Interval struct {
	Query string     `json:"query"`
	From  time.Time  `json:"from,omitzero"`
	Until time.Time  `json:"until,omitzero"`
	First uint64     `json:"first_slot,omitempty"`
	Last  uint64     `json:"last_slot,omitempty"`
	Cause Cause      `json:"trigger,omitzero"`
	Done  *Execution `json:"captured,omitempty"` // what captured it
	// Reason says why the interval of an expired round was not captured.
	Reason string `json:"reason,omitempty"`
}

// An Execution is what captured an interval: the result that it confirmed or
// brought. The ledger sets the position.
type Execution struct {
	Position
	At   time.Time `json:"at"` // when it ended
	Slot uint64    `json:"slot"`
	Why  string    `json:"why"` // the reason why it ran
}

// HasBounds reports whether an interval has its bounds. One without them waits
// for its trigger.
func (i *Interval) HasBounds() bool { return !i.From.IsZero() || i.First > 0 }

// A ProfileStatus summarises a profile's rounds.
type ProfileStatus struct {
	Position           // of the newest capture; Seq counts captures
	Rounds   uint64    `json:"rounds"` // opened so far
	Expired  uint64    `json:"expired"`
	Open     int       `json:"open"`
	EndedAt  time.Time `json:"ended_at,omitzero"` // of the last round that was captured or expired
	Missing  []string  `json:"missing,omitempty"` // queries that are no longer registered
}

// A RoundEnd is a round that ended, captured or expired, with its number among
// all ended rounds of the profile.
type RoundEnd struct {
	Round
	End uint64 // counts from 1
	// Captured and Expired count the profile's rounds up to and including this
	// one.
	Captured, Expired uint64
}

// A ProfileStore stores profiles. The contract is that of Store.
type ProfileStore interface {
	// Profile returns one profile. The error wraps ErrNotFound if there is none.
	Profile(id string) (Profile, error)
	// EditProfile is EditQueries for profiles. A profile that edit leaves without
	// Items is deleted with its rounds. The store checks the bounds when a new profile is stored.
	EditProfile(id string, b Bounds, edit func(p *Profile, found bool) error) (Profile, error)
	// FindProfile lists at most this many profiles that an owner gave a name, or
	// any owner if owner is "", oldest first.
	FindProfile(owner, name string, most int) ([]Profile, error)
}
