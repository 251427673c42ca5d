package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// A Profile is a complex need (Roitman, Gal, Raschid: "Query scheduling in the
// presence of complex user profiles", section 2.1): several queries of one
// endpoint that are wanted together and in time. It goes round by round, see
// Round. What it asks for never changes; Name, Budget and Weight may.
//
// All of its queries, those that trigger it included, belong to one endpoint:
// its intervals are in that endpoint's slots, and a capture commits in the same
// transaction as the execution that completes it.
type Profile struct {
	ID       string `json:"id"`
	Owner    string `json:"owner"` // the caller who made it
	Endpoint string `json:"endpoint"`
	Name     string `json:"name,omitempty"`
	Items    []Item `json:"items"`
	// Window is how long a round waits: for what changes or is predicted, from
	// then on; for triggers that have not fired yet, from its opening on.
	Window Span `json:"window,omitzero"`
	// Budget is how many execution seconds a slot spends at most on intervals
	// that this profile claims; 0 = no bound of its own. Intervals that queries
	// meet by other ways (ranked, refreshed, claimed by another profile) cost it
	// nothing.
	Budget Duration `json:"budget,omitempty"`
	// Weight divides the value that the endpoint's policy ranks its intervals by,
	// so that one of weight 2 goes first among its like; 0 stands for 1.
	Weight    float64   `json:"weight,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

// An Item is one query of a profile and when it is wanted.
type Item struct {
	Query string `json:"query"` // an id once it is stored; a name will do in a request
	When  When   `json:"when"`
}

// When says how an item's intervals come about. Exactly one of Every, Changed
// and Predicted is set.
type When struct {
	// Every: from each multiple of it on (of time since the Unix epoch, or of
	// slot numbers), for Slack.
	Every Span `json:"every,omitzero"`
	Slack Span `json:"slack,omitzero"`

	// Changed: from a change of this query on that adds a row meeting all of
	// Where. The item's own query will do; the change then captures it, too.
	Changed string      `json:"changed,omitempty"`
	Where   []Condition `json:"where,omitempty"`

	// Predicted: from the moment on by which, going by the item's own history,
	// its next change is as likely as not.
	Predicted bool `json:"predicted,omitempty"`

	// Within is the length of intervals that a change or a prediction begins;
	// the profile's window when it is not said.
	Within Span `json:"within,omitzero"`
}

// UnmarshalJSON also takes the word "predicted" for {"predicted":true}.
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

// A Trigger is what a Changed item waits for, as a comparable value.
func (w When) trigger() string {
	b, _ := json.Marshal(When{Changed: w.Changed, Where: w.Where})
	return string(b)
}

// SameTrigger says whether two items wait for the very same changes.
func (w When) SameTrigger(x When) bool {
	return w.Changed != "" && w.Changed == x.Changed && w.trigger() == x.trigger()
}

// IntervalLength is the length of the intervals that a change or a prediction begins.
func (p *Profile) IntervalLength(i int) Span {
	if w := p.Items[i].When.Within; !w.IsZero() {
		return w
	}
	return p.Window
}

// A RoundState says how far a round has come.
type RoundState string

// The states of rounds.
const (
	RoundOpen     RoundState = "open"
	RoundCaptured RoundState = "captured"
	RoundExpired  RoundState = "expired"
)

// A Round is a complex execution interval: one interval for each item of a
// profile. It is captured when each item's query was executed completely inside
// the item's interval, whatever made it run; it has expired as soon as that
// cannot be any more. What opens rounds are the profile's Changed items, if it
// has some, else the Predicted ones, else the periodic ones; the other items
// join with the interval they are in or their next one.
type Round struct {
	Profile  string     `json:"profile"`
	Number   uint64     `json:"round"` // counts the profile's rounds from 1
	State    RoundState `json:"state"`
	OpenedAt time.Time  `json:"opened_at"`
	Slot     uint64     `json:"slot"` // in which it was opened
	// Trigger is the change that opened it, zero when time did.
	Trigger   Cause      `json:"trigger,omitzero"`
	Intervals []Interval `json:"intervals"` // one for each item, in their order
	EndedAt   time.Time  `json:"ended_at,omitzero"`
	EndedSlot uint64     `json:"ended_slot,omitempty"`
	Reason    string     `json:"reason,omitempty"` // why it expired, for people
	// Position counts the profile's captures; it is set by the ledger.
	Position Position `json:"position,omitzero"`
}

// A Cause is a change that opened a round or one of its intervals.
type Cause struct {
	Query string `json:"query"`
	Position
}

// An Interval is the stretch in which one item's query has to run: from From to
// Until, or from slot First to slot Last, all included. One that still waits
// for its trigger has neither.
type Interval struct {
	Query string     `json:"query"`
	From  time.Time  `json:"from,omitzero"`
	Until time.Time  `json:"until,omitzero"`
	First uint64     `json:"first_slot,omitempty"`
	Last  uint64     `json:"last_slot,omitempty"`
	Cause Cause      `json:"trigger,omitzero"`
	Done  *Execution `json:"captured,omitempty"` // what captured it
	// Reason is why it was not captured, of an expired round.
	Reason string `json:"reason,omitempty"`
}

// An Execution is what captured an interval: the result that it confirmed or
// brought. The ledger sets the position.
type Execution struct {
	Position
	At   time.Time `json:"at"` // when it ended
	Slot uint64    `json:"slot"`
	Why  string    `json:"why"` // the tier that chose it
}

// HasBounds says that an interval has its bounds; one that has not waits for its
// trigger.
func (i *Interval) HasBounds() bool { return !i.From.IsZero() || i.First > 0 }

// A ProfileStatus is what is known of a profile's rounds.
type ProfileStatus struct {
	Position           // of the newest capture; Seq counts captures
	Rounds   uint64    `json:"rounds"` // ever opened
	Expired  uint64    `json:"expired"`
	Open     int       `json:"open"`
	EndedAt  time.Time `json:"ended_at,omitzero"` // the last round that was captured or expired
	Missing  []string  `json:"missing,omitempty"` // queries that nobody watches any more
}

// A RoundEnd is the end of a round, captured or expired, with its place among
// all ends of the profile.
type RoundEnd struct {
	Round
	End uint64 // counts from 1
	// Captured and Expired count the profile's rounds up to and with this one.
	Captured, Expired uint64
}

// A ProfileStore keeps profiles. The contract is that of Store.
type ProfileStore interface {
	// Profile returns one profile; it wraps ErrNotFound.
	Profile(id string) (Profile, error)
	// EditProfile is EditQueries for profiles. One left without Items is deleted
	// with its rounds.
	EditProfile(id string, edit func(p *Profile, found bool) error) (Profile, error)
	// FindProfile lists the profiles that an owner gave a name, or that anybody did
	// when owner is "": at most some, the oldest first.
	FindProfile(owner, name string, most int) ([]Profile, error)
}

var errNoProfiles = errors.New("this registry keeps no profiles")
