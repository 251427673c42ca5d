package merge

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/local"
)

var (
	seed = flag.Uint64("merge.seed", 1, "seed of the random queries")
	goal = flag.Int("merge.answers", 5000, "how many answers of merged queries to compare")
)

// errRefused means that the endpoint answered with an error: a request that is
// too long for it, or a fault of its compiler.
var errRefused = errors.New("refused")

// A tally counts compared answers.
type tally struct {
	compared        int // answers of merged queries that were compared with the answer of the query alone
	filled          int // those with rows
	undecided       int // members that must be asked alone, because of ties or floating-point sums
	probed          int // digests that were compared
	refused         int // merged requests that the endpoint refused: they say nothing
	singles, merged int // requests
	templates       int
	found           []string // differences
	doubts          []string // digests that are not those of the results: the members would be asked in full
}

func (n *tally) String() string {
	return fmt.Sprintf("%d answers of merged queries compared (%d with rows, %d left undecided) and %d digests, of %d "+
		"templates: %d requests for one query, %d for several (%d refused); %d answers and %d digests differ",
		n.compared, n.filled, n.undecided, n.probed, n.templates, n.singles, n.merged, n.refused, len(n.found), len(n.doubts))
}

func (n *tally) differs(format string, a ...any) {
	n.found = append(n.found, fmt.Sprintf(format, a...))
}

// maxRows bounds the work on one cohort: cross products of random patterns can
// be large.
const maxRows = 1000

// compare asks each member of a cohort alone, and then in several groups by each kind: all
// together, in two halves, and in small groups. A query that the engine refuses
// ends the comparison, because the generator does not know the whole grammar.
func (c *cohort) compare(ask asker, r *rand.Rand, n *tally) {
	singles, rows := make([]*diff.Result, len(c.texts)), 0
	for i, text := range c.texts {
		n.singles++
		o := diff.Options{Ordered: c.template.Ordered, OrderKeys: c.template.OrderKeys}
		var err error
		if singles[i], err = ask(text, c.template.Form, o); errors.Is(err, errRefused) {
			return
		} else if err != nil {
			n.differs("%v for %s", err, text)
			return
		}
		if rows += singles[i].Len(); rows > maxRows {
			return
		}
	}
	n.templates++
	all := r.Perm(len(c.texts))
	c.probe(ask, singles, n)
	for _, size := range []int{len(all), (len(all) + 1) / 2, 2 + r.IntN(6)} {
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for from := 0; from < len(all); from += size {
			which := all[from:min(from+size, len(all))]
			c.group(ask, singles, which, n)
		}
	}
}

// group asks some members together.
func (c *cohort) group(ask asker, singles []*diff.Result, which []int, n *tally) {
	n.merged++
	members := make([][]string, len(which))
	for k, i := range which {
		members[k] = c.members[i]
	}
	text := c.template.Query(members)
	merged, err := ask(text, diff.Select, diff.Options{Ordered: c.template.Ordered, KeepLabels: true})
	if errors.Is(err, errRefused) {
		n.refused++
		return
	}
	if err != nil {
		n.differs("%v for %s", err, text)
		return
	}
	answers, err := c.template.Split(merged, members, func(m int) diff.Options { return diff.Options{Vars: singles[which[m]].Vars()} })
	if err != nil {
		n.differs("%v for %s", err, text)
		return
	}
	for k, a := range answers {
		alone := singles[which[k]]
		if errors.Is(a.Err, ErrInexact) || errors.Is(a.Err, ErrTies) || errors.Is(a.Err, ErrSpelling) {
			n.undecided++
			continue
		}
		n.compared++
		if alone.Len() > 0 {
			n.filled++
		}
		if a.Err != nil || diff.Compare(alone, a.Result) != nil || a.Result.Hash() != alone.Hash() {
			n.differs("%s\nmerged as %s\nanswers %v %s\ninstead of %s", c.texts[which[k]], text, a.Err, a.Result.Document(), alone.Document())
		}
	}
}

