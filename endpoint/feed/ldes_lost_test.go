package feed_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/endpoint/feed"
	"github.com/freshet/freshet/registry"
	. "github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler/proof"
)

// A page that cannot be read, or that leads to another server, does not count as read: once it is mended, its members are told.
func TestBadPageIsNotRead(t *testing.T) {
	for name, bad := range map[string]string{
		"syntax":         " <http://x/bad> <oops",
		"another server": " </t> tree:relation [ tree:node <http://elsewhere.example/c> ] .",
	} {
		text := map[string]string{"/s": "</s> tree:relation [ tree:node </t> ] .\n", "/t": member(1, "")}
		p := &pages{gone: map[string]bool{}, text: text}
		d := Definition{Kind: LDES, URL: p.serve(t).URL + "/s", Every: registry.Duration(time.Millisecond)}
		b, err := caughtUp(t, d, "")
		if err != nil {
			t.Fatal(err)
		}
		text["/t"], text["/s"] = member(1, "")+member(2, "")+bad, text["/s"]+member(3, "") // with news on a page that can be read
		for range 2 {
			if b, err = caughtUp(t, d, b.Cursor); err == nil {
				t.Errorf("%s: no error, members %v", name, texts(b))
			}
		}
		text["/t"] = strings.TrimSuffix(text["/t"], bad)
		if b, err = caughtUp(t, d, b.Cursor); err != nil || strings.Join(texts(b), " ") != "m2" {
			t.Errorf("%s, mended: members %v, %v", name, texts(b), err)
		}
	}
}

// Members that were published and became too old while nothing was read are missing. A member from before shows that none is.
func TestRetentionPassedUnread(t *testing.T) {
	const (
		policy   = "</s> ldes:retentionPolicy [ a ldes:DurationAgoPolicy ] .\n"
		versions = "</s> ldes:retentionPolicy [ a ldes:LatestVersionSubset ] .\n"
		link     = "</s> tree:relation [ tree:node </full> ] .\n"
		full     = "</full> ldes:immutable true .\n"
	)
	old := member(1, "")
	for name, c := range map[string]struct {
		before, after, full, afterFull string
		gap                            bool
	}{
		"only later ones are left": {before: policy + old, after: policy, gap: true},
		"none is left":             {before: policy + old, after: policy + "</s> a </x> .\n", gap: true},
		"one from before is left":  {before: policy + old, after: policy + old},
		"all are kept":             {before: old},
		"the last versions are":    {before: versions + old},
		"it is on a full page":     {before: policy + link, after: policy + link, full: full + old, afterFull: full + old},
		"the full page is removed": {before: policy + link, after: policy + link, full: full + old, gap: true},
	} {
		p := &pages{gone: map[string]bool{}, text: map[string]string{"/s": c.before, "/full": c.full}}
		d := Definition{Kind: LDES, URL: p.serve(t).URL + "/s", Every: registry.Duration(time.Millisecond)}
		b, err := caughtUp(t, d, "")
		if err != nil || b.Gap != "" {
			t.Fatalf("%s: gap %q, %v", name, b.Gap, err)
		}
		for _, when := range []string{"at once", "when nothing is new"} {
			if b, err = caughtUp(t, d, b.Cursor); err != nil || b.Gap != "" {
				t.Errorf("%s: %s: gap %q, %v", name, when, b.Gap, err)
			}
		}
		if p.text["/s"], p.text["/full"] = c.after, c.afterFull; c.afterFull == "" {
			delete(p.text, "/full")
		}
		if name != "none is left" {
			p.text["/s"] += strings.Replace(member(2, ""), "2020-01-01T00:00:00Z", time.Now().UTC().Format(time.RFC3339Nano), 1)
		}
		if b, err = caughtUp(t, d, b.Cursor); err != nil || c.gap != (b.Gap != "") || c.gap && !strings.Contains(b.Gap, "no older members") {
			t.Errorf("%s: gap %q, %v", name, b.Gap, err)
		}
	}
}

