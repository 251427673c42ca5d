package feed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/endpoint/feed"
	. "github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
)

const (
	wd     = "http://www.wikidata.org/entity/"
	q42    = "<" + wd + "Q42>"
	label  = "<http://www.w3.org/2000/01/rdf-schema#label>"
	eqiad  = "eqiad.mutation"
	codfw  = "codfw.mutation"
	patien = 20 * time.Second
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// A line is a message of a stream, or what happens to the connection.
type line struct {
	topic     string
	offset    int // 0: the message does not tell it
	partition int
	at        int // seconds after begin
	id        string
	data      map[string]any
	raw       string
	noOffset  bool
}

// edit returns a message about an item. data holds further members.
func edit(offset int, operation string, data ...any) line {
	l := line{topic: eqiad, offset: offset, at: offset,
		data: map[string]any{"$schema": "/mediawiki/wikibase/entity/rdf_change/2.0.0", "entity_id": "Q42", "rev_id": 100 + offset,
			"operation": operation, "sequence": 0, "sequence_length": 1}}
	for i := 0; i < len(data); i += 2 {
		l.data[data[i].(string)] = data[i+1]
	}
	return l
}

func turtle(text string) map[string]string {
	return map[string]string{"data": text, "mime_type": "text/turtle"}
}

func labelled(n int) map[string]string {
	return turtle(fmt.Sprintf("%s %s \"%d\"@en .", q42, label, n))
}

// added returns an edit that adds the label offset.
func added(offset int) line { return edit(offset, "diff", "rdf_added_data", labelled(offset)) }

func (l line) write(w http.ResponseWriter) {
	text := l.raw
	if text == "" {
		l.data = maps.Clone(l.data) // connections may end late
		at := begin.Add(time.Duration(l.at) * time.Second)
		meta := map[string]any{"domain": "www.wikidata.org", "dt": at.Format(time.RFC3339), "topic": l.topic, "partition": l.partition,
			"request_id": "r", "id": "x"}
		if d, ok := l.data["domain"]; ok {
			meta["domain"] = d
		}
		if !l.noOffset {
			meta["offset"] = l.offset
		}
		l.data["meta"], l.data["dt"] = meta, at.Format(time.RFC3339)
		b, err := json.Marshal(l.data)
		if err != nil {
			panic(err)
		}
		text = string(b)
	}
	if l.id == "" {
		l.id = fmt.Sprintf(`[{"topic":%q,"partition":%d,"offset":%d}]`, l.topic, l.partition, l.offset+1)
	}
	fmt.Fprintf(w, "event: message\nid: %s\ndata: %s\n\n", l.id, text)
	w.(http.Flusher).Flush()
}

// A server is a stream. serve answers connection n, from 0.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request
}

