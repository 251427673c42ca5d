package registry

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"time"

	"github.com/freshet/freshet/diff"
)

// A Query is a registered read query on one endpoint. The fields that identify
// it never change; the others follow from its holders.
type Query struct {
	ID            string    `json:"id"`
	Endpoint      string    `json:"endpoint"`
	Text          string    `json:"text"` // as first registered, and as sent
	Normal        string    `json:"normal"`
	Form          diff.Form `json:"form"`
	Ordered       bool      `json:"ordered,omitempty"`
	OrderKeys     []string  `json:"order_keys,omitempty"` // see diff.Options
	Limit         int64     `json:"limit"`                // its own top-level LIMIT; -1: none
	DefaultGraphs []string  `json:"default_graphs,omitempty"`
	NamedGraphs   []string  `json:"named_graphs,omitempty"`
	Constants     []string  `json:"constants,omitempty"` // IRIs of the patterns
	Warnings      []Warning `json:"warnings,omitempty"`
	CreatedAt     time.Time `json:"created_at"`
	Holders       []Holder  `json:"holders"`         // sorted by name
	Pause         *Pause    `json:"pause,omitempty"` // an admin's, for all holders; see Paused
	// Refreshes counts the requests to run in the next slot. One is pending while
	// the scheduler has served fewer.
	Refreshes uint64 `json:"refreshes,omitempty"`
	// Learnt is what was known about its changes before its first execution here, nil if nothing.
	Learnt *Learnt `json:"learnt,omitempty"`
	// Merged marks the query of a request for several registered queries. It is not
	// registered itself.
	Merged bool `json:"-"`
	// Beside marks a request that is about no query, such as for the endpoint's position. Its answers say nothing
	// about the health of the endpoint, except that this asks to wait.
	Beside bool `json:"-"`
}

// A Learnt says how often a query was executed elsewhere, and how often its result had changed
// since the execution before. If it has a source, it is about other queries with the same template.
type Learnt struct {
	Changes    uint64  `json:"changes"`
	Executions uint64  `json:"executions"` // without the first one
	Days       float64 `json:"days"`       // from the first one to the last
	Source     string  `json:"source,omitempty"`
}

// Plus adds executions to those that l counts, and returns nil if there are none. The query has been
// registered for some days, which include those of l. What l says about other queries is left out. l may be nil.
func (l *Learnt) Plus(changes, executions uint64, days float64) *Learnt {
	sum := Learnt{Changes: changes, Executions: executions, Days: days}
	if l != nil && l.Source == "" {
		sum = Learnt{Changes: l.Changes + changes, Executions: l.Executions + executions, Days: max(l.Days, days)}
	}
	if sum.Executions == 0 || sum.Days <= 0 {
		return nil
	}
	return &sum
}

// A Warning says what may surprise about a query.
type Warning struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
}

// A Holder is one registration of a query. The same question of several callers
// is executed once, with settings that satisfy all of them.
type Holder struct {
	Caller       string     `json:"caller"` // token name or Anonymous
	Name         string     `json:"name,omitempty"`
	Tags         []string   `json:"tags,omitempty"`
	Weight       float64    `json:"weight,omitempty"` // 0 means 1
	MaxStaleness Duration   `json:"max_staleness,omitempty"`
	MinInterval  Duration   `json:"min_interval,omitempty"`
	Alone        bool       `json:"alone,omitempty"` // never asked together with other queries
	From         *time.Time `json:"from,omitempty"`
	Until        *time.Time `json:"until,omitempty"`
	Public       bool       `json:"public,omitempty"`
	MayPublish   bool       `json:"may_publish,omitempty"` // its Public applies regardless of other holders; see Query.Public
	Urgency      string     `json:"urgency,omitempty"`
	Life         string     `json:"life,omitempty"`
	Pause        *Pause     `json:"pause,omitempty"` // its own: other holders may still want executions
	Since        time.Time  `json:"since"`
	// Live marks a registration made by a subscription. ReleaseAt is when it ends;
	// it is set while no connection of the caller follows the query.
	Live      bool       `json:"live,omitempty"`
	ReleaseAt *time.Time `json:"release_at,omitempty"`
	// Node is the node of a cluster at which the caller connected last.
	Node string `json:"node,omitempty"`
}

// Identity derives a query's id from what makes it the same question.
func Identity(endpoint, normal string, ordered bool, defaultGraphs, namedGraphs []string) string {
	b := make([]byte, 0, len(endpoint)+len(normal)+64)
	part := func(s string) {
		b = append(append(b, s...), 0)
	}
	list := func(l []string) {
		for _, s := range sortedUnique(l) {
			part(s)
		}
		part("")
	}
	part(endpoint)
	part(normal)
	if ordered {
		part("ordered")
	} else {
		part("")
	}
	list(defaultGraphs)
	list(namedGraphs)
	sum := sha256.Sum256(b)
	digits := idDigits.AppendEncode(append(make([]byte, 0, 64), "q_"...), sum[:])
	return string(digits[:len("q_")+26])
}

