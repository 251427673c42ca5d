package trace

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
)

// A Trace holds the results and execution times of a set of queries over the
// revisions of a dataset. Queries are numbered from 0, revisions from 1. Revision 0
// is the start, t0. A trace must not change once it is in use.
type Trace struct {
	Queries   int
	Revisions int
	Times     [][]int32 // milliseconds of query q in revision i: Times[i][q], Revisions+1 rows
	Ordered   bool      // versions are compared as lists, otherwise as bags
	Series    []Series  // of the queries that may change, by ascending id
	Features  [][]int   // by query: what it shares with others; nil if unknown
	Gaps      []Gap     // executions without a complete answer, by revision and query
	// Templates is the template of each query, from 1. Queries of one template can be
	// asked together, those with 0 alone. nil if unknown.
	Templates []int
	MergeCost MergeCost // the zero value is DefaultMergeCost
}

// A MergeCost says what a merged request takes: a time for itself and, for each member,
// a part of the time that the member takes alone in the same revision.
type MergeCost struct {
	Request float64 `json:"request_ms"` // milliseconds
	Values  float64 `json:"values"`     // part for a complete result, by VALUES or UNION
	Probe   float64 `json:"probe"`      // part for a digest
}

// DefaultMergeCost has the parts that were measured on Virtuoso with five templates. Its
// time for the request is about that of a median query.
func DefaultMergeCost() MergeCost { return MergeCost{Request: 10, Values: 0.44, Probe: 0.1} }

// A Series is the history of one query's result.
type Series struct {
	Query    int
	Versions []Version // the first one is that of t0; each differs from the one before
}

// A Version is the result of a query from a revision on.
type Version struct {
	Rev  int
	Rows []int64 // row ids with repeats, ascending unless the trace is ordered
	same int     // index of the first version of the series with the same rows
}

// A Gap is an execution without a complete answer during the recording. The version
// before it remains valid.
type Gap struct {
	Rev     int    `json:"rev"`
	Query   int    `json:"id"`
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
}

// ErrInvalid is wrapped by errors about invalid traces.
var ErrInvalid = errors.New("bad trace")

func wrong(place, format string, a ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrInvalid, place, fmt.Sprintf(format, a...))
}

// Seal checks a trace that was built in memory and prepares it for use. It drops
// versions that repeat the one before, because they are no change.
func (t *Trace) Seal() error {
	if err := t.checkTimes(); err != nil {
		return err
	}
	if t.Features != nil && len(t.Features) != t.Queries {
		return wrong("features", "%d lists for %d queries", len(t.Features), t.Queries)
	}
	if t.Templates != nil && len(t.Templates) != t.Queries {
		return wrong("templates", "%d for %d queries", len(t.Templates), t.Queries)
	}
	if n := slices.IndexFunc(t.Templates, func(n int) bool { return n < 0 }); n >= 0 {
		return wrong(fmt.Sprintf("templates[%d]", n), "%d: templates are numbered from 1, and 0 is none", t.Templates[n])
	}
	if c := t.MergeCost; !(min(c.Request, c.Values, c.Probe) >= 0) {
		return wrong("merge_cost", "it must not be negative")
	}
	slices.SortStableFunc(t.Series, func(a, b Series) int { return cmp.Compare(a.Query, b.Query) })
	for i := range t.Series {
		s := &t.Series[i]
		if s.Query < 0 || s.Query >= t.Queries {
			return wrong("changes", "id %d: the queries are 0 to %d", s.Query, t.Queries-1)
		}
		if i > 0 && t.Series[i-1].Query == s.Query {
			return wrong("changes", "id %d has two entries", s.Query)
		}
		if err := t.sealSeries(s); err != nil {
			return err
		}
	}
	slices.SortFunc(t.Gaps, func(a, b Gap) int { return cmp.Or(cmp.Compare(a.Rev, b.Rev), cmp.Compare(a.Query, b.Query)) })
	for i, g := range t.Gaps {
		if g.Rev < 0 || g.Rev > t.Revisions || g.Query < 0 || g.Query >= t.Queries {
			return wrong(fmt.Sprintf("gaps[%d]", i), "revision %d, id %d: there is no such execution", g.Rev, g.Query)
		}
	}
	return nil
}