func serve(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *server {
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		n := len(s.requests)
		s.requests = append(s.requests, r)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		answer(n, w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// lists answers connection n with the n-th list, the last one again and again.
func lists(t *testing.T, list ...[]line) *server {
	return serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		for _, l := range list[min(n, len(list)-1)] {
			l.write(w)
		}
	})
}

// read follows a feed for one connection and returns what it delivers as one batch.
func read(t *testing.T, d Definition, cursor string) (Batch, error) {
	t.Helper()
	return follows(t, open(t, d), cursor)
}

// follower returns must for a source that lasts.
func follower(t *testing.T, d Definition) func(t *testing.T, cursor string) Batch {
	source := open(t, d)
	return func(t *testing.T, cursor string) Batch {
		t.Helper()
		b, err := follows(t, source, cursor)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func open(t *testing.T, d Definition) Source {
	t.Helper()
	if d.Kind == "" {
		d.Kind = Wikimedia
	}
	source, err := feed.Open(d, feed.Options{Pause: time.Millisecond, Version: "1"})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func follows(t *testing.T, source Source, cursor string) (Batch, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patien)
	defer cancel()
	sum := Batch{Cursor: cursor}
	err := source.Follow(ctx, cursor, func(b Batch) error {
		sum.Events, sum.Cursor, sum.Head, sum.Duplicates = append(sum.Events, b.Events...), b.Cursor, b.Head, sum.Duplicates+b.Duplicates
		if sum.More = b.More; b.Gap != "" {
			sum.Gap = b.Gap
		}
		return nil
	})
	return sum, err
}

func must(t *testing.T, d Definition, cursor string) Batch {
	t.Helper()
	b, err := read(t, d, cursor)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func offsets(b Batch) (list []int64) {
	for _, e := range b.Events {
		list = append(list, e.Offset)
	}
	return list
}

func wantOffsets(t *testing.T, b Batch, want ...int64) {
	t.Helper()
	if got := offsets(b); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// reach returns how the events touch a pattern.
func reach(b Batch, p sparql.Pattern) Reach {
	r := None
	for _, e := range b.Events {
		r = max(r, e.Reach([]sparql.Pattern{p}))
	}
	return r
}

func testData(t *testing.T, name string) []byte {
	t.Helper()
	dir := os.Getenv("FRESHET_TEST_DATA")
	if dir == "" {
		t.Skip("SKIP-PART: FRESHET_TEST_DATA names no directory with feeds")
	}
	b, err := os.ReadFile(filepath.Join(dir, "feeds", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Real messages of both versions of the schema say the same.
func TestRealMessages(t *testing.T) {
	for _, version := range []string{"v1", "v2"} {
		var list []line
		for i, op := range []string{"import", "diff", "reconcile", "delete"} {
			list = append(list, line{topic: eqiad, offset: i + 1,
				raw: strings.TrimSpace(string(testData(t, "wikidata/messages/"+op+"-"+version+".json")))})
		}
		b := must(t, Definition{URL: lists(t, list).URL}, "")
		if len(b.Events) != 4 {
			t.Fatalf("%s: %d events", version, len(b.Events))
		}
		a, x, del := sparql.Pattern{Subject: "<uri:a>", Predicate: "<uri:b>", Object: "<uri:c>"}, sparql.Pattern{Subject: "<uri:x>"},
			sparql.Pattern{Subject: "<uri:del>"}
		for i, e := range b.Events[:2] {
			if !slices.ContainsFunc(e.Added, a.Matches) || !slices.ContainsFunc(e.Added, x.Matches) || slices.ContainsFunc(e.Removed,
				del.Matches) != (i == 1) {
				t.Errorf("%s: event %d is %+v", version, i, e)
			}
			if e.Edit.Text != "revision 123 of Q123" {
				t.Errorf("%s: %+v", version, e.Edit)
			}
		}
		if !b.Events[2].All || !b.Events[3].All {
			t.Errorf("%s: what an entity of an unknown wiki has lost is told: %+v", version, b.Events[2:])
		}
	}
}

// All triples of real entities are read, in one message and in chunks.
func TestRealEntities(t *testing.T) {
	for _, name := range []string{"Q42", "Q24628793", "Q37599471", "L4082"} {
		text := string(testData(t, "wikidata/entities/"+name+".ttl"))
		b := must(t, Definition{URL: lists(t, []line{edit(1, "import", "entity_id", name, "rdf_added_data", turtle(text))}).URL}, "")
		if len(b.Events) != 1 || len(b.Events[0].Added) < strings.Count(text, ";\n") || len(b.Events[0].Loose) > 3 {
			t.Fatalf("%s: %d events, %d triples", name, len(b.Events), len(b.Events[0].Added))
		}
		own := "<" + wd + name + ">"
		for _, p := range []sparql.Pattern{{Subject: own}, {Predicate: "<http://wikiba.se/ontology#rank>"},
			{Predicate: "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", Object: "<http://wikiba.se/ontology#Statement>"},
			{Subject: "<https://www.wikidata.org/wiki/Special:EntityData/" + name + ">", Predicate: "<http://schema.org/version>"}} {
			if reach(b, p) != Matched {
				t.Errorf("%s: %+v is not matched", name, p)
			}
		}
		if reach(b, sparql.Pattern{Subject: "<" + wd + "Q1>"}) != None {
			t.Errorf("%s reaches Q1", name)
		}
	}
}

func TestChunksAreJoined(t *testing.T) {
	chunk := func(offset, n int) line {
		return edit(offset, "diff", "rev_id", 7, "sequence", n, "sequence_length", 3, "rdf_added_data", labelled(offset),
			"rdf_deleted_data", labelled(100+offset))
	}
	s := lists(t, []line{added(1), chunk(2, 0), chunk(3, 1)}, []line{added(1), chunk(2, 0), chunk(2, 0), chunk(3, 1), chunk(4, 2), added(5)})
	first := must(t, Definition{URL: s.URL}, "")
	wantOffsets(t, first, 1) // the connection was cut between chunks
	b := must(t, Definition{URL: s.URL}, first.Cursor)
	wantOffsets(t, b, 4, 5)
	e := b.Events[0]
	for n := 2; n <= 4; n++ {
		for list, text := range map[*[]sparql.Pattern]string{&e.Added: fmt.Sprintf(`"%d`, n), &e.Removed: fmt.Sprintf(`"%d`, 100+n)} {
			if !slices.ContainsFunc(*list, sparql.Pattern{Subject: q42, Predicate: label, Object: text}.Matches) {
				t.Errorf("chunk %d is missing: %+v", n, e)
			}
		}
	}
	if b.Gap != "" || b.Duplicates != 2 {
		t.Errorf("gap %q, %d duplicates", b.Gap, b.Duplicates)
	}
}

// A chunk that never comes leaves open what the event changed.
func TestMissingChunk(t *testing.T) {
	chunk := func(offset, n int) line {
		l := edit(offset, "diff", "rev_id", 7, "sequence", n, "sequence_length", 3, "rdf_added_data", labelled(offset))
		l.noOffset, l.id = true, fmt.Sprintf(`[{"topic":"eqiad.mutation","partition":0,"timestamp":%d}]`, offset)
		return l
	}
	numbered := func(l line) line {
		l.noOffset, l.id = false, ""
		return l
	}
	for _, list := range [][]line{{chunk(1, 0), chunk(3, 2)}, {chunk(2, 1), chunk(3, 2)}, {chunk(1, 0), chunk(2, 1), added(9)},
		{added(1), numbered(chunk(2, 0)), numbered(chunk(4, 2)), added(5)}} {
		b := must(t, Definition{URL: lists(t, list).URL}, "")
		if reach(b, sparql.Pattern{Subject: q42, Predicate: "<http://example.org/p>"}) != Possible {
			t.Errorf("%d events: %+v", len(b.Events), b.Events)
		}
	}
}

func TestDeleteAndReconcile(t *testing.T) {
	b := must(t, Definition{URL: lists(t, []line{edit(1, "delete"), edit(2, "reconcile", "rdf_added_data", labelled(2)),
		edit(3, "undelete")}).URL}, "")
	for i, want := range []Edit{{Text: "deletion of Q42", Link: "https://www.wikidata.org/wiki/Special:EntityPage/Q42"},
		{Text: "repair of Q42 at revision 102", Link: "https://www.wikidata.org/wiki/Special:PermanentLink/102"}} {
		if got := b.Events[i].Edit; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for i, e := range b.Events {
		one := Batch{Events: []Event{e}}
		for _, p := range []sparql.Pattern{{Subject: q42, Predicate: "<http://www.wikidata.org/prop/direct/P31>"},
			{Predicate: "<http://schema.org/about>"}, {Subject: "<" + wd + "statement/Q42-1>"}, {Subject: "<https://en.wikipedia.org/wiki/X>"}} {
			if reach(one, p) < Possible {
				t.Errorf("event %d does not leave %+v open", i, p)
			}
		}
		if reach(one, sparql.Pattern{Subject: "<" + wd + "Q1>", Predicate: label}) != None {
			t.Errorf("event %d touches another item", i)
		}
		if got, want := reach(one, sparql.Pattern{Subject: q42, Predicate: label, Object: `"2`}) == Matched, i == 1; got != want {
			t.Errorf("event %d has the addition: %v", i, got)
		}
	}
}

// Triples of nodes that others may share are perhaps deleted.
func TestUnlinkedIsNotDeleted(t *testing.T) {
	const ref, prop = "<http://www.wikidata.org/reference/abc>", "<http://www.wikidata.org/prop/reference/P248>"
	b := must(t, Definition{URL: lists(t, []line{edit(1, "diff", "rdf_unlinked_shared_data",
		turtle(ref+" "+prop+" <uri:x> . <uri:s> <uri:p> 1, 2 ."), "rdf_added_data", labelled(1))}).URL}, "")
	if n := len(b.Events[0].Removed); n != 0 {
		t.Errorf("%d triples are removed", n)
	}
	for _, c := range []struct {
		p    sparql.Pattern
		want Reach
	}{
		{sparql.Pattern{Subject: ref}, Possible}, {sparql.Pattern{Predicate: prop}, Possible}, {sparql.Pattern{Predicate: "<uri:p>"}, Possible},
		{sparql.Pattern{Predicate: "<uri:q>"}, None}, {sparql.Pattern{Subject: "<uri:s>", Predicate: prop}, None},
		{sparql.Pattern{Predicate: "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>",
			Object: "<http://wikiba.se/ontology#Reference>"}, Possible},
	} {
		if got := reach(b, c.p); got != c.want {
			t.Errorf("%+v: %d, want %d", c.p, got, c.want)
		}
	}
}

// What messages omit of the full form of the data follows from what they have.
func TestOmittedTriples(t *testing.T) {
	const s, page, skolem = "<" + wd + "statement/Q42-1>", "<https://www.wikidata.org/wiki/Special:EntityData/Q42>",
		"<http://www.wikidata.org/.well-known/genid/abc>"
	const ontology, typ = "<http://wikiba.se/ontology#", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
	b := must(t, Definition{URL: lists(t, []line{edit(1, "diff", "rdf_added_data", turtle(q42+" "+label+` "x"@en ; `+
		`<http://schema.org/version> 7 ; <http://schema.org/dateModified> "2026" .
`+s+" "+ontology+"rank> "+ontology+"NormalRank> ; <http://www.wikidata.org/prop/statement/P1> "+skolem+" ."),
		"rdf_linked_shared_data", turtle("<http://www.wikidata.org/reference/abc> <uri:p> 1 . <http://www.wikidata.org/value/abc> "+
			"<uri:p> 1 ."))}).URL}, "")
	for _, p := range []sparql.Pattern{
		{Subject: q42, Predicate: "<http://schema.org/name>", Object: `"x`},
		{Subject: q42, Predicate: "<http://www.w3.org/2004/02/skos/core#prefLabel>", Object: `"x`},
		{Subject: page, Predicate: "<http://schema.org/version>"}, {Subject: page, Predicate: "<http://schema.org/dateModified>"},
		{Subject: s, Predicate: typ, Object: ontology + "Statement>"}, {Predicate: typ, Object: ontology + "Reference>"},
		{Predicate: typ, Object: ontology + "TimeValue>"},
		{Subject: s, Predicate: "<http://www.wikidata.org/prop/statement/P1>", Object: skolem},
	} {
		if reach(b, p) != Matched {
			t.Errorf("%+v is not matched", p)
		}
	}
	for _, p := range []sparql.Pattern{{Subject: "<http://www.wikidata.org>", Predicate: "<http://schema.org/dateModified>"},
		{Subject: ontology + "Dump>", Predicate: ontology + "updateStreamNextOffset>"}} {
		if reach(b, p) != Matched {
			t.Errorf("%+v is not matched", p)
		}
	}
	for _, p := range []sparql.Pattern{{Predicate: "<http://schema.org/about>"}, {Object: "<" + wd + "Q16521>"}} {
		if reach(b, p) != None {
			t.Errorf("an edit touches %+v", p)
		}
	}
}

// A connection continues with the last message, and nothing is read twice.
func TestContinues(t *testing.T) {
	s := lists(t, []line{added(1), added(2)}, []line{added(2), added(3), added(3), added(4)})
	first := must(t, Definition{URL: s.URL + "/v2/stream/x?a=b", Contact: "mailto:me@example.org"}, "")
	wantOffsets(t, first, 1, 2)
	if first.Head != (Place{Topic: eqiad, Offset: 2, Time: begin.Add(2 * time.Second)}) {
		t.Errorf("head %+v", first.Head)
	}
	b := must(t, Definition{URL: s.URL}, first.Cursor)
	wantOffsets(t, b, 3, 4)
	if b.Gap != "" || b.Duplicates != 2 {
		t.Errorf("gap %q, %d duplicates", b.Gap, b.Duplicates)
	}
	if got, want := s.requests[1].Header.Get("Last-Event-ID"), `[{"topic":"eqiad.mutation","partition":0,"offset":2}]`; got != want {
		t.Errorf("Last-Event-ID %s, want %s", got, want)
	}
	if r := s.requests[0]; r.Header.Get("User-Agent") != "Freshet/1 (+mailto:me@example.org)" ||
		r.Header.Get("Last-Event-ID") != "" || r.URL.RawQuery != "a=b" || r.Header.Get("Accept") != "text/event-stream" {
		t.Errorf("request %v %v", r.URL, r.Header)
	}
}

// What comes from a server that may have ignored where to begin does not count as all there is.
func TestAServerShowsThatItObeys(t *testing.T) {
	other := func(n int) line {
		l := added(n)
		l.topic = codfw
		return l
	}
	for _, x := range []struct {
		about         string
		before, after []line
		more, gap     bool
	}{
		{"the last message comes again", []line{added(4), added(5)}, []line{added(5), added(6)}, false, false},
		{"the only topic goes on", []line{added(4), added(5)}, []line{added(6)}, false, false},
		{"another topic begins", []line{added(4), added(5)}, []line{other(1000), other(1001)}, true, false},
		{"another topic begins, and an old message comes again", []line{added(4), added(5)}, []line{other(1000), added(5), other(1001)}, false,
			false},
		{"one of two topics goes on", []line{added(5), other(6)}, []line{other(7), other(8)}, true, false},
		{"what this connection brings twice shows nothing", []line{added(5), other(6)}, []line{other(7), other(7), other(8)}, true, false},
		{"both topics go on", []line{added(5), other(6)}, []line{other(7), added(6)}, false, false},
		{"a message of one of two comes again", []line{added(5), other(6)}, []line{other(6), other(7)}, false, false},
		{"one goes on, and the other lacks some", []line{added(5), other(6)}, []line{other(7), added(8)}, false, true},
	} {
		s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			list := x.after
			if n == 0 {
				list = x.before
			}
			for _, l := range list {
				l.write(w)
			}
		})
		first := must(t, Definition{URL: s.URL}, "")
		if first.More {
			t.Errorf("%s: the first connection is not believed", x.about)
		}
		if b := must(t, Definition{URL: s.URL}, first.Cursor); b.More != x.more || b.Gap != "" != x.gap {
			t.Errorf("%s: more %v, gap %q", x.about, b.More, b.Gap)
		}
	}
}

// Streams that are continued by time go back a little, because several messages may have one time.
func TestContinuesByTime(t *testing.T) {
	at := func(l line, ms int) line {
		l.noOffset, l.id = true, fmt.Sprintf(`[{"topic":"codfw.mutation","partition":0,"offset":-1},{"topic":"eqiad.mutation",`+
			`"partition":0,"timestamp":%d}]`, ms)
		return l
	}
	s := lists(t, []line{at(added(1), 5001), at(added(2), 6001)}, []line{at(added(2), 6001), at(added(3), 7001)}, []line{at(added(9), 9001)})
	b := must(t, Definition{URL: s.URL}, must(t, Definition{URL: s.URL}, "").Cursor)
	if got, want := s.requests[1].Header.Get("Last-Event-ID"), fmt.Sprintf(
		`[{"topic":"codfw.mutation","partition":0,"timestamp":%d},{"topic":"eqiad.mutation","partition":0,"timestamp":5001}]`,
		begin.UnixMilli()); got != want {
		t.Errorf("Last-Event-ID %s, want %s", got, want)
	}
	if b.Gap != "" || len(b.Events) != 2 {
		t.Errorf("gap %q, %d events", b.Gap, len(b.Events))
	}
	if b := must(t, Definition{URL: s.URL}, b.Cursor); b.Gap == "" || len(b.Events) != 1 {
		t.Errorf("a start at the newest message is no gap: %+v", b)
	}
}

// The first message of a topic may come while nothing is read, long after it was published. It is asked for by time, as long as
// that is not before the feed began or a day ago.
func TestFirstMessageOfATopicUnread(t *testing.T) {
	id := func(l line, eqiad, codfw int) line {
		l.id = fmt.Sprintf(`[{"topic":"eqiad.mutation","partition":0,"offset":%d},`+
			`{"topic":"codfw.mutation","partition":0,"offset":%d}]`, eqiad, codfw)
		return l
	}
	const day = 24 * 60 * 60
	for _, c := range []struct{ last, first, from int }{ // seconds
		{last: 2, first: 3, from: 0}, {last: 3600, first: 2, from: 0}, {last: day + 3600, first: 3600, from: 3599},
	} {
		first, second, last := added(7), added(8), added(2)
		first.topic, second.topic = codfw, codfw
		first.at, second.at, last.at = c.first, c.last+5, c.last
		s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 0 {
				id(added(1), 1, -1).write(w)
			}
			if id(last, 2, -1).write(w); n == 0 {
				return
			}
			var from []struct {
				Topic     string
				Timestamp int64
			}
			_ = json.Unmarshal([]byte(r.Header.Get("Last-Event-ID")), &from)
			if len(from) > 1 && from[1].Topic == codfw && from[1].Timestamp == begin.Add(time.Duration(c.from)*time.Second).UnixMilli() {
				id(first, 2, 7).write(w)
			}
			id(second, 2, 8).write(w)
		})
		b := must(t, Definition{URL: s.URL}, must(t, Definition{URL: s.URL}, "").Cursor)
		if wantOffsets(t, b, 7, 8); b.Gap != "" {
			t.Errorf("%+v: gap %q", c, b.Gap)
		}
		// A version that did not note when the feed began continues at its last message.
		old, n := `"id":[{"topic":"codfw.mutation","partition":0,"offset":-1}],"seen":{"eqiad.mutation/0":{"offset":2,`+
			`"time":"2026-01-02T03:04:05Z"}}`, len(s.requests)
		must(t, Definition{URL: s.URL}, "{"+old+"}")
		got := s.requests[n].Header.Get("Last-Event-ID")
		if want := fmt.Sprintf(`"timestamp":%d}]`, begin.Add(-time.Second).UnixMilli()); !strings.HasSuffix(got, want) {
			t.Errorf("Last-Event-ID %s, want %s", got, want)
		}
	}
}

// A hole in the numbers is read again. It is a gap if it stays.
func TestHole(t *testing.T) {
	s := lists(t, []line{added(1), added(4)}, []line{added(1), added(2), added(4)}, []line{added(2), added(3), added(4), added(5)})
	b := must(t, Definition{URL: s.URL}, "")
	if wantOffsets(t, b, 1, 2, 3, 4, 5); b.Gap != "" {
		t.Errorf("gap %q", b.Gap)
	}
	s = lists(t, []line{added(1), added(2)}, []line{added(7), added(8)}) // kept no longer, and so begun at the newest
	b = must(t, Definition{URL: s.URL}, must(t, Definition{URL: s.URL}, "").Cursor)
	if wantOffsets(t, b, 7, 8); !strings.Contains(b.Gap, "is missing") {
		t.Errorf("gap %q", b.Gap)
	}
	if n := len(s.requests); n != 8 {
		t.Errorf("%d connections", n)
	}
}

// A kept is a stream that has lost some of its messages for good.
type kept struct {
	*server
	list []line
}

func keep(t *testing.T, list ...line) *kept {
	k := &kept{list: list}
	k.server = serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		var from []struct{ Offset int }
		_ = json.Unmarshal([]byte(r.Header.Get("Last-Event-ID")), &from)
		for _, l := range k.list {
			if len(from) == 0 || l.offset >= from[0].Offset {
				l.write(w)
			}
		}
	})
	return k
}

// A stream that leaves out numbers is read once for each, until that is known.
func TestSparseNumbers(t *testing.T) {
	k := keep(t)
	for n := 1; n < 20; n += 2 {
		k.list = append(k.list, added(n))
	}
	follow := follower(t, Definition{URL: k.URL})
	b := follow(t, "")
	if wantOffsets(t, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19); len(k.requests) != 1+3*6 {
		t.Errorf("%d connections", len(k.requests))
	}
	k.list = append(k.list, added(21), added(23))
	if b = follow(t, b.Cursor); b.Gap != "" || len(k.requests) != 2+3*6 {
		t.Errorf("gap %q, %d connections", b.Gap, len(k.requests))
	}
	wantOffsets(t, b, 21, 23)
	k.list = []line{added(31)}
	if b = follow(t, b.Cursor); b.Gap == "" {
		t.Error("a start at the newest message is no gap")
	}
}

// Three messages that were lost some day do not hide others that are lost later.
func TestHolesAfterOthers(t *testing.T) {
	for name, c := range map[string]struct {
		later   line
		restart bool
	}{
		"after a restart": {added(14), true}, "many at once": {added(5000), false}, "hours later": {func() line {
			l := added(14)
			l.at += 3 * 60 * 60
			return l
		}(), false},
	} {
		k := keep(t, added(1), added(2), added(4), added(5), added(7), added(8), added(10), added(11), added(12))
		d := Definition{URL: k.URL}
		follow := follower(t, d)
		b := follow(t, "")
		if wantOffsets(t, b, 1, 2, 4, 5, 7, 8, 10, 11, 12); b.Gap == "" {
			t.Errorf("%s: lost messages are no gap", name)
		}
		if k.list = append(k.list, c.later); c.restart {
			follow = follower(t, d)
		}
		if b = follow(t, b.Cursor); len(b.Events) != 1 || !strings.Contains(b.Gap, "is missing") {
			t.Errorf("%s: gap %q, %d events", name, b.Gap, len(b.Events))
		}
	}
}

// Numbers of a stream that leaves out many can begin again, too.
func TestSparseNumbersBeginAgain(t *testing.T) {
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		again := added(5)
		again.at = 1000
		for _, l := range []line{added(1), added(11), added(21), added(31), added(41), again} {
			l.write(w)
		}
	})
	b := must(t, Definition{URL: s.URL}, "")
	if wantOffsets(t, b, 1, 11, 21, 31, 41, 5); !strings.Contains(b.Gap, "begin again") {
		t.Errorf("gap %q", b.Gap)
	}
}

// Each partition of a topic has numbers of its own.
func TestPartitions(t *testing.T) {
	one, other := added(100), added(7)
	other.partition = 1
	b := must(t, Definition{URL: lists(t, []line{one, other}).URL}, "")
	if wantOffsets(t, b, 100, 7); b.Gap != "" || len(b.Events) == 2 && b.Events[0].Topic == b.Events[1].Topic {
		t.Errorf("%+v", b)
	}
}

// Numbers that begin again belong to another stream of the same name.
func TestNumbersBeginAgain(t *testing.T) {
	again := added(1)
	again.at = 1000
	s := lists(t, []line{added(8), added(9)}, []line{again})
	b := must(t, Definition{URL: s.URL}, must(t, Definition{URL: s.URL}, "").Cursor)
	if wantOffsets(t, b, 1); !strings.Contains(b.Gap, "begin again") {
		t.Errorf("gap %q", b.Gap)
	}
}

func TestSince(t *testing.T) {
	d := Definition{Since: begin.Add(-time.Hour)}
	s := lists(t, []line{added(1)})
	d.URL = s.URL + "?a=b"
	if b := must(t, d, ""); b.Gap != "" {
		t.Errorf("gap %q although it has all", b.Gap)
	}
	if got := s.requests[0].URL.Query().Get("since"); got != "2026-01-02T02:04:05Z" {
		t.Errorf("since %q", got)
	}
	if must(t, d, must(t, d, "").Cursor); s.requests[2].URL.Query().Has("since") {
		t.Error("a position and since")
	}
	d.URL = lists(t, []line{added(500), added(501)}).URL
	b := must(t, d, "")
	if wantOffsets(t, b, 500, 501); !strings.Contains(b.Gap,
		"and not at 2026-01-02T02:04:05Z, because it keeps nothing older: set since to a later time") {
		t.Errorf("gap %q although retention has passed", b.Gap)
	}
}

func TestTopics(t *testing.T) {
	other := added(7)
	other.topic = codfw
	s := lists(t, []line{added(1), other, added(2)})
	if b := must(t, Definition{URL: s.URL}, ""); len(b.Events) != 3 || b.Events[0].Topic != eqiad || b.Events[1].Topic != codfw ||
		b.Gap != "" {
		t.Errorf("%+v", b)
	}
	for _, topic := range []string{eqiad, "eqiad."} {
		b := must(t, Definition{URL: s.URL, Topic: topic}, "")
		if wantOffsets(t, b, 1, 2); b.Head.Topic != eqiad {
			t.Errorf("%+v", b.Head)
		}
	}
}

func TestTopicByID(t *testing.T) {
	list := []line{added(1), added(2), added(3)}
	for i, id := range []string{`[{"topic":"a","partition":0,"offset":11},{"topic":"b","partition":0,"offset":-1}]`,
		`[{"topic":"a","partition":0,"offset":11},{"topic":"b","partition":0,"offset":5}]`,
		`[{"topic":"a","partition":0,"offset":12},{"topic":"b","partition":0,"offset":5}]`} {
		list[i].noOffset, list[i].topic, list[i].id = true, "", id
	}
	b := must(t, Definition{URL: lists(t, list).URL}, "")
	if wantOffsets(t, b, 11, 5, 12); b.Events[1].Topic != "b" || b.Events[2].Topic != "a" {
		t.Errorf("%+v", b.Events)
	}
}

func TestCanary(t *testing.T) {
	b := must(t, Definition{URL: lists(t, []line{added(1), edit(2, "diff", "domain", "canary", "rdf_added_data", labelled(2))}).URL}, "")
	if wantOffsets(t, b, 1); b.Head.Offset != 2 {
		t.Errorf("%+v", b)
	}
}

// What cannot be read may have changed anything; what comes later counts.
func TestGarbage(t *testing.T) {
	raw := func(offset int, text string) line { return line{topic: eqiad, offset: offset, raw: text} }
	for name, bad := range map[string]line{
		"no JSON": raw(2, "{"), "another schema": edit(2, "diff", "$schema", "/mediawiki/wikibase/entity/rdf_change/3.0.0"),
		"no entity": edit(2, "diff", "entity_id", "x y"), "too long": raw(2, strings.Repeat("x", 11<<20)),
	} {
		b := must(t, Definition{URL: lists(t, []line{added(1), bad, added(3)}).URL}, "")
		if len(b.Events) != 3 || !b.Events[1].All || b.Gap != "" || b.Events[2].Offset != 3 {
			t.Errorf("%s: %d events, gap %q", name, len(b.Events), b.Gap)
		}
	}
	many := `<uri:s> <uri:p> ` + strings.Repeat("1, ", 60_000) + "1 ."
	for name, data := range map[string]map[string]string{"bad Turtle": turtle("<uri:a> <uri:b>"), "RDF/XML": {"data": "<x/>",
		"mime_type": "application/rdf+xml"}, "too many triples": turtle(many)} {
		b := must(t, Definition{URL: lists(t, []line{added(1), edit(2, "diff", "rdf_added_data", data), added(3)}).URL}, "")
		if wantOffsets(t, b, 1, 2, 3); b.Events[1].Reach([]sparql.Pattern{{Subject: q42, Predicate: "<uri:p>"}}) != Possible || b.Events[1].All {
			t.Errorf("%s: %+v", name, b.Events[1])
		}
	}
}

func TestRefusals(t *testing.T) {
	status := func(code int, field ...string) *server {
		return serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(field); i += 2 {
				w.Header().Set(field[i], field[i+1])
			}
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(code)
			fmt.Fprint(w, "please stop")
		})
	}
	var wait *Wait
	if _, err := read(t, Definition{URL: status(429, "Retry-After", "70").URL}, ""); !errors.As(err, &wait) ||
		wait.For != 70*time.Second || !strings.Contains(err.Error(), "please stop") {
		t.Errorf("%v", err)
	}
	if _, err := read(t, Definition{URL: status(503).URL}, ""); !errors.As(err, &wait) || wait.For != time.Minute {
		t.Errorf("%v", err)
	}
	if _, err := read(t, Definition{URL: status(404).URL}, ""); err == nil || errors.As(err, &wait) && wait.For == 0 {
		t.Errorf("%v", err)
	}
	for code, remedy := range map[int]string{404: "check url", 403: "check url and contact"} {
		if _, err := read(t, Definition{URL: status(code).URL}, ""); err == nil || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%d: %v", code, err)
		}
	}
	gone := status(404)
	gone.Close()
	secret := Definition{URL: gone.URL + "/?b&token=a+b%2F"}
	if _, err := read(t, secret, ""); err == nil || strings.Contains(err.Error(), "a+b") || !strings.Contains(err.Error(), "token=…") {
		t.Errorf("a secret: %v", err)
	}
	secret.Since = begin // the address is written in another order
	if _, err := read(t, secret, ""); err == nil || strings.Contains(err.Error(), "a+b") || !strings.Contains(err.Error(), "token=…") {
		t.Errorf("a secret: %v", err)
	}
	if _, err := read(t, Definition{URL: status(429).URL + "?token=x"}, ""); !errors.As(err, &wait) {
		t.Errorf("%v", err)
	}
	if _, err := read(t, Definition{URL: status(200).URL}, ""); err == nil || !strings.Contains(err.Error(), "not text/event-stream") {
		t.Errorf("%v", err)
	}
	target := lists(t, []line{added(1)})
	elsewhere := status(307, "Location", strings.Replace(target.URL, "127.0.0.1", "localhost", 1))
	if _, err := read(t, Definition{URL: elsewhere.URL}, ""); err == nil || !strings.Contains(err.Error(), "set this address") ||
		len(target.requests) > 0 {
		t.Errorf("%v, %d requests", err, len(target.requests))
	}
	here := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/x", http.StatusFound)
			return
		}
		added(1).write(w)
	})
	wantOffsets(t, must(t, Definition{URL: here.URL}, ""), 1)
	for name, d := range map[string]Definition{"contact": {Kind: Wikimedia, URL: "https://stream.wikimedia.org/x"},
		"url": {Kind: Wikimedia, URL: "ftp://x"}, "none of wikimedia": {Kind: "x", URL: "http://x"}, "POST /v1/feeds": {Kind: Deltas}} {
		if _, err := feed.Open(d, feed.Options{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A connection on which nothing comes is given up.
func TestSilentConnection(t *testing.T) {
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		added(1).write(w)
		<-r.Context().Done()
	})
	d := Definition{URL: s.URL}
	if err := d.Silence.UnmarshalText([]byte("300ms")); err != nil {
		t.Fatal(err)
	}
	if b, err := read(t, d, ""); err == nil || !strings.Contains(err.Error(), "nothing came for 300ms") || len(b.Events) != 1 {
		t.Errorf("%v", err)
	}
}

// Events arrive one by one, not when a buffer is full.
func TestArrivesAtOnce(t *testing.T) {
	next := make(chan bool)
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		for n := 1; n <= 3; n++ {
			added(n).write(w)
			<-next
		}
	})
	source, err := feed.Open(Definition{Kind: Wikimedia, URL: s.URL}, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stop, n := errors.New("stop"), 0
	err = source.Follow(t.Context(), "", func(b Batch) error {
		n += len(b.Events)
		if next <- true; n == 2 {
			close(next)
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) {
		t.Errorf("%d events: %v", n, err)
	}
}

// The headers of a definition are sent with each request, and a server that repeats them in an error makes
// them no public text.
func TestHeaders(t *testing.T) {
	for _, kind := range []Kind{Wikimedia, LDES, RDFPatch, Changesets} {
		var asked, given atomic.Int32
		at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if asked.Add(1); r.Header.Get("Authorization") == "Bearer hush-hush" && strings.HasPrefix(r.Header.Get("User-Agent"), "Freshet") {
				given.Add(1)
			}
			http.Error(w, "you said "+r.Header.Get("Authorization"), http.StatusTeapot)
		}))
		_, err := read(t, Definition{Name: "x", Kind: kind, URL: at.URL, Headers: map[string]string{"authorization": "Bearer hush-hush"}}, "")
		at.Close()
		if asked.Load() == 0 || given.Load() != asked.Load() {
			t.Errorf("%s: %d of %d requests have the header", kind, given.Load(), asked.Load())
		}
		if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "you said …") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// A message of one topic that cannot be read does not fill a hole of another.
