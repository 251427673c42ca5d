package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	source "github.com/freshet/freshet/endpoint/feed"
	"github.com/freshet/freshet/endpoint/formats"
	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/endpoint/local/localtest"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler/proof"
)

const (
	proofRounds     = 55 // each has data, queries and updates of its own
	queriesInRound  = 40
	updatesInRound  = 20
	slowest         = 2 * time.Second // of queries that are compared
	leastProofs     = 5000            // of proofRounds
	leastByResult   = 250             // of them, those that need the result
	mostFalseProofs = 10              // that are reported
)

// proofsNumber is a number from the environment.
func proofsNumber(t *testing.T, name string, usual int) int {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return usual
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// What is proved not to change does not change at the engine, for random data, queries and updates. FRESHET_PROOFS_SEED
// draws others, and FRESHET_PROOFS_ROUNDS sets their number.
func TestLongProofsAgreeWithEngine(t *testing.T) {
	seed, rounds := proofsNumber(t, "FRESHET_PROOFS_SEED", 1), proofsNumber(t, "FRESHET_PROOFS_ROUNDS", proofRounds)
	t.Logf("FRESHET_PROOFS_SEED=%d FRESHET_PROOFS_ROUNDS=%d", seed, rounds)
	c := &comparison{t: t, engine: localtest.Open(t), log: newPatches(t)}
	for c.round = range rounds {
		c.gen, c.slow = &gen{Rand: rand.New(rand.NewPCG(uint64(seed), uint64(c.round)))}, false
		c.load()
		c.watch()
		for n := 0; n < updatesInRound && !c.slow; n++ {
			c.update()
		}
	}
	t.Logf("%d proofs, %d of them by the result; %d queries, %d of them cannot be proved, and %d fail or are slow",
		c.proofs, c.byResult, rounds*queriesInRound, c.unprovable, c.failed)
	if rounds >= proofRounds && (c.proofs < leastProofs || c.byResult < leastByResult) {
		t.Error("too little is proved, so little was compared")
	}
}

// A comparison compares proofs with what the engine answers before and after an update.
type comparison struct {
	*gen
	t       *testing.T
	engine  *local.Engine
	log     *patches
	round   int
	quads   []quad // of the round, some of which are deleted
	watched []*watched
	matcher *proof.Matcher
	slow    bool // a query took too long

	proofs, byResult, unprovable, failed, falseProofs int
}

// A watched is a query and what the server knows of it.
type watched struct {
	text            string
	form            diff.Form
	options         diff.Options
	defaults, named []string // graphs of the request
	patterns        []sparql.Pattern
	narrow          []sparql.Narrow
	result          *diff.Result // nil if the query failed
	evenEmpty       bool         // compare it if the first result is empty, too
}

func (c *comparison) run(update string) {
	c.t.Helper()
	if err := c.engine.Update(c.t.Context(), update); err != nil {
		c.t.Fatal(update, err)
	}
}

// load draws the data of a round.
func (c *comparison) load() {
	c.newTerms()
	c.quads = nil
	var data []string
	for range 10 + c.IntN(40) {
		q := c.quad()
		c.quads, data = append(c.quads, q), append(data, q.turtle())
	}
	for range c.IntN(3) {
		data = append(data, fmt.Sprintf("_:b%d <http://x/p%d> %s .", c.IntN(2), c.IntN(3), c.pick("_:b0", "_:b1", c.term(c.nodes).data)))
	}
	c.run("CLEAR ALL; INSERT DATA { " + strings.Join(data, "\n") + " }")
}

// watch draws the queries of a round. Most empty results stay empty, so a part of them is enough.
func (c *comparison) watch() {
	c.watched, c.matcher = nil, proof.NewMatcher()
	for range queriesInRound {
		w := c.draw()
		if w == nil {
			continue
		}
		if why := sparql.Unprovable(w.text, w.options.Ordered); why != "" {
			c.unprovable++
			continue
		}
		if w.result = c.ask(w); w.result == nil || w.result.Len() == 0 && !w.evenEmpty {
			continue
		}
		w.patterns, _ = sparql.Patterns(w.text)
		w.narrow = sparql.Narrowed(w.text)
		c.matcher.Put(strconv.Itoa(len(c.watched)), w.patterns)
		c.watched = append(c.watched, w)
	}
}

// draw returns a query, or nil if it is none that can be registered.
func (c *comparison) draw() *watched {
	w := &watched{text: c.query(), evenEmpty: c.p(40)}
	graphs := func() []string {
		if c.p(10) {
			return []string{c.pick("http://x/g", "http://x/h")}
		}
		return nil
	}
	w.defaults, w.named = graphs(), graphs()
	unordered := c.p(20) // as a registration may say
	a, err := sparql.Analyse(w.text)
	if err != nil {
		c.failed++
		return nil
	}
	w.form = diff.Form(a.Form)
	w.options = diff.Options{Ordered: a.Ordered && w.form == diff.Select && !unordered, OrderKeys: a.OrderKeys}
	return w
}

// ask returns the result of a query, or nil if the engine refuses it, as some that are drawn. A query that takes too long
// ends the round, because the engine then starts again and gives other names to blank nodes. The next round draws the same.
func (c *comparison) ask(w *watched) *diff.Result {
	ctx, cancel := context.WithTimeout(c.t.Context(), slowest)
	defer cancel()
	format, as := formats.JSON, "json"
	if w.form != diff.Select && w.form != diff.Ask {
		format, as = formats.NTriples, "nt"
	}
	body, err := c.engine.Query(ctx, w.text, as, w.defaults, w.named)
	if err != nil {
		c.failed++
		c.slow = c.slow || ctx.Err() != nil
		return nil
	}
	r, _, err := formats.Decode(format, body, w.form, w.options)
	if err != nil {
		c.failed++
		return nil
	}
	return r
}

// update draws an update and compares the queries that it is proved not to change. The server reads it from a patch.
func (c *comparison) update() {
	var updates []string
	rows := c.pick("PA x: <http://x/> .\n", "PA \"x\" \"http://x/\" .\n")
	for range 1 + c.IntN(2) {
		q, add := c.quad(), c.p(50)
		if !add && c.p(80) {
			q = c.quads[c.IntN(len(c.quads))]
		}
		c.quads = append(c.quads, q)
		word, letter := "DELETE", "D "
		if add {
			word, letter = "INSERT", "A "
		}
		updates = append(updates, word+" DATA { "+q.turtle()+" }")
		rows += letter + c.row(q) + "\n"
	}
	e := c.log.publish(c.t, rows)
	c.run(strings.Join(updates, "; "))
	reached := map[string]feed.Reach{}
	c.matcher.Reach(e, func(id string, how feed.Reach) { reached[id] = how })
	for i, w := range c.watched {
		how := reached[strconv.Itoa(i)]
		if how != e.Reach(w.patterns) {
			c.t.Errorf("round %d: the matcher says %v of %s, whose patterns are %+v, and of\n%s", c.round, how, w.text, w.patterns, rows)
		}
		c.compare(w, e, how, rows)
	}
}

// compare asks a query after an update.
func (c *comparison) compare(w *watched, e *feed.Event, how feed.Reach, rows string) {
	was, by := w.result, "patterns"
	w.result = c.ask(w)
	if was == nil || w.result == nil || c.slow {
		return
	}
	if how != feed.None && w.narrow != nil {
		by = "result"
		if added, removed := narrowBy(w.narrow, was); added != nil {
			how = e.ReachNarrowed(added, removed)
		}
	}
	if how != feed.None {
		return
	}
	if c.proofs++; by == "result" {
		c.byResult++
	}
	if before, now := string(was.Document()), string(w.result.Document()); before != now {
		c.t.Errorf("round %d: a false proof by the %s of\n%s\nordered %t, default graphs %v, named graphs %v\n"+
			"patterns %+v\nupdate\n%sbefore %s\nnow    %s",
			c.round, by, w.text, w.options.Ordered, w.defaults, w.named, w.patterns, rows, before, now)
		if c.falseProofs++; c.falseProofs == mostFalseProofs {
			c.t.FailNow()
		}
	}
}

// patches is a log of patches with its reader.
type patches struct {
	source  feed.Source
	cursor  string
	version int
	text    string // of the last patch
}

func newPatches(t *testing.T) *patches {
	t.Helper()
	p := &patches{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("version") != strconv.Itoa(p.version) {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, p.text)
	}))
	t.Cleanup(server.Close)
	var err error
	d := feed.Definition{Kind: feed.RDFPatch, URL: server.URL, Since: time.Unix(0, 0)}
	if p.source, err = source.Open(d, source.Options{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// publish publishes a patch, and returns what the reader makes of it.
func (p *patches) publish(t *testing.T, rows string) (e *feed.Event) {
	t.Helper()
	previous := ""
	if p.version > 0 {
		previous = fmt.Sprintf("H prev <uuid:%d> .\n", p.version)
	}
	p.version++
	p.text = fmt.Sprintf("H id <uuid:%d> .\n%sTX .\n%sTC .\n", p.version, previous, rows)
	read := errors.New("read")
	err := p.source.Follow(t.Context(), p.cursor, func(b feed.Batch) error {
		if len(b.Events) != 1 || b.Gap != "" {
			return fmt.Errorf("%d events, gap %q", len(b.Events), b.Gap)
		}
		e, p.cursor = &b.Events[0], b.Cursor
		return read
	})
	if !errors.Is(err, read) {
		t.Fatal(err, p.text)
	}
	return e
}