func (t *Trace) checkTimes() error {
	if t.Queries < 0 || t.Revisions < 0 || t.Queries > math.MaxInt32 || t.Revisions > math.MaxInt32 {
		return wrong("queries, revisions", "%d and %d are not counts", t.Queries, t.Revisions)
	}
	if len(t.Times) != t.Revisions+1 {
		return wrong("exec_ms", "%d rows, want %d: t0 and %d revisions", len(t.Times), t.Revisions+1, t.Revisions)
	}
	for i, row := range t.Times {
		if len(row) != t.Queries {
			return wrong(fmt.Sprintf("exec_ms[%d]", i), "%d times for %d queries", len(row), t.Queries)
		}
		for q, ms := range row {
			if ms < 0 {
				return wrong(fmt.Sprintf("exec_ms[%d][%d]", i, q), "%d ms: no execution takes less than nothing", ms)
			}
		}
	}
	return nil
}

func (t *Trace) sealSeries(s *Series) error {
	first := map[string]int{}
	kept := s.Versions[:0:0]
	for i, v := range s.Versions {
		place := fmt.Sprintf("changes, id %d, versions[%d]", s.Query, i-1)
		switch {
		case i == 0 && v.Rev != 0:
			return wrong(place, "the first version is that of t0")
		case i > 0 && (v.Rev < 1 || v.Rev > t.Revisions):
			return wrong(place, "rev %d: the revisions are 1 to %d", v.Rev, t.Revisions)
		case i > 0 && v.Rev <= s.Versions[i-1].Rev:
			return wrong(place, "rev %d does not come after rev %d", v.Rev, s.Versions[i-1].Rev)
		}
		if !t.Ordered && !slices.IsSorted(v.Rows) {
			v.Rows = slices.Sorted(slices.Values(v.Rows))
		}
		key := rowsKey(v.Rows)
		if _, seen := first[key]; !seen {
			first[key] = len(kept)
		}
		v.same = first[key]
		if n := len(kept); n > 0 && kept[n-1].same == v.same {
			continue
		}
		kept = append(kept, v)
	}
	s.Versions = kept
	return nil
}

// rowsKey returns a key that only equal lists share.
func rowsKey(rows []int64) string {
	b := make([]byte, 0, 8*len(rows))
	for _, r := range rows {
		for k := range 8 {
			b = append(b, byte(r>>(8*k)))
		}
	}
	return string(b)
}

// Same reports whether two versions of one series have the same rows.
func (v Version) Same(o Version) bool { return v.same == o.same }

// Sum returns 16 digits that another content would not have.
func (t *Trace) Sum() string {
	h := sha256.New()
	w := bufio.NewWriterSize(h, 1<<16)
	// Neither a hash nor JSON of numbers and strings fails.
	_ = json.NewEncoder(w).Encode([]any{t.Queries, t.Revisions, t.Ordered, t.Series, t.Features, t.Gaps, t.Templates, t.MergeCost})
	for _, times := range t.Times {
		_ = binary.Write(w, binary.LittleEndian, times)
	}
	_ = w.Flush()
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Changes counts all changes of the trace.
func (t *Trace) Changes() (n int) {
	for _, s := range t.Series {
		n += max(0, len(s.Versions)-1)
	}
	return n
}

// At returns the index of the version that holds in a revision.
func (s *Series) At(rev int) int {
	return max(0, upper(s.Versions, rev)-1)
}

// Between returns the versions that hold in two revisions, of which the first is not later.
func (s *Series) Between(first, second int) (was, now *Version) {
	const few = 4 // most results have not changed, or not often
	i := s.At(first)
	was = &s.Versions[i]
	for range few {
		if i+1 == len(s.Versions) || s.Versions[i+1].Rev > second {
			return was, &s.Versions[i]
		}
		i++
	}
	return was, &s.Versions[s.At(second)]
}

// upper returns the number of versions up to and including a revision.
func upper(list []Version, rev int) int {
	return sort.Search(len(list), func(i int) bool { return list[i].Rev > rev })
}
