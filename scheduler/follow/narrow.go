package follow

import (
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler/proof"
)

// A narrowed is a query whose result narrows what events reach it, see sparql.Narrow.
//
// That needs the columns of the result that is true of the data before the event, or more than that. An answer tells
// them if no event may have added a row from the position before that answer on, and the feed has told all that the
// answer can include. From then on, rows come only by triples that the feed names: if all columns are one, these
// add their subjects to it. Any other event that may have added rows, a gap, and another endpoint end that, until
// there is such an answer again.
type narrowed struct {
	list     []sparql.Narrow
	star     bool // all patterns but those that Both says it of have the same column
	endpoint string
	before   feed.Before // of the answer
	// added and removed are the patterns for triples that are added and removed, nil if the result is not known.
	added, removed []sparql.Pattern
	asked          time.Time // when the answer was last looked for
}

const (
	maxShown    = 256             // IRIs in a result that narrows
	learnEvery  = 2 * time.Second // how often the answer to a query is looked for
	learnAtOnce = 500             // queries whose answers are looked for in one batch
)

// forgetResults makes all results unknown.
func (f *Follower) forgetResults() {
	for id := range f.narrow {
		f.forgetResult(id)
	}
}

func (f *Follower) forgetResult(id string) {
	if n := f.narrow[id]; n != nil {
		n.added, n.removed = nil, nil
		f.unlearnt[id] = true
	}
}

// doubt touches a query whose result narrows by an answer that says nothing any more: what that hid is not known.
func (f *Follower) doubt(id string, v *proof.View, place feed.Place, touched map[string]proof.Touch) {
	if by := f.by[id]; by == 0 || by == v.Of() {
		return
	}
	t := f.touchedAt(id, place)
	if was, ok := touched[id]; ok {
		was.Join(t)
		t = was
	}
	touched[id] = t
}

// learn looks for answers that narrow. The state is that before the batch, which the answers cannot include.
func (f *Follower) learn(was proof.Feed, now time.Time, touched map[string]proof.Touch) error {
	seen := 0
	for id := range f.unlearnt {
		n := f.narrow[id]
		if n == nil {
			delete(f.unlearnt, id)
			continue
		}
		if _, is := touched[id]; is || now.Sub(n.asked) < learnEvery {
			continue
		}
		if seen++; seen > learnAtOnce {
			break
		}
		n.asked = now
		k, err := f.Ledger.Known(id)
		if err != nil {
			return err
		}
		v := f.views[n.endpoint]
		if v == nil || k.Result == nil || was.Base != f.state.Base || was.Numbering != f.state.Numbering {
			continue
		}
		w := *v
		if w.Feed = was; !w.Bounds(k.Touch, k.Before) || !was.Told().Add(-f.state.Disorder).After(k.Before.Answered) {
			continue
		}
		n.before = k.Before
		if n.added, n.removed = narrowBy(n.list, k.Result); n.added == nil {
			delete(f.narrow, id) // its result is too large
		}
		delete(f.unlearnt, id)
		if n.added != nil && f.by[id] != v.Of() { // recorded before the first event is left out
			f.by[id] = v.Of()
			t := proof.Touch{Feed: f.Definition.Name, Numbering: f.state.Numbering, Open: f.open[id], By: f.by[id]}
			if k.Touch.Numbering != t.Numbering { // those before belong to other numbers
				t.Reached, t.Grew, t.Dropped = f.base(), f.base(), f.base()
			}
			touched[id] = t
		}
	}
	return nil
}

// narrowBy returns the patterns that a result leaves, nil if it has too many IRIs or names that may be written
// in several ways.
func narrowBy(list []sparql.Narrow, r *diff.Result) (added, removed []sparql.Pattern) {
	if r.Len() > maxShown {
		return nil, nil
	}
	at := map[string]int{}
	for i, name := range r.Vars() {
		at[name] = i
	}
	added, removed = []sparql.Pattern{}, []sparql.Pattern{}
	for _, n := range list {
		column, ok := at[n.Column]
		if !n.Both || !ok {
			added = append(added, n.Pattern)
		}
		if n.Column == "" || !ok {
			removed = append(removed, n.Pattern)
			continue
		}
		for i := range r.Len() {
			t := r.Terms(i)[column]
			if t.Kind != diff.IRI || sparql.Blank(t.Value) || strings.ContainsFunc(t.Value, unusual) {
				return nil, nil
			}
			p := n.Pattern
			p.Subject = "<" + t.Value + ">"
			if removed = append(removed, p); n.Both {
				added = append(added, p)
			}
		}
	}
	return added, removed
}

// unusual reports whether a character of an IRI can be written in another way.
func unusual(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`%<>"{}|\\^`+"`", c) }

// reach is how an event reaches a query whose patterns it matches, if its result is taken into account.
func (f *Follower) reach(id string, e *feed.Event, how feed.Reach) feed.Reach {
	n := f.narrow[id]
	if n == nil || n.added == nil {
		return how
	}
	v := f.views[n.endpoint]
	if v != nil && v.Knows(n.before) && v.Refusal() == "" {
		how = e.ReachNarrowed(n.added, n.removed)
	}
	return how
}

// grow notes that an event reached a query, and reports whether it may have added rows to its result.
func (f *Follower) grow(id string, e *feed.Event) bool {
	n := f.narrow[id]
	if n == nil {
		return true
	}
	grows, named := n.grows(e)
	switch {
	case !grows || n.added == nil:
	case !n.star || named == nil || len(n.removed) > 2*maxShown:
		f.forgetResult(id)
	default:
		for _, subject := range named {
			n.show(subject)
		}
	}
	return grows
}

// grows reports whether an event may have added rows. If all of these show triples that were added, named are the
// subjects of these.
func (n *narrowed) grows(e *feed.Event) (grows bool, named []string) {
	if e.All {
		return true, nil
	}
	for _, p := range n.list {
		loose := func(gone bool) bool {
			return slices.ContainsFunc(e.Loose, func(l feed.Loose) bool { return (gone || !l.Gone) && l.Touches(p.Pattern) })
		}
		if p.Both { // its triples neither add nor remove what a column shows
			continue
		}
		if loose(false) || p.Column == "" && (loose(true) || slices.ContainsFunc(e.Removed, p.Matches)) {
			return true, nil
		}
		for _, t := range e.Added {
			if !p.Matches(t) {
				continue
			}
			if p.Column == "" || t.Subject == "_" {
				return true, nil
			}
			named, grows = append(named, t.Subject), true
		}
	}
	return grows, named
}

// show adds an IRI to what the result may show.
func (n *narrowed) show(subject string) {
	for _, p := range n.list {
		if q := p.Pattern; p.Column != "" {
			if q.Subject = subject; slices.Contains(n.removed, q) {
				continue
			}
			n.removed = append(n.removed, q)
			if p.Both {
				n.added = append(n.added, q)
			}
		}
	}
}
