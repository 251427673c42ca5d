package feed_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/endpoint/feed"
	"github.com/freshet/freshet/registry"
	. "github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler/proof"
)

var provedCity = registry.Endpoint{Name: "city", URL: "http://a/", Feed: "wd", Position: "SELECT ?n {}", Lag: registry.DefaultLag}

func viewOf(f proof.Feed) *proof.View {
	f.Members, f.Silence = map[string]uint64{"city": 1}, proof.DefaultSilence
	v := proof.NewView(provedCity, f, 1, proof.Endpoint{}, time.Now())
	if v.Tell(20); v.Untrusted() { // else nothing would be proved, whatever the feed tells
		panic("the endpoint is not believed")
	}
	return v
}

// takeAll takes batches until n of them without events came, or an error.
func takeAll(t *testing.T, d Definition, f *proof.Feed, ends int) {
	source, err := feed.Open(d, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	end := errors.New("end")
	err = source.Follow(ctx, f.Cursor, func(b Batch) error {
		f.Take(&b, time.Now().UTC())
		if len(b.Events) == 0 {
			if ends--; ends <= 0 {
				return end
			}
		}
		return nil
	})
	if !errors.Is(err, end) {
		t.Log(err)
	}
}

func TestLostPatchesProveNothing(t *testing.T) {
	var log []string
	for n := 1; n <= 5; n++ {
		log = append(log, aPatch(n, ""))
	}
	d := Definition{Kind: RDFPatch, URL: patches(t, &log).URL, Since: begin, Every: registry.Duration(50 * time.Millisecond)}
	var f proof.Feed
	takeAll(t, d, &f, 1)
	log = append(log, "", "", "", "", aPatch(10, "A <http://s> <http://p> <http://o> .\n")) // 6 to 9 are lost, 10 changes the query
	takeAll(t, d, &f, 9)
	v := viewOf(f)
	b := v.Told(Place{Offset: 10}) // all before 10
	touch := proof.Touch{Feed: "wd", Reached: Place{Offset: 1, Time: begin}}
	if v.Holds(touch, b) {
		t.Errorf("proved without patch 10: %+v", v.Proof(touch, b, ""))
	}
}

func TestRestoredPatchesProveNothing(t *testing.T) {
	var log []string
	other := func(n int) string { return strings.ReplaceAll(aPatch(n, ""), "uuid:", "uuid:new") }
	for n := 1; n <= 10; n++ {
		log = append(log, aPatch(n, ""))
	}
	d := Definition{Kind: RDFPatch, URL: patches(t, &log).URL, Since: begin}
	var f proof.Feed
	takeAll(t, d, &f, 1)
	before := viewOf(f)
	log = append(log[:8], other(9), other(10), other(11)) // restored from a backup
	takeAll(t, d, &f, 1)
	log = append(log, other(12), other(13))
	takeAll(t, d, &f, 1)
	touch := proof.Touch{Feed: "wd", Reached: Place{Offset: 1, Time: begin}}
	for _, n := range []int64{11, 13} { // the endpoint may be ahead of the feed
		b := before.Told(Place{Offset: n})
		b.Answered = time.Now()
		if v := viewOf(f); v.Holds(touch, b) {
			t.Errorf("proved by an answer that has the patches before %d of the old log: %+v", n, v.Proof(touch, b, ""))
		}
	}
}

const aStream = `@prefix ldes: <https://w3id.org/ldes#> . @prefix tree: <https://w3id.org/tree#> .
<http://x/c> a ldes:EventStream ; ldes:versionOfPath <http://x/of> ; ldes:timestampPath <http://x/at> ; tree:member <http://x/m%d> .
<http://x/m%d> <http://x/of> <http://x/e> ; <http://x/p> "1" . `

func TestRemovedPageProvesNothing(t *testing.T) {
	state := 0
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/turtle")
		if r.URL.Path == "/b" {
			if state == 1 {
				w.WriteHeader(http.StatusGone)
				return
			}
			fmt.Fprint(w, `<http://x/c> <https://w3id.org/tree#member> <http://x/n> . <http://x/n> <http://x/of> <http://x/f> .`)
			return
		}
		fmt.Fprintf(w, aStream+`<%s> tree:relation [ tree:node <%s> ] .`, 0, 0, "http://"+r.Host+"/a", "http://"+r.Host+"/b")
	})
	d := Definition{Kind: LDES, URL: s.URL + "/a"}
	var f proof.Feed
	takeAll(t, d, &f, 1)
	time.Sleep(200 * time.Millisecond)
	told := time.Now().UTC() // the position of the endpoint, with which a query is answered
	time.Sleep(200 * time.Millisecond)
	state = 1 // a member came to b, and b was removed
	time.Sleep(100 * time.Millisecond)
	takeAll(t, d, &f, 2)
	v := viewOf(f)
	b := v.Told(Place{Time: told})
	b.Answered = told
	touch := proof.Touch{Feed: "wd", Reached: Place{Time: begin}}
	if v.Holds(touch, b) {
		t.Errorf("proved over the gap: %+v", v.Proof(touch, b, ""))
	}
}