// idDigits are those of base32.HexEncoding in lower case.
var idDigits = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// Weight is the largest weight of the holders who have not paused the query.
func (q *Query) Weight() float64 {
	w := 0.0
	for h := range q.effectiveHolders {
		w = max(w, h.weight())
	}
	return w
}

func (h *Holder) weight() float64 {
	if h.Weight == 0 {
		return 1
	}
	return h.Weight
}

// MaxStaleness is the smallest max_staleness of the holders who have not paused
// the query; 0 means none.
func (q *Query) MaxStaleness() time.Duration {
	least := Duration(0)
	for h := range q.effectiveHolders {
		if d := h.MaxStaleness; d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return time.Duration(least)
}

// MinInterval is the smallest min_interval of the holders who have not paused
// the query; 0 if one of them sets none.
func (q *Query) MinInterval() time.Duration {
	least := Duration(-1)
	for h := range q.effectiveHolders {
		if least < 0 || h.MinInterval < least {
			least = h.MinInterval
		}
	}
	return time.Duration(max(0, least))
}

// Alone reports whether a holder who has not paused the query wants it to be
// asked alone.
func (q *Query) Alone() bool {
	for h := range q.effectiveHolders {
		if h.Alone {
			return true
		}
	}
	return false
}

// Tags is the union of the holders' tags, sorted.
func (q *Query) Tags() []string {
	var all []string
	for _, h := range q.Holders {
		all = append(all, h.Tags...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Active reports whether some holder wants executions now: one who has not
// paused the query and whose From and Until include now.
func (q *Query) Active(now time.Time) bool {
	return slices.ContainsFunc(q.Holders, func(h Holder) bool {
		return h.Pause == nil && (h.From == nil || !now.Before(*h.From)) && (h.Until == nil || now.Before(*h.Until))
	})
}

// DormantReason says in words why an inactive query is not executed, and when
// it will be.
func (q *Query) DormantReason(now time.Time) string {
	var next time.Time
	for _, h := range q.Holders {
		if h.Pause == nil && h.From != nil && h.From.After(now) && (next.IsZero() || h.From.Before(next)) {
			next = *h.From
		}
	}
	if next.IsZero() {
		return "no holder wants executions now: until has passed, or the holder has paused the query"
	}
	return "no holder wants executions before " + next.UTC().Format(time.RFC3339) + " (from)"
}

// Holder returns the caller's registration, if it has one.
func (q *Query) Holder(caller string) (Holder, bool) {
	i := slices.IndexFunc(q.Holders, func(h Holder) bool { return h.Caller == caller })
	if i < 0 {
		return Holder{}, false
	}
	return q.Holders[i], true
}

// NameFor is the caller's name for the query, else the first that any holder gave it.
func (q *Query) NameFor(caller string) string {
	if h, ok := q.Holder(caller); ok && h.Name != "" {
		return h.Name
	}
	for _, h := range q.Holders {
		if h.Name != "" {
			return h.Name
		}
	}
	return ""
}

// A Pause records who stopped executions, and when.
type Pause struct {
	By  string    `json:"by"`
	At  time.Time `json:"at"`
	All bool      `json:"all,omitempty"` // by an admin, for all holders of a query
}

// Paused returns the pause that stops the query, nil if it runs: an admin's
// pause, or the latest of the holders' pauses if all of them have paused it.
func (q *Query) Paused() *Pause {
	if q.Pause != nil {
		return q.Pause
	}
	var latest *Pause
	for i := range q.Holders {
		p := q.Holders[i].Pause
		if p == nil {
			return nil
		}
		if latest == nil || p.At.After(latest.At) {
			latest = p
		}
	}
	return latest
}

// PausedFor returns the pause that the caller's Resume would end: the one in
// force, else the caller's own.
func (q *Query) PausedFor(c Caller) *Pause {
	if p := q.Paused(); p != nil || c.Role.Includes(RoleAdmin) {
		return p
	}
	h, _ := q.Holder(c.Name)
	return h.Pause
}

// effectiveHolders yields the holders whose settings are in force: those who
// have not paused the query, or all of them if all have.
func (q *Query) effectiveHolders(yield func(*Holder) bool) {
	all := q.Pause == nil && q.Paused() != nil
	for i := range q.Holders {
		if h := &q.Holders[i]; (all || h.Pause == nil) && !yield(h) {
			return
		}
	}
}

// pauseOf returns where the caller's pause is stored. The caller is a holder or
// an admin.
func (q *Query) pauseOf(c Caller) **Pause {
	for i := range q.Holders {
		if h := &q.Holders[i]; h.Caller == c.Name && !c.Role.Includes(RoleAdmin) {
			return &h.Pause
		}
	}
	return &q.Pause
}