// What a cache has of immutable pages does not show that the stream has kept them. A few are asked for, and not all of them.
func TestRetentionBehindACache(t *testing.T) {
	const full = 30
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/turtle")
		const prefixes = "@prefix ldes: <https://w3id.org/ldes#> . @prefix tree: <https://w3id.org/tree#> . @prefix ex: <http://example.org/> ."
		if n := 0; r.URL.Path != "/s" {
			w.Header().Set("Age", "10")
			w.Header().Set("Cache-Control", "immutable")
			fmt.Sscanf(r.URL.Path, "/%d", &n)
			fmt.Fprint(w, prefixes+member(n, ""))
			return
		}
		fmt.Fprint(w, prefixes+"</s> ldes:timestampPath ex:at ; ldes:retentionPolicy [ a ldes:DurationAgoPolicy ] .\n")
		for n := range full {
			fmt.Fprintf(w, "</s> tree:relation [ tree:node </%d> ] .\n", n)
		}
	})
	d := Definition{Kind: LDES, URL: s.URL + "/s", Every: registry.Duration(time.Millisecond)}
	b, err := caughtUp(t, d, "")
	if err != nil || len(s.requests) != 1+full {
		t.Fatalf("%d requests, %v", len(s.requests), err)
	}
	n := len(s.requests)
	if b, err = caughtUp(t, d, b.Cursor); err != nil || !strings.Contains(b.Gap, "no older members") || len(s.requests)-n > 10 {
		t.Errorf("%d requests, gap %q, %v", len(s.requests)-n, b.Gap, err)
	}
}

// What is proved does not go over the time in which members became too old unread.
func TestRetentionPassedUnreadProvesNothing(t *testing.T) {
	const policy = "</s> ldes:retentionPolicy [ a ldes:DurationAgoPolicy ] .\n"
	p := &pages{gone: map[string]bool{}, text: map[string]string{"/s": policy + member(1, "")}}
	d := Definition{Kind: LDES, URL: p.serve(t).URL + "/s", Every: registry.Duration(time.Millisecond)}
	var f proof.Feed
	takeAll(t, d, &f, 2)
	told := time.Now().UTC() // the position of the endpoint, with which a query is answered
	p.text["/s"] = policy + strings.Replace(member(22, ""), "2020-01-01T00:00:00Z", time.Now().UTC().Format(time.RFC3339Nano), 1)
	takeAll(t, d, &f, 2)
	v := viewOf(f)
	b := v.Told(Place{Time: told})
	b.Answered = told
	if touch := (proof.Touch{Feed: "wd", Reached: Place{Time: begin}}); f.Gaps != 1 || v.Holds(touch, b) {
		t.Errorf("%d gaps, proved without what came unread: %+v", f.Gaps, v.Proof(touch, b, ""))
	}
}

// An address that leads to another one means what is there: relative IRIs belong to that, and another page may be there later.
func TestRedirectedPage(t *testing.T) {
	to, page := "/data/7", map[string]string{"/data/7": "<m1>", "/data/8": "<m2>"}
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/s" {
			http.Redirect(w, r, to, http.StatusFound)
			return
		}
		if w.Header().Set("ETag", `"1"`); r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "text/turtle")
		w.Header().Set("Cache-Control", "immutable")
		m := page[r.URL.Path]
		fmt.Fprintf(w, `<http://x/c> <https://w3id.org/ldes#timestampPath> <http://x/at> ; <https://w3id.org/tree#member> %s . %s <http://x/p> 1 .
<> <https://w3id.org/ldes#immutable> true .`, m, m)
	})
	d := Definition{Kind: LDES, URL: s.URL + "/s", Every: registry.Duration(time.Millisecond)}
	b, err := caughtUp(t, d, "")
	if err != nil {
		t.Fatal(err)
	}
	to = "/data/8"
	b, err = caughtUp(t, d, b.Cursor)
	p := []sparql.Pattern{{Subject: "<" + s.URL + "/data/m2>", Predicate: "<http://x/p>"}}
	if err != nil || b.Gap != "" || len(b.Events) != 1 || b.Events[0].Reach(p) != Matched {
		t.Errorf("gap %q, %+v, %v", b.Gap, b.Events, err)
	}
}