func TestUnreadOfAnotherTopic(t *testing.T) {
	other := added(1)
	other.topic = codfw
	bad := line{topic: codfw, offset: 2, raw: "{"}
	list := []line{added(1), other, bad, added(3)} // 2 of eqiad is missing
	b, err := read(t, Definition{URL: lists(t, list).URL}, "")
	if err != nil || b.Gap == "" {
		t.Errorf("no gap, %d events, %v", len(b.Events), err)
	}
	list[3] = other
	list[3].offset, list[3].at = 3, 3
	if b, err = read(t, Definition{URL: lists(t, list).URL}, ""); err != nil || b.Gap != "" {
		t.Errorf("a gap where the message was that could not be read: %q, %v", b.Gap, err)
	}
}

// A message that cannot be read, and whose id says nothing new, comes after all that were seen. Before them, it says nothing.
func TestUnreadOfAnUnknownTopic(t *testing.T) {
	greeting := line{raw: "{", id: "-"}
	for name, list := range map[string][]line{"later": {added(5), greeting, added(7)}, "first": {greeting, added(5), added(6)}} {
		b := must(t, Definition{URL: lists(t, list).URL}, "")
		var got []int64
		for _, e := range b.Events {
			got = append(got, e.Offset)
		}
		want := map[string][]int64{"later": {5, 6, 7}, "first": {5, 6}}[name]
		if !slices.Equal(got, want) || b.Gap != "" {
			t.Errorf("%s: the events are %v, want %v; gap %q", name, got, want, b.Gap)
		}
	}
}
