package registry

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
)

// This file defines alert rules: what a caller asks for, the state of a rule, and the
// messages about its alerts. Package notify/rule describes their meaning.

// RuleSettings are the settings of an alert rule.
type RuleSettings struct {
	Name          string            `json:"name"`  // the label alertname; unique among the rules of a caller
	Query         string            `json:"query"` // id or name; the id once it is stored
	When          string            `json:"when"`
	For           Duration          `json:"for,omitempty"`
	KeepFiringFor Duration          `json:"keep_firing_for,omitempty"`
	Labels        map[string]string `json:"labels,omitzero"` // nil, which an empty map is not: see notify/rule
	Summary       string            `json:"summary,omitempty"`
	To            []Receiver        `json:"to,omitempty"`
}

// A Receiver is where a rule sends its alerts. Package notify/alert has the kinds. In JSON it is an
// object whose member with the name of the kind is the address.
type Receiver struct {
	Kind    string
	Address string
	Secret  string // of kinds that have one
	Quiet          // of what people read
}

// A Quiet says when people may be told something. Package notify/service reads it. "" is no restriction.
type Quiet struct {
	Digest string `json:"digest,omitempty"` // one message each hour or so, such as 1h, or each day at a time, such as 08:00
	Zone   string `json:"zone,omitempty"`   // time zone of the times, such as Europe/Berlin; UTC if left out
	Hours  string `json:"quiet,omitempty"`  // no message then, such as 22:00-07:00
	Most   string `json:"most,omitempty"`   // messages in an hour
	Repeat string `json:"repeat,omitempty"` // how often alerts that still fire are told again, such as 4h
}

// MarshalJSON implements json.Marshaler.
func (r Receiver) MarshalJSON() ([]byte, error) {
	return ReceiverJSON(r.Kind, r.Address, struct {
		Quiet
		Secret string `json:"secret,omitempty"`
	}{r.Quiet, r.Secret})
}

// ReceiverJSON returns an object that has an address by the name of its kind, and the members of rest.
func ReceiverJSON(kind, address string, rest any) ([]byte, error) {
	first, err := json.Marshal(map[string]string{kind: address})
	members, failed := json.Marshal(rest)
	if err := errors.Join(err, failed); err != nil || len(members) == len("{}") {
		return first, err
	}
	return slices.Concat(first[:len(first)-1], []byte(","), members[1:]), nil
}

// UnmarshalJSON implements json.Unmarshaler. A receiver with several addresses gets a kind that does not
// exist.
func (r *Receiver) UnmarshalJSON(b []byte) error {
	var m map[string]string
	if json.Unmarshal(b, &m) != nil {
		return errors.New(`a receiver is an object of strings, as in {"webhook": "https://example.org/alerts"}`)
	}
	*r = Receiver{Secret: m["secret"], Quiet: Quiet{Digest: m["digest"], Zone: m["zone"], Hours: m["quiet"], Most: m["most"],
		Repeat: m["repeat"]}}
	for _, name := range []string{"secret", "digest", "zone", "quiet", "most", "repeat"} {
		delete(m, name)
	}
	r.Kind = strings.Join(slices.Sorted(maps.Keys(m)), " and ")
	r.Address = m[r.Kind]
	return nil
}

// Notify is the kind of a receiver whose address says of which service it is.
const Notify = "notify"

// Masked returns the address as it may be shown. Those of chat services are secrets: their host is shown, and
// a fingerprint that tells them apart. Of others a query string is hidden behind such
// a fingerprint.
func (r Receiver) Masked() string {
	sum := sha256.Sum256([]byte(r.Address))
	fingerprint := "…" + hex.EncodeToString(sum[:3])
	switch r.Kind {
	case "email":
		return r.Address
	case "alertmanager", "webhook":
		if base, _, ok := strings.Cut(r.Address, "?"); ok {
			return base + "?" + fingerprint
		}
		return r.Address
	}
	u, err := url.Parse(r.Address) // as for requests, so that limits by host count the host that is called
	if err != nil {
		u = &url.URL{Scheme: r.Kind}
	}
	return u.Scheme + "://" + u.Host + "/" + fingerprint
}

