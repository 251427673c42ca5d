package proof

import (
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler/internal/key"
)

// A Matcher finds the queries that an event reaches, at a cost that grows with the queries found
// and not with those that there are. It gives the answers of feed.Event.Reach. A query has keys
// for each of its patterns: hashes of the fields that are constants. Patterns whose keys are
// equal by chance make an event reach a query too many, and never one too few.
type Matcher struct {
	ids     []string // of the queries by number, empty if one was dropped
	numbers map[uint64]int32
	dropped int
	keys    index // queries by the keys of their patterns
	rows    []row // the patterns with a constant subject
	subject index // rows by the hash of the subject
	outside index // rows by its stem
	stems   []string
	stemOf  map[string]int32

	round  uint32 // of Reach
	marks  []mark // by number
	marked []int32
}

// A row is a pattern with a constant subject: an IRI that is a stem followed by a number.
type row struct {
	query     int32
	tail      uint64 // of the subject, plus 1; 0 if the stem is all of it
	predicate uint64 // hash
}

// A mark is how an event reaches a query.
type mark struct {
	round uint32
	how   feed.Reach
}

// NewMatcher returns a matcher without queries.
func NewMatcher() *Matcher {
	return &Matcher{numbers: map[uint64]int32{}, stemOf: map[string]int32{}, keys: newIndex(), subject: newIndex(), outside: newIndex()}
}

// The kinds of keys.
const (
	keyTriple    uint64 = iota // the graph is not given
	keyInGraph                 // the graph is given, and must be equal
	keyGraph                   // the graph is given; for triples whose graph is unknown
	keyOpen                    // the subject is open
	keyVerb                    // the same, and the predicate
	keyOwned                   // the subject is open and the owner is given, and must be equal
	keyOwner                   // the same; for triples whose owner is unknown
	keyOpenOwned               // like keyOpen, and the owner is given and must be equal
	keyVerbOwned               // like keyVerb
	keyOpenOwner               // like keyOpen with an owner; for what has an unknown owner
	keyVerbOwner               // like keyVerb
)

// Len is the number of queries.
func (m *Matcher) Len() int { return len(m.ids) - m.dropped }

// Put adds a query with its patterns, or replaces it.
func (m *Matcher) Put(id string, patterns []sparql.Pattern) {
	m.Drop(id)
	n := int32(len(m.ids))
	m.ids, m.marks = append(m.ids, id), append(m.marks, mark{})
	m.numbers[key.Hash(id)] = n
	keys := make([]uint64, 0, 3*len(patterns))
	for _, p := range patterns {
		s, v, o, g := key.Hash(p.Subject), key.Hash(p.Predicate), key.Hash(p.Object), key.Hash(p.Graph)
		if p.Owner != "" {
			w := key.Hash(p.Owner)
			keys = append(keys, key.Of(keyOwned, v, o, w), key.Of(keyOwner, v, o), key.Of(keyOpenOwned, w), key.Of(keyVerbOwned, v, w),
				key.Of(keyOpenOwner), key.Of(keyVerbOwner, v))
			continue
		}
		if g == 0 {
			keys = append(keys, key.Of(keyTriple, s, v, o))
		} else {
			keys = append(keys, key.Of(keyInGraph, s, v, o, g), key.Of(keyGraph, s, v, o))
		}
		if s == 0 {
			keys = append(keys, key.Of(keyOpen), key.Of(keyVerb, v))
		} else {
			stem, tail := divide(p.Subject)
			m.putRow(row{n, tail, v}, stem, s)
		}
	}
	slices.Sort(keys)
	for _, k := range slices.Compact(keys) {
		m.keys.add(k, n)
	}
}

// putRow adds a pattern with a constant subject, by its stem and its hash.
func (m *Matcher) putRow(r row, stem string, subject uint64) {
	s, ok := m.stemOf[stem]
	if !ok {
		s = int32(len(m.stems))
		m.stems, m.stemOf[stem] = append(m.stems, stem), s
	}
	if list := m.subject.list(subject); len(list) > 0 && m.rows[list[len(list)-1]] == r {
		return // of the same query
	}
	i := int32(len(m.rows))
	m.rows = append(m.rows, r)
	m.subject.add(subject, i)
	m.outside.add(uint64(s), i)
}

// divide divides a subject such as <http://…/Q42> into what comes before a number, and the number plus 1.
func divide(subject string) (stem string, tail uint64) {
	text := strings.TrimSuffix(subject, ">")
	end := len(strings.TrimRight(text, "0123456789"))
	if n, err := strconv.ParseUint(text[end:], 10, 63); err == nil && text[end] != '0' {
		return text[:end], n + 1
	}
	return text, 0
}

// Drop removes a query.
func (m *Matcher) Drop(id string) {
	h := key.Hash(id)
	n, ok := m.numbers[h]
	if !ok {
		return
	}
	delete(m.numbers, h)
	m.ids[n] = ""
	if m.dropped++; m.dropped > 1000 && m.dropped > len(m.ids)/2 {
		m.pack()
	}
}

// pack gives the queries that are left new numbers.
func (m *Matcher) pack() {
	next := NewMatcher()
	to := make([]int32, len(m.ids))
	for n, id := range m.ids {
		if to[n] = -1; id != "" {
			to[n] = int32(len(next.ids))
			next.ids, next.numbers[key.Hash(id)] = append(next.ids, id), to[n]
		}
	}
	next.marks = make([]mark, len(next.ids))
	for k := range m.keys.at {
		for _, n := range m.keys.list(k) {
			if to[n] >= 0 {
				next.keys.add(k, to[n])
			}
		}
	}
	for s, stem := range m.stems {
		for _, i := range m.outside.list(uint64(s)) {
			r := m.rows[i]
			if r.query = to[r.query]; r.query < 0 {
				continue
			}
			next.putRow(r, stem, key.Hash(subjectOf(stem, r.tail)))
		}
	}
	*m = *next
}

