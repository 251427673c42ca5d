package stream

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// Applying the changes to the beginning gives what the items own.
func TestWorldAgreesWithItsChanges(t *testing.T) {
	document := []Triple{{"<http://www.wikidata.org/entity/Q42>", "<http://www.w3.org/2000/01/rdf-schema#label>", `"Adams"@en`},
		{"<http://www.wikidata.org/reference/x>", "<uri:p>", `"1"`},
		{"<https://www.wikidata.org/wiki/Special:EntityData/Q42>", "<uri:p>", `"1"`}}
	w := NewWorld(3, 50, map[string][]Triple{"Q42": document})
	data := map[Triple]bool{}
	w.Triples(func(x Triple) { data[x] = true })
	if !data[document[0]] || !data[document[1]] || data[document[2]] {
		t.Error("a real entity is not adopted")
	}
	kinds := map[string]int{}
	for range 9000 {
		c := w.Next()
		kinds[c.Operation]++
		for _, x := range c.Remove {
			if !data[x] {
				t.Fatalf("%s of %s removes %s, which is not there", c.Operation, c.Entity, x)
			}
			delete(data, x)
		}
		for _, x := range c.Insert {
			data[x] = true
		}
		if len(c.Unlinked) > 0 {
			kinds["unlinked"]++
		}
		if len(c.Linked) > 0 {
			kinds["linked"]++
		}
	}
	for _, k := range []string{"diff", "delete", "import", "reconcile", "linked", "unlinked"} {
		if kinds[k] < 10 {
			t.Errorf("%d of kind %s", kinds[k], k)
		}
	}
	for _, e := range w.items {
		for _, x := range e.own {
			if !data[x] {
				t.Fatalf("%s has %s, and the data have not", e.id, x)
			}
		}
	}
	again := NewWorld(3, 50, map[string][]Triple{"Q42": document})
	for range 9000 {
		again.Next()
	}
	if a, b := w.Next(), again.Next(); a.Entity != b.Entity || !slices.Equal(a.Added, b.Added) {
		t.Error("a seed gives two streams")
	}
	list := w.Queries(500)
	if len(list) != 500 {
		t.Errorf("%d queries", len(list))
	}
	x := newIndex(list)
	for i, q := range list {
		found := map[int]bool{}
		k := q.Keys[len(q.Keys)-1]
		for n := range k {
			if k[n] == "" {
				k[n] = "<uri:any>"
			}
		}
		if x.touched(k, found); !found[i] {
			t.Errorf("%s is not found", q.Text)
		}
	}
}

// messages reads what a server sends to a connection, for a while.
func messages(t *testing.T, s *httptest.Server, from string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Last-Event-ID", from)
	resp, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

func TestServer(t *testing.T) {
	w := NewWorld(1, 10, nil)
	const all = `[{"topic":"` + Topic + `","partition":0,"offset":1},{"topic":"` + other + `","partition":0,"offset":1}]`
	run := func(f Faults) (string, *Server) {
		f.Cut = 50 * time.Millisecond
		s := NewServer(1, f)
		h := httptest.NewServer(s)
		t.Cleanup(h.Close)
		for range 200 {
			c := w.Next()
			s.Publish(&c, time.Now())
		}
		return messages(t, h, all), s
	}
	count := func(text string) int { return strings.Count(text, "\ndata: ") }
	if text, _ := run(Faults{}); count(text) != 200 || strings.Contains(text, "canary") {
		t.Errorf("%d messages", count(text))
	}
	if text, _ := run(Faults{Drop: 0.5}); count(text) < 60 || count(text) > 140 {
		t.Errorf("%d messages of a half", count(text))
	}
	if text, _ := run(Faults{Double: 0.5, Other: 0.5, Canary: 10}); count(text) < 400 || !strings.Contains(text, `"canary"`) ||
		!strings.Contains(text, other) {
		t.Errorf("%d messages of twice as many", count(text))
	}
	if text, _ := run(Faults{Deaf: 1, Other: 1}); count(text) != 0 {
		t.Errorf("%d old messages of a server that is deaf", count(text))
	}
	_, s := run(Faults{})
	s.Forget(time.Hour)
	h := httptest.NewServer(s)
	defer h.Close()
	if text := messages(t, h, all); !strings.Contains(text, "later") {
		t.Errorf("it answers %s", text)
	}
	s.Forget(0)
	c := w.Next()
	s.Publish(&c, time.Now())
	if text := messages(t, h, all); count(text) != 1 {
		t.Errorf("%d messages after it forgot them", count(text))
	}
}

func TestJudge(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	run := func(f func(j *Judge)) Report {
		j := NewJudge([]Query{{Keys: []Triple{{"a"}}}, {Keys: []Triple{{"", "p"}}}})
		for q, hash := range []string{"x", "y"} {
			j.True(q, hash, 0, 1, at(0))
			j.Receive(q, hash, "", 1, at(1))
		}
		j.True(0, "x2", 1, 5, at(10))
		j.True(0, "x3", 5, 9, at(20))
		j.Applied(9, 8)
		f(j)
		return j.Report()
	}
	if r := run(func(j *Judge) {
		j.Receive(0, "x3", "x", 2, at(23)) // x2 was not seen
		j.Claim(0, "x", 0)
		j.Claim(0, "x", 3) // in the middle of what was applied at once
		j.Claim(0, "x2", 3)
		j.Claim(0, "x2", 4)
		j.Claim(0, "x3", 8)
		j.Claim(0, "old", 99) // nothing is known there
	}); r != (Report{Queries: 2, Events: 8, Changes: 2, Received: 1, Claims: 6, DelayP50: 3, DelayP99: 3}) {
		t.Errorf("%+v", r)
	}
	if r := run(func(j *Judge) {}); r.Lost != 1 {
		t.Errorf("%+v", r)
	}
	if r := run(func(j *Judge) {
		j.Receive(0, "x2", "x", 2, at(11))
		j.Receive(0, "x2", "x2", 3, at(12))
		j.Receive(0, "x3", "x2", 3, at(21))
		j.Receive(0, "x", "x3", 4, at(22)) // no more
		j.Receive(1, "z", "y", 2, at(22))
		j.Claim(0, "x", 4)
		j.Claim(0, "x2", 8)
		j.Claim(0, "x3", 3)
	}); r.Doubled != 2 || r.False != 3 || r.Unproved != 3 || r.Lost != 2 {
		t.Errorf("%+v", r)
	}
	j := NewJudge([]Query{{Keys: []Triple{{"a"}}}, {Keys: []Triple{{"", "p"}}}, {Keys: []Triple{{"", "", "o"}}}})
	if got := j.Touched([]Triple{{"a", "q", "r"}, {"b", "p", "r"}}); !slices.Equal(got, []int{0, 1}) {
		t.Error(got)
	}
}