// Key names the receiver within a rule.
func (r Receiver) Key() string { return r.Kind + " " + r.Address }

// AlertPrefix begins the ids of the subscriptions of receivers.
const AlertPrefix = "al_"

// ID returns the id of the subscription that a receiver is to a caller. Messages to one
// subscription are sent in order, and signed with one secret.
func (r Receiver) ID(caller string) string {
	parts := []string{caller, r.Key(), r.Secret}
	if r.Quiet != (Quiet{}) {
		parts = append(parts, r.Digest, r.Zone, r.Hours, r.Most)
	}
	if r.Repeat != "" {
		parts = append(parts, r.Repeat)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return AlertPrefix + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])[:26])
}

// Subscription returns the subscription that a receiver is to a caller, before its first message.
func (r Receiver) Subscription(caller string, at time.Time) Subscription {
	callback := r.Masked()
	if r.Kind == "webhook" || r.Kind == "alertmanager" {
		callback = r.Address
	}
	if r.Kind == "email" {
		callback = "mailto:" + callback
	}
	return Subscription{ID: r.ID(caller), Way: Alerts, Caller: caller, To: &r, Callback: callback, State: Active, CreatedAt: at.UTC()}
}

// A Rule is a stored alert rule.
type Rule struct {
	ID     string `json:"id"`
	Caller string `json:"caller"`
	RuleSettings
	CreatedAt time.Time `json:"created_at"`
	Paused    bool      `json:"paused,omitempty"`
	Edition   int       `json:"edition,omitempty"` // how often its alerts began again: edits, pauses and resumptions
}

// Size returns about how many bytes the settings take.
func (r *RuleSettings) Size() int {
	n := len(r.Name) + len(r.When) + len(r.Summary) + TextBytes(r.Labels)
	for i := range r.To {
		n += len(r.To[i].Key()) + len(r.To[i].Secret) + len(r.To[i].Digest) + len(r.To[i].Zone) + len(r.To[i].Hours) +
			len(r.To[i].Most) + len(r.To[i].Repeat)
	}
	return n
}

// SameAlerts reports whether the alerts of two settings are the same: an edit from one to
// the other keeps them.
func (r *RuleSettings) SameAlerts(o *RuleSettings) bool {
	return r.Name == o.Name && r.Query == o.Query && r.When == o.When && maps.Equal(r.Labels, o.Labels)
}

// An AlertState is the state of one alert.
type AlertState string

const (
	AlertPending  AlertState = "pending"  // the condition is met, for less than the rule's For
	AlertFiring   AlertState = "firing"   // it was met for long enough
	AlertResolved AlertState = "resolved" // of messages and events: it is met no more
	AlertCleared  AlertState = "cleared"  // of events: it was met no more before it fired
)

// An Alert is an instance of a rule: one set of labels that meets the condition.
type Alert struct {
	State   AlertState        `json:"state"`
	Labels  map[string]string `json:"labels,omitempty"` // those that differ between the alerts of a rule
	Summary string            `json:"summary,omitempty"`
	Since   time.Time         `json:"since"`             // when the condition was first met
	FiredAt time.Time         `json:"fired_at,omitzero"` // of a firing alert
	Firing  uint64            `json:"firing,omitempty"`  // number of this firing among those of its rule
	Unmet   time.Time         `json:"unmet,omitzero"`    // since when a firing alert is not met
	Rows    map[string]int    `json:"met,omitempty"`     // the rows that meet the condition, by their hash, and how often
	First   string            `json:"first,omitempty"`   // the hash of the row whose values are in Summary
}

// Size returns about how many bytes the alert takes.
func (a *Alert) Size() int {
	return alertBytes + TextBytes(a.Labels) + len(a.Summary) + RowBytes*len(a.Rows)
}

