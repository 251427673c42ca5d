package registry

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
)

func TestSpan(t *testing.T) {
	for text, want := range map[string]Span{"10m": {Time: 10 * time.Minute}, "3 slots": {Slots: 3}, "1 slot": {Slots: 1},
		"7slots": {Slots: 7}, "0s": {}} {
		var s Span
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%q reads as %+v, %v", text, s, err)
		}
		var again Span
		if err := again.UnmarshalText([]byte(s.String())); err != nil || again != s {
			t.Errorf("%q does not read back: %+v, %v", s, again, err)
		}
	}
	for _, bad := range []string{"", "10", "slots", "0 slots", "-3 slots", "-5m", "1.5 slots", "90000000h", "99999999999 slots"} {
		if err := new(Span).UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	if err := json.Unmarshal([]byte(`{"every":5}`), new(When)); err == nil {
		t.Error("a number is taken for a span")
	}
}

func TestWhen(t *testing.T) {
	for text, want := range map[string]string{
		`"predicted"`: `{"predicted":true}`, `{"predicted":true,"within":"4m"}`: `{"predicted":true,"within":"4m0s"}`,
		`{"every":"5m","slack":"1m"}`: `{"every":"5m0s","slack":"1m0s"}`, `{"changed":"q"}`: `{"changed":"q"}`,
	} {
		var w When
		if err := json.Unmarshal([]byte(text), &w); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got, _ := json.Marshal(w); string(got) != want {
			t.Errorf("%s is written as %s", text, got)
		}
	}
	for _, bad := range []string{`"always"`, `{"often":true}`, `7`} {
		if err := json.Unmarshal([]byte(bad), new(When)); err == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

func TestCondition(t *testing.T) {
	term := func(s string) diff.Term { return diff.Term{Kind: diff.Literal, Value: s} }
	for _, c := range []struct {
		op    string
		value any
		term  diff.Term
		meets bool
	}{
		{"=", "10", term("10.0"), true}, // both are numbers
		{"=", "x", term("x"), true}, {"!=", "x", term("x"), false},
		{">=", 5.0, term("12"), true}, {"<", 5.0, term("12"), false}, {"<", "b", term("a"), true},
		{"contains", "oil", term("crude oil"), true}, {"starts", "oil", term("crude oil"), false},
		{"=", true, term("true"), true}, {"=", 1.0, term("true"), false},
		{"=", "x", diff.Term{}, false}, {"!=", "x", diff.Term{}, false}, // unbound meets nothing
		{"=", "http://x/a", diff.Term{Kind: diff.IRI, Value: "http://x/a"}, true},
	} {
		x := Condition{Var: "v", Op: c.op, Value: c.value}
		if err := x.Check(); err != nil || x.Meets(c.term) != c.meets {
			t.Errorf("%v %s %v: %v, %v", c.term.Value, c.op, c.value, x.Meets(c.term), err)
		}
	}
	for _, bad := range []Condition{{Op: "like", Value: "x"}, {Op: "="}, {Op: "=", Value: []any{}}} {
		if bad.Check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// A single row has to meet all conditions.
func TestAdded(t *testing.T) {
	result := func(rows ...[2]string) *diff.Result {
		b := diff.NewBuilder(diff.Select, diff.Options{})
		if err := b.SetVars([]string{"s", "n"}); err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			if err := b.Row(diff.Term{Kind: diff.Literal, Value: r[0]}, diff.Term{Kind: diff.Literal, Value: r[1]}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	d := diff.Compare(result([2]string{"old", "9"}), result([2]string{"oil", "1"}, [2]string{"gas", "7"}))
	oil, many := Condition{"s", "=", "oil"}, Condition{"n", ">", 5.0}
	for _, c := range []struct {
		where []Condition
		want  bool
	}{{nil, true}, {[]Condition{oil}, true}, {[]Condition{many}, true}, {[]Condition{oil, many}, false},
		{[]Condition{{"s", "=", "old"}}, false}, {[]Condition{{"x", "=", "oil"}}, false}} {
		if got := Added(d, c.where); got != c.want {
			t.Errorf("%v: %v", c.where, got)
		}
	}
	answer := func(v bool) *diff.Result {
		b := diff.NewBuilder(diff.Ask, diff.Options{})
		if err := b.SetBoolean(v); err != nil {
			t.Fatal(err)
		}
		r, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	closed := diff.Compare(answer(true), answer(false))
	if !Added(closed, []Condition{{AskVar, "=", false}}) || Added(closed, []Condition{{AskVar, "=", "true"}}) {
		t.Error("the answer of an ASK query is its row")
	}
	b := diff.NewBuilder(diff.Construct, diff.Options{})
	if err := b.Triple(diff.Term{Kind: diff.IRI, Value: "http://x/a"}, diff.Term{Kind: diff.IRI, Value: "http://x/p"},
		diff.Term{Kind: diff.Literal, Value: "oil"}); err != nil {
		t.Fatal(err)
	}
	g, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if grown := diff.Compare(nil, g); !Added(grown, []Condition{{"object", "=", "oil"}, {"subject", "starts", "http://x/"}}) ||
		Added(grown, []Condition{{"predicate", "=", "oil"}}) {
		t.Error("triples are rows of subject, predicate and object")
	}
}
