package diff_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/freshet/freshet/diff"
)

// Reading, labelling and comparing end soon after stop returns an error.
func TestStop(t *testing.T) {
	enough := errors.New("enough")
	for name, h := range hostileGraphs {
		vars, rows := h.rows(20 * h.least) // some megabytes
		if name == "a complete graph" {
			vars, rows = h.rows(100)
		}
		asked := 0
		o := h.options
		o.Stop = func() error {
			if asked++; asked < 3 {
				return nil
			}
			return enough
		}
		b := diff.NewBuilder(h.form, o)
		if h.form == diff.Select {
			if err := b.SetVars(vars); err != nil {
				t.Fatal(err)
			}
		}
		for _, row := range rows {
			if h.form == diff.Select {
				_ = b.Row(row...)
			} else {
				_ = b.Triple(row[0], row[1], row[2])
			}
		}
		if _, err := b.Finish(); !errors.Is(err, enough) || asked != 3 {
			t.Errorf("%s: ended with %v, asked %d times", name, err, asked)
		}
	}
	many := func(term string) *diff.Result {
		var rows [][]diff.Term
		for range 100_000 {
			rows = append(rows, []diff.Term{resource("%s", term)})
		}
		return build(t, hostile{form: diff.Select}, []string{"v"}, rows)
	}
	a, b := many("a"), many("b")
	for last := 1; ; last++ {
		asked := 0
		_, err := diff.CompareUntil(func() error {
			if asked++; asked < last {
				return nil
			}
			return enough
		}, a, b)
		if err == nil {
			if asked < 8 {
				t.Errorf("a comparison asks only %d times", asked)
			}
			break
		}
		if !errors.Is(err, enough) || asked != last {
			t.Errorf("a comparison told to end at question %d: %v after %d", last, err, asked)
		}
	}
}

func TestColumnLimit(t *testing.T) {
	b := diff.NewBuilder(diff.Select, diff.Options{MaxVars: 2})
	if err := b.SetVars([]string{"a", "b", "c"}); !errors.Is(err, diff.ErrColumnLimit) {
		t.Errorf("three columns of two: %v", err)
	}
	for body, want := range map[string]error{
		`{"head":{"vars":["a","b"]},"results":{"bindings":[]}}`:     nil,
		`{"head":{"vars":["a","b","c"]},"results":{"bindings":[]}}`: diff.ErrColumnLimit,
	} {
		if _, err := diff.DecodeJSON([]byte(body), diff.Select, diff.Options{MaxVars: 2}); !errors.Is(err, want) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// Results and deltas are written in pieces, and writing ends with the writer's error.
func TestWriteTo(t *testing.T) {
	full := errors.New("full")
	for _, ordered := range []bool{false, true} {
		old := diff.NewBuilder(diff.Select, diff.Options{Ordered: ordered})
		now := diff.NewBuilder(diff.Select, diff.Options{Ordered: ordered})
		for i, b := range []*diff.Builder{old, now} {
			if err := b.SetVars([]string{"v"}); err != nil {
				t.Fatal(err)
			}
			for n := range 60_000 {
				if err := b.Row(resource("http://example.org/%d/%d", i, n)); err != nil {
					t.Fatal(err)
				}
			}
		}
		a, err := old.Finish()
		b, err2 := now.Finish()
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		d := diff.Compare(a, b)
		binary, err := d.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			from io.WriterTo
			want []byte
		}{"result": {b, b.Document()}, "delta": {d, binary}} {
			all := &pieces{left: 1 << 30}
			n, err := c.from.WriteTo(all)
			if err != nil || n != int64(len(c.want)) || !bytes.Equal(all.got, c.want) {
				t.Errorf("%s, ordered %v: %d bytes written, %v; want %d", name, ordered, n, err, len(c.want))
			}
			if all.longest > 1<<20+1<<10 {
				t.Errorf("%s, ordered %v: a piece of %d bytes", name, ordered, all.longest)
			}
			some := &pieces{left: 2, full: full}
			if n, err := c.from.WriteTo(some); !errors.Is(err, full) || n != int64(len(some.got)) || some.left != -1 {
				t.Errorf("%s, ordered %v: %d bytes written of %d, %v, and %d pieces after the error", name, ordered, n, len(some.got), err,
					-1-some.left)
			}
		}
	}
}

// pieces accepts a few pieces and then returns an error.
type pieces struct {
	got     []byte
	longest int
	left    int
	full    error
}

func (p *pieces) Write(b []byte) (int, error) {
	if p.left--; p.left < 0 {
		return 0, p.full
	}
	p.got, p.longest = append(p.got, b...), max(p.longest, len(b))
	return len(b), nil
}