// About what an alert or a message takes besides its texts, and what one of its rows takes.
const (
	alertBytes = 200
	RowBytes   = 30
)

// TextBytes returns how many bytes names and texts take.
func TextBytes(m map[string]string) (n int) {
	for k, v := range m {
		n += len(k) + len(v)
	}
	return n
}

// A RuleEvent is a step in the history of a rule.
type RuleEvent struct {
	Time    time.Time         `json:"time"` // of the complete answer that led to it
	State   AlertState        `json:"state"`
	Labels  map[string]string `json:"labels,omitempty"` // all of them: those of the rule may be others now
	Summary string            `json:"summary,omitempty"`
	Seq     uint64            `json:"seq"` // of the query's result
	Alert   string            `json:"alert"`
	Since   time.Time         `json:"since"`            // when the alert fired, or when it was first met
	Firing  uint64            `json:"firing,omitempty"` // as in Alert
}

// Size returns about how many bytes the event takes.
func (e *RuleEvent) Size() int { return alertBytes + TextBytes(e.Labels) + len(e.Summary) }

// A RuleState is what a rule has computed from the log up to a position.
type RuleState struct {
	Version   uint64    `json:"version"` // how often it was stored
	At        Position  `json:"at"`
	Hash      string    `json:"hash,omitempty"` // of the result at that position
	Rows      int       `json:"rows"`
	CheckedAt time.Time `json:"checked_at,omitzero"` // the last complete answer that was examined
	Fired     uint64    `json:"fired"`               // number of alerts that have fired
	Happened  uint64    `json:"happened"`            // number of all its events
	Problem   string    `json:"problem,omitempty"`   // why the rule cannot be evaluated
	Ended     bool      `json:"ended,omitempty"`     // its query is gone

	Alerts map[string]*Alert `json:"-"` // by the fingerprint of their labels
	Events []RuleEvent       `json:"-"` // the newest ones, oldest first
}

// Clone returns a copy that can be changed.
func (s *RuleState) Clone() *RuleState {
	c := *s
	c.Alerts = make(map[string]*Alert, len(s.Alerts))
	for key, was := range s.Alerts {
		a := *was
		a.Rows = maps.Clone(was.Rows)
		c.Alerts[key] = &a
	}
	c.Events = slices.Clone(s.Events)
	return &c
}

// Size returns about how many bytes the state takes.
func (s *RuleState) Size() (n int) {
	for _, a := range s.Alerts {
		n += a.Size()
	}
	for i := range s.Events {
		n += s.Events[i].Size()
	}
	return n
}

// A RuleChange is what a step changes in the stored state of a rule.
type RuleChange struct {
	RuleState                   // as it is then, without alerts and events
	Alerts    map[string]*Alert `json:"alerts,omitempty"` // new and changed ones; nil for one that is gone
	Events    []RuleEvent       `json:"events,omitempty"` // new ones
	Kept      int               `json:"kept"`             // number of newest events that the state has then
}

// Since returns what changes in the stored state before if it becomes s, and numbers s.
func (s *RuleState) Since(before *RuleState) *RuleChange {
	s.Version = before.Version + 1
	c := &RuleChange{RuleState: *s, Alerts: map[string]*Alert{}, Kept: len(s.Events)}
	for key, a := range s.Alerts {
		if !reflect.DeepEqual(before.Alerts[key], a) {
			c.Alerts[key] = a
		}
	}
	for key := range before.Alerts {
		if s.Alerts[key] == nil {
			c.Alerts[key] = nil
		}
	}
	c.Events = s.Events[len(s.Events)-min(len(s.Events), int(s.Happened-before.Happened)):]
	return c
}

// A StoredRule is a rule with its state.
type StoredRule struct {
	Rule
	State RuleState `json:"state"`
}