// A page that is missing for a while, as while its server is updated, fails until it is back with what came meanwhile.
func TestMissingPageIsBack(t *testing.T) {
	p := &pages{gone: map[string]bool{}, text: map[string]string{"/s": "</s> tree:relation [ tree:node </b> ] .\n", "/b": member(1, "")}}
	d := Definition{Kind: LDES, URL: p.serve(t).URL + "/s", Every: registry.Duration(time.Millisecond)}
	b, err := caughtUp(t, d, "")
	if err != nil {
		t.Fatal(err)
	}
	delete(p.text, "/b")
	head := b.Head
	b, err = caughtUp(t, d, b.Cursor)
	if err == nil || !strings.Contains(err.Error(), "/b: 404 Not Found") || b.Head != (Place{}) || b.Gap != "" {
		t.Fatalf("missing: %+v, head %v before, %v", b, head, err)
	}
	p.text["/b"] = member(1, "") + member(2, "")
	if b, err = caughtUp(t, d, b.Cursor); err != nil || strings.Join(texts(b), " ") != "m2" || b.Gap != "" {
		t.Fatalf("back: %v, gap %q, %v", texts(b), b.Gap, err)
	}
	delete(p.text, "/b")
	source, err := feed.Open(d, feed.Options{Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	end, gap, cursor := errors.New("end"), "", b.Cursor
	for began := time.Now(); !errors.Is(err, end) && time.Since(began) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		err = source.Follow(t.Context(), b.Cursor, func(b Batch) error {
			gap, cursor = b.Gap, b.Cursor
			return end
		})
		if errors.Is(err, end) && time.Since(began) < 300*time.Millisecond {
			t.Fatalf("missing for %v: gap %q, %v", time.Since(began), gap, err)
		}
	}
	if !strings.Contains(gap, "/b was removed before it was read to its end") {
		t.Errorf("missing for long: gap %q, %v", gap, err)
	}
	if b, err = caughtUp(t, d, cursor); err != nil || b.Gap != "" || len(b.Events) > 0 {
		t.Errorf("still missing: %v, gap %q, %v", texts(b), b.Gap, err)
	}
	p.text["/b"] = member(3, "")
	if b, err = caughtUp(t, d, b.Cursor); err != nil || strings.Join(texts(b), " ") != "m3" || b.Gap != "" {
		t.Errorf("back after long: %v, gap %q, %v", texts(b), b.Gap, err)
	}
	cursor = b.Cursor
	for _, state := range []string{"gone for good", "and it stays so"} {
		if p.gone["/b"] = true; state != "gone for good" {
			delete(p.gone, "/b")
		}
		b, err = caughtUp(t, d, cursor)
		if cursor = b.Cursor; err != nil || len(b.Events) > 0 || state == "gone for good" != (b.Gap != "") {
			t.Errorf("%s: %v, gap %q, %v", state, texts(b), b.Gap, err)
		}
	}
}

func TestFailingPageProvesNothing(t *testing.T) {
	n := 0
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/turtle")
		if r.URL.Path == "/b" {
			if n > 0 {
				http.Error(w, "no", 500)
				return
			}
			fmt.Fprint(w, `<http://x/c> <https://w3id.org/tree#member> <http://x/n> . <http://x/n> <http://x/of> <http://x/f> .`)
			return
		}
		fmt.Fprintf(w, aStream+`<%s> tree:relation [ tree:node <%s> ] .`, n, n, "http://"+r.Host+"/a", "http://"+r.Host+"/b")
	})
	d := Definition{Kind: LDES, URL: s.URL + "/a"}
	var f proof.Feed
	takeAll(t, d, &f, 1)
	f.Base.Time = begin // a feed that is read for long
	told := time.Now().UTC()
	for n = 1; n <= 3; n++ { // each walk has news on a, and cannot read b
		time.Sleep(100 * time.Millisecond)
		takeAll(t, d, &f, 2)
	}
	f.Failing = "http://…/b: 500" // as Follower.Run does after each walk
	v := viewOf(f)
	b := v.Told(Place{Time: told})
	b.Answered = told
	touch := proof.Touch{Feed: "wd", Reached: Place{Time: begin}}
	if p := v.Proof(touch, b, ""); v.Holds(touch, b) {
		t.Errorf("proved until %v, page b was last read before %v", p.Until, told)
	}
}

// The first walk of an LDES: a member that came after the walk began is no event,
// and so before the head.
func TestFirstWalk(t *testing.T) {
	var published time.Time
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		time.Sleep(500 * time.Millisecond) // other pages
		published = time.Now()
		w.Header().Set("Content-Type", "text/turtle")
		fmt.Fprint(w, `@prefix ldes: <https://w3id.org/ldes#> . @prefix tree: <https://w3id.org/tree#> .
<http://x/c> a ldes:EventStream ; ldes:versionOfPath <http://x/of> ; ldes:timestampPath <http://x/at> ; tree:member <http://x/m1> .
<http://x/m1> <http://x/of> <http://x/e> ; <http://x/p> "1" .`)
	})
	b, err := caughtUp(t, Definition{Kind: LDES, URL: s.URL + "/p"}, "")
	if len(b.Events) == 0 && b.Head.Time.Before(published) {
		t.Errorf("no event, and the head %v is before the member came %v: %v", b.Head.Time, published, err)
	}
}