// A page that is missing is asked for as long as a page links it. If one links it again, it is read.
func TestMissingPageThatIsLinked(t *testing.T) {
	link := func(to string) string { return "<> tree:relation [ tree:node <" + to + "> ] .\n" }
	p := &pages{gone: map[string]bool{}, text: map[string]string{"/s": link("/full") + link("/1") + link("/2") + link("/3") + link("/4"),
		"/full": "</full> ldes:immutable true .\n" + link("/4"), "/1": link("/2"), "/2": member(1, ""), "/3": "", "/4": ""}}
	s := p.serve(t)
	d := Definition{Kind: LDES, URL: s.URL + "/s", Every: registry.Duration(time.Millisecond)}
	b, err := caughtUp(t, d, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"/1", "/2", "/3", "/4"} {
		delete(p.text, at)
	}
	p.text["/s"] = link("/full")
	source, err := feed.Open(d, feed.Options{Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	end, gaps, cursor := errors.New("end"), 0, b.Cursor
	for began := time.Now(); !errors.Is(err, end) && time.Since(began) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		err = source.Follow(t.Context(), cursor, func(b Batch) error {
			if cursor = b.Cursor; b.Gap == "" {
				return end
			}
			gaps++
			return nil
		})
	}
	if !errors.Is(err, end) || gaps != 4 {
		t.Fatalf("%d gaps, %v", gaps, err)
	}
	n := len(s.requests)
	b, err = caughtUp(t, d, cursor)
	asked := map[string]int{}
	for _, r := range s.requests[n:] {
		asked[r.URL.Path]++
	}
	if err != nil || b.Gap != "" || len(asked) != 3 || asked["/4"] != 1 {
		t.Errorf("requests for %v, gap %q, %v", asked, b.Gap, err)
	}
	p.text["/s"], p.text["/2"], p.text["/4"] = link("/full")+link("/2"), member(1, "")+member(2, ""), member(3, "")
	if b, err = caughtUp(t, d, b.Cursor); err != nil || b.Gap != "" || strings.Join(texts(b), " ") != "m1 m2 m3" {
		t.Errorf("back: members %v, gap %q, %v", texts(b), b.Gap, err)
	}
}

// Pages that are gone for good and that no page links do not count among those that are too many to follow.
func TestManyPagesAreGone(t *testing.T) {
	p := &pages{gone: map[string]bool{}, text: map[string]string{"/s": member(1, ""), "/new": member(2, "")}}
	s := p.serve(t)
	d := Definition{Kind: LDES, URL: s.URL + "/s", Every: registry.Duration(time.Millisecond)}
	b, err := caughtUp(t, d, "")
	if err != nil {
		t.Fatal(err)
	}
	var gone strings.Builder
	for n := range 10_000 {
		fmt.Fprintf(&gone, `"%s/%d":{"digest":1,"gone":true},`, s.URL, n)
	}
	if b, err = caughtUp(t, d, strings.Replace(b.Cursor, `{"pages":{`, `{"pages":{`+gone.String(), 1)); err != nil {
		t.Fatal(err)
	}
	p.text["/s"] += "</s> tree:relation [ tree:node </new> ] .\n"
	if b, err = caughtUp(t, d, b.Cursor); err != nil || strings.Join(texts(b), " ") != "m2" {
		t.Errorf("members %v, %.100v", texts(b), err)
	}
}

// What one page has as its ETag says nothing of another one to which its address leads, or that it was before.
func TestRedirectedToTheSameETag(t *testing.T) {
	to := ""
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/s" && to != "" {
			http.Redirect(w, r, to, http.StatusSeeOther)
			return
		}
		if w.Header().Set("ETag", `"1"`); r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", "text/turtle")
		text, n := aStream, len(r.URL.Path)
		if strings.HasSuffix(r.URL.Path, "/same") { // what its IRIs are depends on its address
			text, n = strings.ReplaceAll(text, "http://x/m", "m"), 9
		}
		fmt.Fprintf(w, text, n, n)
	})
	d := Definition{Kind: LDES, URL: s.URL + "/s", Every: registry.Duration(time.Millisecond)}
	b, err := caughtUp(t, d, "")
	for _, c := range []struct{ to, want string }{
		{"/b22", "m4"}, {"/b4444", "m6"}, {"", "m2"}, {"/same", "m9"}, {"/v/same", "m9"}, {"/v/same", ""},
	} {
		if to = c.to; err != nil {
			t.Fatal(err)
		}
		if b, err = caughtUp(t, d, b.Cursor); strings.Join(texts(b), " ") != c.want || b.Gap != "" {
			t.Errorf("to %q: members %v, want %s, gap %q, %v", c.to, texts(b), c.want, b.Gap, err)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A stream whose addresses lead to others, as where the server negotiates the format, is not read whole again and again. A page
// that is immutable by its own address is so there, too.
func TestRedirectedStreamIsReadOnce(t *testing.T) {
	whole, asked := map[string]int{}, map[string]int{}
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		name, turtle := strings.CutSuffix(r.URL.Path, ".ttl")
		if asked[r.URL.Path]++; !turtle {
			http.Redirect(w, r, r.URL.Path+".ttl", http.StatusSeeOther)
			return
		}
		if w.Header().Set("ETag", strconv.Quote(name)); r.Header.Get("If-None-Match") == strconv.Quote(name) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		whole[name]++
		w.Header().Set("Content-Type", "text/turtle")
		fmt.Fprintf(w, aStream, len(name), len(name))
		for n := range 3 {
			fmt.Fprintf(w, "<%s> tree:relation [ tree:node </full%d> ] . </full%d> ldes:immutable true .\n", name, n, n)
		}
	})
	d := Definition{Kind: LDES, URL: s.URL + "/s", Every: registry.Duration(time.Millisecond)}
	b, err := caughtUp(t, d, "")
	const walks = 4
	for range walks {
		if err != nil || len(b.Events) > 0 || b.Gap != "" {
			t.Fatalf("%d events, gap %q, %v", len(b.Events), b.Gap, err)
		}
		b, err = caughtUp(t, d, b.Cursor)
	}
	for name, n := range whole {
		if n != 1 {
			t.Errorf("%s is sent whole %d times", name, n)
		}
	}
	if n := asked["/full0"] + asked["/full1"] + asked["/full2"]; n != 3+walks || asked["/s"] != 1+walks {
		t.Errorf("full pages are asked for %d times: %v", n, asked)
	}
}

