package store

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff/growth"
	"github.com/freshet/freshet/registry"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fullQuery returns a query in which every field is set that JSON would store.
func fullQuery() registry.Query {
	q, n := registry.Query{}, 0
	v := reflect.ValueOf(&q).Elem()
	fill(v, &n)
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("json") == "-" {
			v.Field(i).SetZero()
		}
	}
	q.Normal = "SELECT <" + q.Constants[0] + "> <" + q.Constants[2] + ">"
	return q
}

func decoded(t interface{ Fatalf(string, ...any) }, q *registry.Query) registry.Query {
	var got registry.Query
	if err := decodeRegistration(encoded(t, q), &got); err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return got
}

func encoded(t interface{ Fatalf(string, ...any) }, q *registry.Query) []byte {
	b, err := encodeRegistration(*q)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	return b
}

// Nodes in different time zones store the same, and an edit without effect has none.
func TestRegistrationTimesAreInUTC(t *testing.T) {
	q, zone := fullQuery(), time.FixedZone("east", 7200)
	there := q
	there.CreatedAt, there.Holders = q.CreatedAt.In(zone), slices.Clone(q.Holders)
	from, at := q.Holders[0].From.In(zone), *q.Pause
	at.At = at.At.In(zone)
	there.Holders[0].From, there.Pause = &from, &at
	if a, b := string(encoded(t, &q)), string(encoded(t, &there)); a != b {
		t.Errorf("%s\n%s", a, b)
	}
	if there.Holders[0].From.Location() != zone {
		t.Error("the caller's query was changed")
	}
}

// A registration keeps every field of a query and of its holders, including those that are
// not set.
func TestRegistrationKeepsEveryField(t *testing.T) {
	empty, sparse := registry.Query{ID: "q_a"}, fullQuery()
	sparse.Holders = append(sparse.Holders, registry.Holder{}, registry.Holder{Caller: "b", Live: true})
	sparse.Pause, sparse.Holders[1].Until, sparse.Constants = nil, nil, []string{"", "not in the normal form"}
	distant := time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	sparse.Holders[0].Until, sparse.Holders[2].From = &distant, &time.Time{}
	for _, q := range []registry.Query{fullQuery(), sparse, empty} {
		if d := cmp.Diff(q, decoded(t, &q)); d != "" {
			t.Errorf("-stored +read\n%s", d)
		}
	}
}

// A registration is stored as JSON would store it, whatever its texts contain, and a damaged
// one is an error.
func TestRegistrationsAreKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 40, -1)
		q := fullQuery()
		q.Text, q.Normal, q.Constants = text.Draw(t, "text"), text.Draw(t, "normal"), rapid.SliceOfN(text, 1, 4).Draw(t, "constants")
		q.Holders[0].Tags, q.Holders[1].Weight = rapid.SliceOfN(text, 1, 3).Draw(t, "tags"), rapid.Float64().Draw(t, "weight")
		if d := cmp.Diff(q, decoded(t, &q)); d != "" {
			t.Fatalf("-stored +read\n%s", d)
		}
		b := encoded(t, &q)
		at := rapid.IntRange(0, len(b)-1).Draw(t, "cut")
		if err := decodeRegistration(b[:at], new(registry.Query)); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut after %d of %d bytes: %v", at, len(b), err)
		}
		b[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "flip"))
		_ = decodeRegistration(b, new(registry.Query)) // may be another registration, but must not panic
	})
}

// Storing a registration costs in proportion to its size: a query has as many constants
// as fit into its text, and they are in another order there.
func TestLongManyConstants(t *testing.T) {
	growth.Check(t, growth.Sizes(1000, func(n int) growth.Input {
		q := registry.Query{}
		var normal strings.Builder
		for i := range n {
			fmt.Fprintf(&normal, " <http://example.org/resource/entity_of_%06d>", i*7919%n)
			q.Constants = append(q.Constants, fmt.Sprintf("http://example.org/resource/entity_of_%06d", i))
		}
		q.Normal = normal.String()
		return growth.Input{Size: n, Work: func() { encoded(t, &q) }}
	})...)
}