// A member that comes during the first walk may be older than since by its own date, and is no event then. So
// nothing is proved by an answer from before the end of that walk, also if it is interrupted.
func TestOldMemberOfTheFirstWalk(t *testing.T) {
	for _, fails := range []bool{false, true} {
		var told time.Time
		ns := 0
		s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/turtle")
			self, b := "http://"+r.Host+"/a", "http://"+r.Host+"/b"
			if r.URL.Path == "/a" {
				fmt.Fprintf(w, aStream+`<http://x/m0> <http://x/at> "2026-02-01T00:00:00Z" . <%s> tree:relation [ tree:node <%s> ] .`, 0, 0, self, b)
				return
			}
			if ns++; ns == 1 {
				time.Sleep(200 * time.Millisecond)
				told = time.Now().UTC() // the position of the endpoint, with which a query is answered
				time.Sleep(200 * time.Millisecond)
			}
			if fails && ns == 1 {
				http.Error(w, "no", 500)
				return
			}
			fmt.Fprint(w, `<http://x/c> <https://w3id.org/tree#member> <http://x/n> . <http://x/n> <http://x/of> <http://x/f> ; `+
				`<http://x/at> "2020-01-01T00:00:00Z" .`) // came after that
		})
		d := Definition{Kind: LDES, URL: s.URL + "/a", Since: begin, Every: registry.Duration(20 * time.Millisecond)}
		var f proof.Feed
		if fails {
			takeAll(t, d, &f, 1)
		}
		takeAll(t, d, &f, 2)
		touch := proof.Touch{Feed: "wd", Reached: Place{Time: begin}}
		v := viewOf(f)
		b := v.Told(Place{Time: told})
		b.Answered = told
		if f.Events != 1 || v.Holds(touch, b) {
			t.Errorf("fails %v: %d events, and proved without the member that came during the first walk: %+v", fails, f.Events,
				v.Proof(touch, b, ""))
		}
		b = v.Told(Place{Time: f.Base.Time})
		if b.Answered = told; !v.Holds(touch, b) {
			t.Errorf("fails %v: an answer from the end of the first walk is not proved: %+v", fails, v.Proof(touch, b, ""))
		}
	}
}

// A part of a version that has an IRI of its own is gone in the next one. What the stream has members of is apart.
func TestPartsOfVersions(t *testing.T) {
	member := func(n int, of, text string) string {
		return fmt.Sprintf("<http://x/c> <https://w3id.org/tree#member> <http://x/m%d> . <http://x/m%d> <http://x/of> <%s> ; <http://x/p> %s .\n",
			n, n, of, text)
	}
	head := `@prefix ldes: <https://w3id.org/ldes#> . <http://x/c> a ldes:EventStream ; ldes:versionOfPath <http://x/of> ; ` +
		"ldes:timestampPath <http://x/at> .\n"
	page := head + member(1, "http://x/e", `<http://x/part9> . <http://x/part9> <http://x/q> "1"`) + member(2, "http://x/f", `"1"`) +
		member(3, "http://x/g", `<http://x/f2> . <http://x/f2> <http://x/q> "1"`) + member(4, "http://x/f2", `"1"`)
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/turtle")
		fmt.Fprint(w, page)
	})
	d := Definition{Kind: LDES, URL: s.URL}
	first, err := caughtUp(t, d, "")
	if err != nil || len(first.Events) > 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	page += member(5, "http://x/e", `"2"`) // without its part
	b, err := caughtUp(t, d, first.Cursor)
	if err != nil || len(b.Events) != 1 {
		t.Fatalf("%+v, %v", b, err)
	}
	m := proof.NewMatcher()
	for subject, want := range map[string]Reach{"part9": Possible, "never-seen": Possible, "f": None, "f2": Possible, "e": Matched} {
		p := []sparql.Pattern{{Subject: "<http://x/" + subject + ">", Predicate: "<http://x/p>"}}
		m.Put(subject, p)
		if got := b.Events[0].Reach(p); got != want {
			t.Errorf("%s: %d, want %d", subject, got, want)
		}
		how := None
		m.Reach(&b.Events[0], func(id string, r Reach) {
			if id == subject {
				how = r
			}
		})
		if how != want {
			t.Errorf("the matcher finds %d for %s, want %d", how, subject, want)
		}
	}
	again, err := caughtUp(t, d, b.Cursor)
	if known := func(b Batch) string { // all but when it was read last
		text, _, _ := strings.Cut(b.Cursor, `"head":`)
		return text
	}; err != nil || known(again) != known(b) {
		t.Errorf("without news, the cursor is another one: %v\n%s\n%s", err, b.Cursor, again.Cursor)
	}
}
