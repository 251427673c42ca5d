package proof

import (
	"iter"
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
	keys    index[uint64] // queries by the keys of their patterns
	rows    []row         // the patterns with a constant subject
	subject index[uint32] // rows by the end of the hash of the subject
	outside index[int32]  // rows by its stem
	stems   []string
	stemOf  map[string]int32

	marks  map[int32]feed.Reach // how the event of Reach reaches queries, by their numbers
	marked []int32              // the numbers, in the order in which they were found
}

// A row is a pattern with a constant subject: an IRI that is a stem followed by a number.
type row struct {
	query     int32
	predicate uint32 // the end of its hash, 0 if it is open
	tail      uint64 // of the subject, plus 1; 0 if the stem is all of it
}

// NewMatcher returns a matcher without queries.
func NewMatcher() *Matcher {
	return &Matcher{
		numbers: map[uint64]int32{}, stemOf: map[string]int32{}, marks: map[int32]feed.Reach{},
		keys: newIndex[uint64](), subject: newIndex[uint32](), outside: newIndex[int32](),
	}
}

// The kinds of keys.
const (
	keyTriple    uint64 = iota // the graph is not given
	keyInGraph                 // the graph is given, and must be equal
	keyGraph                   // the graph is given; for triples whose graph is unknown
	keyOpen                    // the subject is open
	keyVerb                    // the same, and the predicate, if the object is constant: else its keyTriple or keyGraph says it
	keyOwned                   // the subject is open and the owner is given, and must be equal
	keyOwner                   // the same; for triples whose owner is unknown
	keyOpenOwned               // like keyOpen, and the owner is given and must be equal
	keyVerbOwned               // like keyVerb
	keyOpenOwner               // like keyOpen with an owner; for what has an unknown owner
	keyVerbOwner               // like keyVerb
)

// Len is the number of queries.
func (m *Matcher) Len() int { return len(m.ids) - m.dropped }

// Has reports whether there is a query.
func (m *Matcher) Has(id string) bool {
	_, ok := m.numbers[key.Hash(id)]
	return ok
}

// All returns the queries.
func (m *Matcher) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, id := range m.ids {
			if id != "" && !yield(id) {
				return
			}
		}
	}
}

// Put adds a query with its patterns, or replaces it.
func (m *Matcher) Put(id string, patterns []sparql.Pattern) {
	m.Drop(id)
	n := int32(len(m.ids))
	m.ids = append(m.ids, id)
	m.numbers[key.Hash(id)] = n
	keys := make([]uint64, 0, 3*len(patterns))
	for i, p := range patterns {
		s, v, o, g := key.Hash(p.Subject), key.Hash(p.Predicate), key.Hash(p.Object), key.Hash(p.Graph)
		if p.Owner != "" {
			w := key.Hash(p.Owner)
			keys = append(keys, key.Of(keyOwned, v, o, w), key.Of(keyOwner, v, o), key.Of(keyOpenOwned, w), key.Of(keyOpenOwner))
			if o != 0 {
				keys = append(keys, key.Of(keyVerbOwned, v, w), key.Of(keyVerbOwner, v))
			}
			continue
		}
		if g == 0 {
			keys = append(keys, key.Of(keyTriple, s, v, o))
		} else {
			keys = append(keys, key.Of(keyInGraph, s, v, o, g), key.Of(keyGraph, s, v, o))
		}
		switch {
		case s != 0:
			alike := func(q sparql.Pattern) bool { return q.Subject == p.Subject && q.Predicate == p.Predicate }
			if stem, tail := divide(p.Subject); !slices.ContainsFunc(patterns[:i], alike) {
				m.putRow(row{n, short(v), tail}, stem, s)
			}
		case o != 0:
			keys = append(keys, key.Of(keyVerb, v))
			fallthrough
		default:
			keys = append(keys, key.Of(keyOpen))
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
	i := int32(len(m.rows))
	m.rows = append(m.rows, r)
	m.subject.add(short(subject), i)
	m.outside.add(s, i)
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
	for k := range m.keys.at {
		for _, n := range m.keys.list(k) {
			if to[n] >= 0 {
				next.keys.add(k, to[n])
			}
		}
	}
	for s, stem := range m.stems {
		for _, i := range m.outside.list(int32(s)) {
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
	clear(m.marks)
	m.marked = m.marked[:0]
	for _, list := range [2][]sparql.Pattern{e.Added, e.Removed} {
		for i := range list {
			m.match(&list[i])
		}
	}
	for i := range e.Loose {
		m.touch(&e.Loose[i])
	}
	if e.All {
		for n, id := range m.ids {
			if id != "" {
				found(id, max(m.marks[int32(n)], feed.Possible))
			}
		}
		return
	}
	for _, n := range m.marked {
		found(m.ids[n], m.marks[n])
	}
}

func (m *Matcher) mark(n int32, how feed.Reach) {
	if m.ids[n] == "" {
		return
	}
	was, ok := m.marks[n]
	if !ok {
		m.marked = append(m.marked, n)
	}
	m.marks[n] = max(was, how)
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
	open, verb, owned, last := keyOpenOwned, keyVerbOwned, keyOwned, []uint64{w}
	if w == 0 {
		open, verb, owned, last = keyOpenOwner, keyVerbOwner, keyOwner, nil
	}
	if v == 0 {
		m.markAll(key.Of(keyOpen), feed.Possible)
		m.markAll(key.Of(open, last...), feed.Possible)
	} else {
		for _, v := range [2]uint64{0, v} {
			for _, k := range [...]uint64{
				key.Of(keyVerb, v), key.Of(keyTriple, 0, v, 0), key.Of(keyGraph, 0, v, 0),
				key.Of(verb, append([]uint64{v}, last...)...), key.Of(owned, append([]uint64{v, 0}, last...)...),
			} {
				m.markAll(k, feed.Possible)
			}
		}
	}
	for _, s := range l.Subjects {
		for _, i := range m.subject.list(short(key.Hash(s))) {
			m.touchRow(&m.rows[i], v)
		}
	}
	if l.Apart != nil {
		for s, stem := range m.stems {
			for _, i := range m.outside.list(int32(s)) {
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
		for _, i := range m.outside.list(int32(s)) {
			r := &m.rows[i]
			if len(things) <= len(stem) || !strings.HasPrefix(subjectOf(stem, r.tail), things) {
				m.touchRow(r, v)
			}
		}
	}
}

// touchRow marks the query of a pattern, unless its predicate is another one.
func (m *Matcher) touchRow(r *row, predicate uint64) {
	if predicate == 0 || r.predicate == 0 || r.predicate == short(predicate) {
		m.mark(r.query, feed.Possible)
	}
}

// short is the end of a hash, which is odd, so it is 0 for none only.
func short(hash uint64) uint32 { return uint32(hash) }

// subjectOf is the reverse of divide.
func subjectOf(stem string, tail uint64) string {
	if tail == 0 {
		return stem + ">"
	}
	return stem + strconv.FormatUint(tail-1, 10) + ">"
}

// An index holds lists of numbers by key. A list of one number takes no place of its own.
type index[K comparable] struct {
	at    map[K]int32 // the number, or the list that it is in: -1, -2, …
	lists [][]int32
	one   [1]int32
}

func newIndex[K comparable]() index[K] { return index[K]{at: map[K]int32{}} }

func (x *index[K]) add(key K, n int32) {
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
func (x *index[K]) list(key K) []int32 {
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