// An AlertMessage is a message about one alert. It is stored for each receiver in the transaction that
// stores the state of its rule, and deleted in the one that records its delivery.
type AlertMessage struct {
	Seq      uint64            `json:"seq"` // in the order of creation; the store assigns it
	ID       string            `json:"id"`  // the same for all attempts and all receivers
	Rule     string            `json:"rule"`
	Name     string            `json:"name"`
	Query    string            `json:"query"`
	To       []Receiver        `json:"to,omitempty"` // of a message that is not stored yet; those of the one before if left out
	Caller   string            `json:"caller"`       // the owner of the rule
	State    AlertState        `json:"state"`        // firing or resolved
	Alert    string            `json:"alert"`
	Labels   map[string]string `json:"labels,omitempty"`
	Summary  string            `json:"summary,omitempty"`
	StartsAt time.Time         `json:"starts_at"`
	EndsAt   time.Time         `json:"ends_at,omitzero"`
	Position Position          `json:"position"`
	At       time.Time         `json:"at"` // when the message was created
}

// A RuleEdit changes rules, their states and messages in one transaction.
type RuleEdit struct {
	Token  uint64                 `json:",omitempty"` // of the lease under which rules are evaluated and edited
	Put    []Rule                 // a new one with its first state
	States map[string]*RuleChange // by id; the edit is refused as a whole if one does not follow the stored state
	Queue  []AlertMessage
	Remove []string // with their states
}

// ErrRuleMoved is the error of an edit of rules that was made for other states than the stored ones. It
// happens after an edit whose outcome was unknown.
var ErrRuleMoved error = &Problem{Kind: KindUnavailable, Detail: "what became of an earlier change of this rule was unknown " +
	"for a while: try again in a few seconds"}

// A RuleStatus says how a rule is doing. The worst of its alerts decides, unless the rule
// cannot be evaluated.
type RuleStatus string

const (
	RuleInactive RuleStatus = "inactive" // no alert
	RulePending  RuleStatus = "pending"  // an alert is pending, none fires
	RuleFiring   RuleStatus = "firing"   // an alert fires
	RuleStale    RuleStatus = "stale"    // the result is stale: nothing fires and nothing is resolved
	RuleWaiting  RuleStatus = "waiting"  // there is no result yet
	RuleFailing  RuleStatus = "failing"  // the rule cannot be evaluated; see Reason
	RulePaused   RuleStatus = "paused"   // it is not evaluated and has no alerts
	RuleEnded    RuleStatus = "ended"    // its query is gone
)

// RuleStatuses lists all statuses.
func RuleStatuses() []RuleStatus {
	return []RuleStatus{RuleFiring, RulePending, RuleInactive, RuleStale, RuleWaiting, RuleFailing, RulePaused, RuleEnded}
}

// A ListedRule is a rule with what is known about it now.
type ListedRule struct {
	StoredRule      // without the alerts
	Firing, Pending int
	Status          RuleStatus
	Reason          string         // why it is stale, waiting, failing, paused or ended
	CheckedAt       time.Time      // when the query's result was last known to be true
	Receivers       []Subscription // of all rules that share them; without a state if there was no alert
}

// A ListedAlert is an alert of a rule with all its labels.
type ListedAlert struct {
	ID string // the fingerprint of its labels
	Alert
}

// RuleTotals sum up all rules. Counts are since the start of the process.
type RuleTotals struct {
	Rules     map[RuleStatus]int
	Alerts    map[AlertState]int  // pending and firing
	Firing    map[string]int      // alerts that fire, by the caller of their rule
	Failing   map[string]int      // rules that cannot be evaluated, by their caller
	Evaluated uint64              // evaluations of rules that led to a state
	Failed    uint64              // evaluations that were impossible, for example with too many rows
	Behind    map[string]Position // up to where the rule of a query was evaluated that lags most, if one does
}

// A RuleTrial is what a rule would have done over the history of its query.
type RuleTrial struct {
	From, To time.Time // the part of the history that is kept
	Changes  int
	Fired    uint64
	Resolved uint64
	Events   []RuleEvent // the newest of them, oldest first
	Active   []Alert     // at the end, with all labels
	Problem  string      // why it could not be evaluated at the end
}