// Reach calls found for each query that an event reaches, once.
func (m *Matcher) Reach(e *feed.Event, found func(id string, how feed.Reach)) {
	m.round++
	m.marked = m.marked[:0]
	if e.All {
		for n := range m.ids {
			m.mark(int32(n), feed.Possible)
		}
	}
	for _, list := range [2][]sparql.Pattern{e.Added, e.Removed} {
		for i := range list {
			m.match(&list[i])
		}
	}
	for i := range e.Loose {
		m.touch(&e.Loose[i])
	}
	for _, n := range m.marked {
		found(m.ids[n], m.marks[n].how)
	}
}

func (m *Matcher) mark(n int32, how feed.Reach) {
	x := &m.marks[n]
	if m.ids[n] == "" {
		return
	}
	if x.round != m.round {
		*x = mark{m.round, feed.None}
		m.marked = append(m.marked, n)
	}
	x.how = max(x.how, how)
}

func (m *Matcher) markAll(key uint64, how feed.Reach) {
	for _, n := range m.keys.list(key) {
		m.mark(n, how)
	}
}

// match marks the queries with a pattern that matches a triple.
func (m *Matcher) match(t *sparql.Pattern) {
	fields := [3]uint64{key.Hash(t.Subject), key.Hash(t.Predicate), key.Hash(t.Object)}
	g, w := key.Hash(t.Graph), key.Hash(t.Owner)
	for mask := range 8 {
		var f [3]uint64
		for i := range f {
			if mask&(1<<i) != 0 {
				f[i] = fields[i]
			}
		}
		m.markAll(key.Of(keyTriple, f[:]...), feed.Matched)
		if g == 0 {
			m.markAll(key.Of(keyGraph, f[:]...), feed.Matched)
		} else {
			m.markAll(key.Of(keyInGraph, f[0], f[1], f[2], g), feed.Matched)
		}
		switch {
		case mask&1 != 0: // only patterns with an open subject have an owner
		case w == 0:
			m.markAll(key.Of(keyOwner, f[1], f[2]), feed.Matched)
		default:
			m.markAll(key.Of(keyOwned, f[1], f[2], w), feed.Matched)
		}
	}
}

// touch marks the queries with a pattern that may match a triple that the event does not show.
func (m *Matcher) touch(l *feed.Loose) {
	v, w := key.Hash(l.Predicate), key.Hash(l.Owner)
	open, verb, last := keyOpenOwned, keyVerbOwned, []uint64{w}
	if w == 0 {
		open, verb, last = keyOpenOwner, keyVerbOwner, nil
	}
	if v == 0 {
		m.markAll(key.Of(keyOpen), feed.Possible)
		m.markAll(key.Of(open, last...), feed.Possible)
	} else {
		for _, v := range [2]uint64{0, v} {
			m.markAll(key.Of(keyVerb, v), feed.Possible)
			m.markAll(key.Of(verb, append([]uint64{v}, last...)...), feed.Possible)
		}
	}
	for _, s := range l.Subjects {
		for _, i := range m.subject.list(key.Hash(s)) {
			m.touchRow(&m.rows[i], v)
		}
	}
	if l.Apart != nil {
		for s, stem := range m.stems {
			for _, i := range m.outside.list(uint64(s)) {
				if r := &m.rows[i]; !l.Apart(subjectOf(stem, r.tail)) {
					m.touchRow(r, v)
				}
			}
		}
		return
	}
	if l.Things == "" {
		return
	}
	things := "<" + l.Things
	for s, stem := range m.stems {
		if strings.HasPrefix(stem, things) {
			continue
		}
		for _, i := range m.outside.list(uint64(s)) {
			r := &m.rows[i]
			if len(things) <= len(stem) || !strings.HasPrefix(subjectOf(stem, r.tail), things) {
				m.touchRow(r, v)
			}
		}
	}
}

// touchRow marks the query of a pattern, unless its predicate is another one.
func (m *Matcher) touchRow(r *row, predicate uint64) {
	if predicate == 0 || r.predicate == 0 || r.predicate == predicate {
		m.mark(r.query, feed.Possible)
	}
}

// subjectOf is the reverse of divide.
func subjectOf(stem string, tail uint64) string {
	if tail == 0 {
		return stem + ">"
	}
	return stem + strconv.FormatUint(tail-1, 10) + ">"
}

// An index holds lists of numbers by key. A list of one number takes no place of its own.
type index struct {
	at    map[uint64]int32 // the number, or the list that it is in: -1, -2, …
	lists [][]int32
	one   [1]int32
}

func newIndex() index { return index{at: map[uint64]int32{}} }

func (x *index) add(key uint64, n int32) {
	was, ok := x.at[key]
	switch {
	case !ok:
		x.at[key] = n
	case was >= 0:
		x.lists = append(x.lists, []int32{was, n})
		x.at[key] = int32(-len(x.lists))
	default:
		x.lists[-was-1] = append(x.lists[-was-1], n)
	}
}

// list returns the numbers of a key, until the next call.
func (x *index) list(key uint64) []int32 {
	n, ok := x.at[key]
	switch {
	case !ok:
		return nil
	case n >= 0:
		x.one[0] = n
		return x.one[:]
	}
	return x.lists[-n-1]
}
