package diff_test

import (
	"errors"
	"testing"

	"github.com/freshet/freshet/diff"
)

// Reading, labelling and comparing end soon after they are told to.
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