// A page with more transactions than are remembered is read once, and so is one whose transactions were forgotten since.
func TestManyTransactions(t *testing.T) {
	ended := func(from, to int) string {
		var b strings.Builder
		for n := from; n < to; n++ {
			b.WriteString(member(n, fmt.Sprintf("; ex:tx </t%d> ; ex:done true", n)))
		}
		return b.String()
	}
	const link = "</s> tree:relation [ tree:node </a> ] .\n"
	p := &pages{gone: map[string]bool{}, text: map[string]string{"/s": link, "/a": member(1, "; ex:tx </t0>")}}
	d := Definition{Kind: LDES, URL: p.serve(t).URL + "/s", Every: registry.Duration(time.Millisecond)}
	b, err := caughtUp(t, d, "")
	for _, c := range []struct{ s, a, want string }{
		{link + member(2, "; ex:tx </t0> ; ex:done true"), "", "m1 m2"}, // /a is read before its transaction has ended
		{"", "", "m1"},
		{link + ended(3, 1503), "", "1500"}, // t0 is forgotten, and some of these
		{"", "", ""},
		{"", member(1, "; ex:tx </t0>") + member(5000, ""), "m5000"},
		{"", "", ""},
	} {
		if err != nil {
			t.Fatal(err)
		}
		if c.s != "" {
			p.text["/s"] = c.s
		}
		if c.a != "" {
			p.text["/a"] = c.a
		}
		b, err = caughtUp(t, d, b.Cursor)
		if got := strings.Join(texts(b), " "); got != c.want && fmt.Sprint(len(b.Events)) != c.want {
			t.Errorf("members %.100s, want %s", got, c.want)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// A member of a stream without versions that is changed in place has lost what it does not show any more, also where not all
// members are remembered. A new member has lost nothing.
func TestMemberChangedInPlace(t *testing.T) {
	head := `@prefix tree: <https://w3id.org/tree#> . <http://x/c> <https://w3id.org/ldes#timestampPath> <http://x/at> .` + "\n"
	member := func(n int, rest string) string {
		return fmt.Sprintf("<http://x/c> tree:member <http://x/m%d> . <http://x/m%d> <http://x/p> %d %s.\n", n, n, n, rest)
	}
	var many strings.Builder
	for n := range 20_000 {
		many.WriteString(member(1000+n, ""))
	}
	old := []sparql.Pattern{{Subject: "<http://x/m2>", Predicate: "<http://x/old>"}}
	for name, others := range map[string]string{"few members": member(1, ""), "many members": many.String()} {
		text := head + others + member(2, "; <http://x/old> 1 ")
		s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/turtle")
			fmt.Fprint(w, text)
		})
		d := Definition{Kind: LDES, URL: s.URL, Every: registry.Duration(time.Millisecond)}
		b, err := caughtUp(t, d, "")
		if err != nil || len(b.Events) > 0 {
			t.Fatalf("%s: %d events, %v", name, len(b.Events), err)
		}
		text += member(3, "")
		if b, err = caughtUp(t, d, b.Cursor); err != nil || len(b.Events) != 1 || b.Events[0].Reach(old) != None {
			t.Errorf("%s: a new one: %d events, %v", name, len(b.Events), err)
		}
		text = strings.Replace(text, "; <http://x/old> 1 ", "", 1)
		b, err = caughtUp(t, d, b.Cursor)
		if err != nil || reach(b, old[0]) != Possible || name == "few members" && len(b.Events) != 1 {
			t.Errorf("%s: changed: %d events, %v", name, len(b.Events), err)
		}
		if b, err = caughtUp(t, d, b.Cursor); err != nil || len(b.Events) > 0 {
			t.Errorf("%s: unchanged: %d events, %v", name, len(b.Events), err)
		}
	}
}

// A walk that fails goes on where it was: what was read before is not asked for whole again.
func TestFailingWalkGoesOn(t *testing.T) {
	const last = 9
	fails, whole := true, map[string]int{}
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		n := 0
		fmt.Sscanf(r.URL.Path, "/%d", &n)
		if n == last && fails {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		etag := fmt.Sprintf(`"%d"`, n)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		whole[r.URL.Path]++
		w.Header().Set("ETag", etag)
		w.Header().Set("Content-Type", "text/turtle")
		fmt.Fprintf(w, aStream+"<> tree:relation [ tree:node </%d> ] .", n, n, min(n+1, last))
	})
	d := Definition{Kind: LDES, URL: s.URL + "/1", Every: registry.Duration(time.Millisecond)}
	for _, since := range []time.Time{{}, begin} {
		d.Since = since
		fails, whole = true, map[string]int{}
		source, err := feed.Open(d, feed.Options{Pause: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		b, events := Batch{}, 0
		for n := range 4 {
			fails = n < 3
			b, err = follows(t, taker{source, func(b Batch) error {
				if events += len(b.Events); len(b.Events) == 0 {
					return errors.New("end")
				}
				return nil
			}}, b.Cursor)
			if err == nil {
				t.Fatal("no error")
			}
		}
		for at, n := range whole {
			if n != 1 {
				t.Errorf("since %v: %s was sent whole %d times", since, at, n)
			}
		}
		if want := map[bool]int{true: last}[!since.IsZero()]; events != want || len(whole) != last {
			t.Errorf("since %v: %d pages, %d events, want %d", since, len(whole), events, want)
		}
	}
}

// A taker is a source whose batches a function takes, too.
type taker struct {
	Source
	also func(Batch) error
}

func (s taker) Follow(ctx context.Context, cursor string, take func(Batch) error) error {
	return s.Source.Follow(ctx, cursor, func(b Batch) error { return errors.Join(take(b), s.also(b)) })
}