// probe asks for the digests of a cohort. A digest that is not that of the result is a
// doubt, because the member would be asked in full. It is a difference if it is the digest
// of another result, which a probe could confirm by mistake.
func (c *cohort) probe(ask asker, singles []*diff.Result, n *tally) {
	if !c.template.Probes() {
		return
	}
	n.merged++
	text := c.template.Probe(c.members, "SALT")
	answer, err := ask(text, diff.Select, diff.Options{})
	if errors.Is(err, errRefused) {
		n.refused++
		return
	}
	if err != nil {
		n.differs("%v for %s", err, text)
		return
	}
	digests, known, err := c.template.Digests(answer, len(c.members))
	if err != nil {
		n.differs("%v for %s", err, text)
		return
	}
	real := map[Digest]bool{{}: true} // digests of results
	for _, r := range singles {
		d, _ := c.template.Digest(r, "SALT")
		real[d] = true
	}
	for i, r := range singles {
		n.probed++
		want, ok := c.template.Digest(r, "SALT")
		if ok != known[i] || ok && want != digests[i] {
			if known[i] && real[digests[i]] {
				n.differs("%s\nprobed as %s\nhas the digest of another result, %v instead of %v for %s", c.texts[i], text, digests[i], want,
					r.Document())
			}
			n.doubts = append(n.doubts, fmt.Sprintf("%s\nprobed as %s\ndigest %v %v\ninstead of %v %v for %s", c.texts[i], text,
				digests[i], known[i], want, ok, r.Document()))
		}
	}
}

// queriesPerRound is how many random queries are asked over the same data.
const queriesPerRound = 100

// random compares random queries over random data until that many answers were
// compared. load replaces the data. What round i asks depends on the seed and i
// only.
func (n *tally) random(t *testing.T, ask asker, load func(data string), answers int) {
	t.Helper()
	for round := uint64(0); n.compared < answers && len(n.found) == 0; round++ {
		load(randomData(rand.New(rand.NewPCG(*seed, round<<8))))
		for k := range uint64(queriesPerRound) {
			r := rand.New(rand.NewPCG(*seed, round<<8|(k+1)))
			texts := randomQueries(r, 40)
			if first, _ := cohorts(t, texts[:1], ""); len(first) == 0 {
				continue // so are nearly all others
			}
			list, _ := cohorts(t, texts, "")
			for _, c := range list {
				groups := rand.New(rand.NewPCG(*seed, r.Uint64()))
				if len(c.members) > 1 {
					c.compare(ask, groups, n)
				}
			}
		}
		if round%100 == 99 {
			t.Logf("seed %d, %d rounds: %s", *seed, round+1, n)
		}
	}
}

// report fails the test if any answer differs.
func (n *tally) report(t *testing.T) {
	t.Helper()
	t.Logf("seed %d: %s", *seed, n)
	if len(n.doubts) > 0 {
		t.Logf("the first doubt:\n%s", n.doubts[0])
	}
	for i, f := range n.found {
		if i < 20 {
			t.Errorf("difference %d:\n%s", i+1, f)
		}
	}
}

const graphName = "http://x/g"

// update replaces the data of an embedded engine.
func update(t *testing.T, e *local.Engine) func(data string) {
	return func(data string) {
		if err := e.Update(context.Background(), "CLEAR ALL; INSERT DATA {"+data+" GRAPH <"+graphName+"> {"+data+"} }"); err != nil {
			t.Fatal(err)
		}
	}
}

// Random queries over random data have the same answers merged and alone. With
// -merge.answers 1000000 it takes some hours.
func TestLongExact(t *testing.T) {
	e := engine(t, "")
	n := &tally{}
	n.random(t, ask(e), update(t, e), *goal)
	n.report(t)
	if len(n.doubts) > 0 || n.compared < *goal || n.filled < n.compared/5 || n.refused > 0 {
		t.Errorf("%d answers compared, %d of them with rows; %d requests refused; %d wrong digests", n.compared, n.filled, n.refused,
			len(n.doubts))
	}
}
