package catalog

import (
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// An Entry is what lists need of a query. Its State is that of a query that its holders want executed.
type Entry struct {
	registry.QueryDigest
	serial uint64          // differs after the query is registered again
	words  string          // in lower case: where a search looks
	grams  grams           // of words
	wants  *registry.Query // the fields on which the state depends
	gone   bool
}

// apart is between the fields in which a search looks. No text in lower case contains it.
const apart = "\xff"

// NewEntry returns the entry of a query.
func NewEntry(q *registry.Query, serial uint64, s *policy.Stats) *Entry {
	words := []string{strings.ToLower(q.ID), strings.ToLower(q.Text)}
	e := &Entry{serial: serial, wants: wantsOf(q)}
	e.ID, e.Endpoint, e.Name, e.Tags = q.ID, q.Endpoint, q.NameFor(""), q.Tags()
	for i := range q.Holders {
		e.Holders = append(e.Holders, q.Holders[i].Caller)
		words = append(words, strings.ToLower(q.Holders[i].Name))
	}
	e.words = strings.Join(words, apart)
	e.grams = gramsOf(e.words)
	e.ran(s)
	return e
}

func (e *Entry) ran(s *policy.Stats) {
	e.CheckedAt, e.ChangedAt, e.Executions, e.Changes, e.Median = s.CheckedAt, s.ChangedAt, s.Executions, s.Changes, s.Median()
	e.State = s.StateWithin(e.wants.MaxStaleness())
	e.Lately = registry.RecentRuns{Runs: len(s.Samples)}
	for i := range s.Samples {
		if s.Samples[i].Changed {
			e.Lately.Changed++
		}
	}
}

// mentions reports whether the id, the text or a name of the query contains a text in lower case, with its grams.
func (e *Entry) mentions(text string, g *grams) bool {
	return text == "" || e.grams.has(g) && strings.Contains(e.words, text)
}

// grams are the runs of three bytes of a text, hashed to bits: of those that another text lacks, it is no part. A
// search so passes most texts over without reading them.
type grams [16]uint64

func gramsOf(text string) (g grams) {
	for i := range len(text) - 2 {
		h := (uint32(text[i])<<16 | uint32(text[i+1])<<8 | uint32(text[i+2])) * 0x9e3779b1 >> 22
		g[h/64] |= 1 << (h % 64)
	}
	return g
}

// has reports whether g has all grams of another text.
func (g *grams) has(other *grams) bool {
	for i, bits := range other {
		if g[i]&bits != bits {
			return false
		}
	}
	return true
}

// fits reports whether a filter applies, apart from its text.
func (e *Entry) fits(f *registry.QueryFilter, now time.Time) bool {
	return (f.Endpoint == "" || e.Endpoint == f.Endpoint) &&
		(f.Tag == "" || slices.Contains(e.Tags, f.Tag)) &&
		(f.Holder == "" || slices.Contains(e.Holders, f.Holder)) &&
		(f.State == "" || e.state(now) == f.State)
}

func (e *Entry) state(now time.Time) registry.State {
	switch {
	case e.wants.Paused() != nil:
		return registry.Paused
	case !e.wants.Active(now):
		return registry.Idle
	}
	return e.State
}

// plain is what an active holder wants that sets no limit.
var plain = &registry.Query{Holders: []registry.Holder{{}}}

// wantsOf returns the fields of a query on which its state depends.
func wantsOf(q *registry.Query) *registry.Query {
	w := registry.Query{Pause: q.Paused()}
	limit := registry.Duration(q.MaxStaleness())
	for _, h := range q.Holders {
		if h.Pause == nil && h.From == nil && h.Until == nil { // one active holder is enough
			if limit == 0 && w.Pause == nil {
				return plain
			}
			w.Holders = []registry.Holder{{MaxStaleness: limit}}
			return &w
		}
		w.Holders = append(w.Holders, registry.Holder{From: h.From, Until: h.Until, MaxStaleness: limit, Pause: h.Pause})
	}
	return &w
}
