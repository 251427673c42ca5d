package cursor

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/diff/growth"
	"github.com/freshet/freshet/registry"
)

func filterOf(t testing.TB, s string) *Filter {
	t.Helper()
	f, err := ParseFilter(json.RawMessage(s))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func tableOf(t testing.TB, values []string) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	if err := b.SetVars([]string{"s"}); err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if err := b.Row(diff.Term{Kind: diff.Literal, Value: v}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A bound never withholds a change that the exact sum lets through, for any sequence of
// changes.
func TestBoundsNeverHoldBackWhatPasses(t *testing.T) {
	filters := []string{`{"min_rows":4}`, `{"min_jaccard":0.4}`, `{"min_jaccard":0.5,"min_rows":3}`,
		`{"where":[{"var":"s","op":"contains","value":"a"}]}`, `{"min_rows":2,"where":[{"var":"s","op":"contains","value":"a"}]}`}
	short, passed := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 3))
		f := filterOf(t, filters[seed%uint64(len(filters))])
		have := draw(t, r)
		var sum *diff.Delta
		var b bound
		for range 12 {
			next := draw(t, r)
			d := diff.Compare(have, next)
			if have = next; d == nil {
				continue
			}
			b.add(f, d)
			var err error
			if sum, err = diff.Compose(sum, d); err != nil {
				t.Fatal(err)
			}
			left := f.Delta(sum)
			if b.fails(f) {
				if short++; f.Passes(left) {
					t.Fatalf("seed %d: a sum that passes is called too little: %+v", seed, b)
				}
			} else if b = boundOf(f, sum, left); f.Passes(left) {
				passed++
				sum, b = nil, bound{}
			}
		}
	}
	if short < 100 || passed < 100 {
		t.Errorf("%d were short and %d passed: the test shows little", short, passed)
	}
}

// draw returns a small random result. A few of its values contain an a.
func draw(t testing.TB, r *rand.Rand) *diff.Result {
	var values []string
	for i := range 8 {
		if r.IntN(4) > 0 {
			values = append(values, fmt.Sprint([]string{"a", "b", "c"}[i%3], i))
		}
	}
	return tableOf(t, values)
}

// A growingLog is the log of one query with a given number of changes. It counts the
// changes that are read.
type growingLog struct {
	Log
	changes []registry.Change
	came    int
	read    int
}

func (l *growingLog) After(_ string, p registry.Position, limit int) ([]registry.Change, error) {
	page := l.changes[p.Seq-1 : min(l.came, int(p.Seq)-1+limit)]
	l.read += len(page)
	return page, nil
}

// flickering returns a log of n changes after a first one that is too large to keep. Each
// adds a row or removes it again.
func flickering(t testing.TB, n int) *growingLog {
	var many []string
	for i := range 20_000 {
		many = append(many, fmt.Sprint("b", i))
	}
	return alternating(tableOf(t, many[:10_000]), tableOf(t, many), tableOf(t, append(many, "b")), n)
}

// alternating returns a log of n changes of a result, to one and the other of two others in turn.
func alternating(have, one, two *diff.Result, n int) *growingLog {
	l := &growingLog{}
	for i := range n {
		next := one
		if i%2 == 1 {
			next = two
		}
		l.changes = append(l.changes, registry.Change{Query: "q", Epoch: "e", Prev: uint64(i + 1), Seq: uint64(i + 2),
			Delta: diff.Compare(have, next)})
		have = next
	}
	return l
}

// Changes that a filter withholds for long are not added up from the log again at each
// change, however large they are.
func TestLongHoldsAreNotQuadratic(t *testing.T) {
	for name, spelling := range map[string]string{
		"rows":    `{"min_rows":1000000}`,
		"jaccard": `{"min_jaccard":0.99}`,
		"where":   `{"where":[{"var":"s","op":"contains","value":"none"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			growth.Check(t, growth.Sizes(250, func(n int) growth.Input {
				log := flickering(t, n)
				f := filterOf(t, spelling)
				return growth.Input{Size: n, Work: func() {
					log.read, log.came = 0, 0
					c := Cursor{Query: "q", Filter: f, Rules: &Rules{}}
					c.Jump(registry.Position{Epoch: "e", Seq: 1})
					r := &Reader{Log: log}
					for log.came < n {
						log.came++
						if ev, err := c.Next(context.Background(), r, registry.Position{Epoch: "e", Seq: uint64(log.came + 1)},
							time.Time{}); err != nil || ev.Kind != Wait {
							t.Fatalf("%+v %v", ev, err)
						}
					}
					if c.pending == nil || c.Seen().Seq != uint64(n+1) || c.pending.kept {
						t.Fatalf("after %d changes: %+v", n, c.pending)
					}
					if log.read > n {
						t.Fatalf("%d changes were read for %d", log.read, n)
					}
				}}
			})...)
		})
	}
}

// Cursors that are made again at each step do not read again what a filter withholds, nor do others from the same position.
func TestLongHoldsAreRemembered(t *testing.T) {
	for name, filter := range map[string]*Filter{
		"few rows":  filterOf(t, `{"min_rows":5}`),
		"many rows": filterOf(t, `{"min_rows":1000000}`),
	} {
		t.Run(name, func(t *testing.T) {
			const n = 200
			log := flickering(t, n)
			if name == "few rows" {
				log = alternating(tableOf(t, nil), tableOf(t, []string{"a"}), tableOf(t, []string{"a", "b"}), n)
			}
			r := &Reader{Log: log, Memory: NewMemory()}
			for log.came < len(log.changes) {
				log.came++
				at := registry.Position{Epoch: "e", Seq: uint64(log.came + 1)}
				for range 3 {
					c := Cursor{Query: "q", Filter: filter, Rules: &Rules{}}
					c.Jump(registry.Position{Epoch: "e", Seq: 1})
					if ev, err := c.Next(context.Background(), r, at, time.Time{}); err != nil || ev.Kind != Wait || c.Seen() != at {
						t.Fatalf("%+v %v, seen %s", ev, err, c.Seen())
					}
				}
				m := MultiCursor{Filter: filter, Stored: true}
				m.held = map[string]*held{"q": {base: registry.Position{Epoch: "e", Seq: 1}, fresh: true,
					last: registry.Change{Query: "q", Epoch: "e", Seq: at.Seq}}}
				if ev, err := m.compare(context.Background(), r, m.held["q"], false); err != nil || ev.Kind != Wait || len(m.held) != 1 {
					t.Fatalf("%+v %v", ev, err)
				}
			}
			if log.read > 2*n {
				t.Errorf("%d changes were read for %d", log.read, n)
			}
		})
	}
}

// What is remembered is bounded, and what was used last is kept.
func TestMemoryIsBounded(t *testing.T) {
	m, f := NewMemory(), filterOf(t, `{"min_rows":5}`)
	large := &pending{kept: true, net: diff.Compare(nil, tableOf(t, []string{strings.Repeat("x", 60<<10)}))}
	first := registry.Position{Epoch: "e", Seq: 1}
	m.keep("q", first, f, large)
	const room, came = keepMemory / (60 << 10), 2 * keepMemory / (60 << 10)
	for i := range came {
		m.keep("q", registry.Position{Epoch: "e", Seq: uint64(i + 2)}, f, large)
		if m.of("q", first, f) == nil {
			t.Fatalf("forgotten after %d others", i)
		}
	}
	n := 0
	for i := range came {
		if m.of("q", registry.Position{Epoch: "e", Seq: uint64(i + 2)}, f) != nil {
			n++
		}
	}
	if n > room {
		t.Errorf("%d are kept", n)
	}
}
