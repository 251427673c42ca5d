package trial

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// A hostileFeed is silent until it begins its attack.
type hostileFeed struct {
	http  *httptest.Server
	began atomic.Bool
	sent  atomic.Int64 // bytes
}

func newHostileFeed(t *testing.T, attack func(w io.Writer) error) *hostileFeed {
	f := &hostileFeed{}
	f.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for r.Context().Err() == nil {
			if !f.began.Load() {
				time.Sleep(20 * time.Millisecond)
				continue
			}
			if attack(counting{w, &f.sent}) != nil {
				return
			}
		}
	}))
	t.Cleanup(f.http.Close)
	return f
}

type counting struct {
	io.Writer
	n *atomic.Int64
}

func (c counting) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// wikidataMessage is a message with an offset and the triples of an edit.
func wikidataMessage(offset int64, turtle string) string {
	text, _ := json.Marshal(turtle) // a text can be encoded
	return fmt.Sprintf("id: [{\"topic\":\"m\",\"partition\":0,\"offset\":%[1]d}]\ndata: {"+
		"\"$schema\":\"/mediawiki/wikibase/entity/rdf_change/2.0.0\","+
		"\"entity_id\":\"Q%[2]d\",\"operation\":\"diff\",\"sequence\":0,\"sequence_length\":1,\"rev_id\":%[1]d,\"dt\":%[3]q,"+
		"\"meta\":{\"domain\":\"www.wikidata.org\",\"topic\":\"m\",\"partition\":0,\"offset\":%[1]d,\"dt\":%[3]q},"+
		"\"rdf_added_data\":{\"mime_type\":\"text/turtle\",\"data\":%[4]s}}\n\n",
		offset, offset%1000+1, time.Now().UTC().Format(time.RFC3339), text)
}

// Feeds that flood, send too much at once, redirect, send garbage or nothing cost at most 100 MB of memory each, and
// 180 MB if eight do it together, and an endpoint without a feed keeps its slots. Usually it is 50 and 100 MB: when
// the garbage of long messages is collected is a matter of chance.
func TestHostileFeeds(t *testing.T) {
	var offset atomic.Int64
	flood := newHostileFeed(t, func(w io.Writer) error {
		begin := time.Now()
		var b strings.Builder
		for range 1000 {
			n := offset.Add(1)
			b.WriteString(wikidataMessage(n, fmt.Sprintf("<http://www.wikidata.org/entity/Q%d> <http://x/p> %d .", n%1000+1, n)))
		}
		_, err := io.WriteString(w, b.String())
		time.Sleep(time.Until(begin.Add(100 * time.Millisecond))) // 10,000 a second
		return err
	})
	ten, million := strings.Repeat("x", 10<<20), "<uri:s> <uri:p> "+strings.Repeat("1,", 1_000_000)+"1 ."
	var big atomic.Int64
	large := newHostileFeed(t, func(w io.Writer) error {
		text := million
		if big.Load()%2 == 0 {
			text = "<uri:s> <uri:p> \"" + ten + "\" ."
		}
		_, err := io.WriteString(w, wikidataMessage(big.Add(1), text))
		return err
	})
	garbage := newHostileFeed(t, func(w io.Writer) error {
		_, err := io.WriteString(w, "data: \x00\xff{]"+strings.Repeat("\x01", 1<<20)+"\n\n")
		return err
	})
	endless := newHostileFeed(t, func(w io.Writer) error { // a line without an end
		_, err := io.WriteString(w, strings.Repeat("data", 1<<18))
		return err
	})
	page := "@prefix tree: <https://w3id.org/tree#> . <#s> tree:member <#m> . <#m> <#p> " +
		strings.Repeat("1,2,3,4,5,6,7,8,9,", 500_000) + "0 ."
	pages := newHostileFeed(t, nil)
	pages.http.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/turtle")
		if pages.began.Load() {
			io.WriteString(w, page)
		}
	})
	silent := newHostileFeed(t, func(io.Writer) error { time.Sleep(20 * time.Millisecond); return nil })
	elsewhere := httptest.NewServer(http.RedirectHandler("http://127.0.0.2:1/", http.StatusFound))
	defer elsewhere.Close()
	circle := httptest.NewServer(http.RedirectHandler("/again", http.StatusFound))
	defer circle.Close()
	city := &patchedCity{}
	city.publish(-1, 0)
	ep := httptest.NewServer(http.HandlerFunc(city.answer))
	defer ep.Close()
	feeds, endpoints := "", ""
	for name, at := range map[string]string{"flood": flood.http.URL, "large": large.http.URL, "garbage": garbage.http.URL,
		"endless": endless.http.URL,
		"silent":  silent.http.URL, "elsewhere": elsewhere.URL, "circle": circle.URL} {
		feeds += fmt.Sprintf("  - {name: %s, kind: wikimedia, url: %q}\n", name, at)
		endpoints += fmt.Sprintf("  - {name: at-%s, url: %q, slot: \"@every 1s\", budget: 500ms, policy: rr, feed: %[1]s}\n", name, ep.URL)
	}
	feeds += fmt.Sprintf("  - {name: pages, kind: ldes, url: %q, every: 100ms}\n", pages.http.URL)
	endpoints += fmt.Sprintf("  - {name: at-pages, url: %q, slot: \"@every 1s\", budget: 500ms, feed: pages}\n", ep.URL)
	yaml := "feeds:\n" + feeds + "endpoints:\n" + endpoints +
		fmt.Sprintf("  - {name: good, url: %q, slot: \"@every 1s\", budget: 500ms, policy: rr}\n", ep.URL)
	srv := clitest.Serve(t, binary(t), clitest.FreeAddr(t), t.TempDir(), yaml)
	for _, name := range []string{"good", "at-flood", "at-large"} {
		for i := range 50 {
			text := fmt.Sprintf("SELECT ?n { <http://x/%d> <http://x/n> ?n . ?e <http://x/p> ?v }", i)
			resp, err := http.Post(srv.Url+"/v1/queries?endpoint="+name, "application/sparql-query", strings.NewReader(text))
			if err != nil || resp.StatusCode >= 300 {
				t.Fatal(resp, err)
			}
			resp.Body.Close()
		}
	}
	get := func(path string, to any) error {
		resp, err := http.Get(srv.Url + path)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		return json.NewDecoder(resp.Body).Decode(to)
	}
	slots := func() uint64 {
		var page struct{ Slots []struct{ Slot uint64 } }
		if err := get("/v1/endpoints/good/slots?limit=1", &page); err != nil || len(page.Slots) == 0 {
			return 0
		}
		return page.Slots[0].Slot
	}
	clitest.Eventually(t, "slots", func() bool { return slots() >= 3 })
	before := resident(t, srv.Cmd.Process.Pid)
	attack := func(d time.Duration, feeds ...*hostileFeed) (most int64) {
		for _, f := range feeds {
			f.began.Store(true)
			defer f.began.Store(false)
		}
		for begin := time.Now(); time.Since(begin) < d; time.Sleep(20 * time.Millisecond) {
			most = max(most, resident(t, srv.Cmd.Process.Pid))
		}
		return most
	}
	attackers := []*hostileFeed{flood, large, garbage, endless, silent, pages}
	for i, f := range attackers {
		if more := (attack(time.Second, f) - before) >> 20; more > 130 { // with what the collector has not given back of those before
			t.Errorf("feed %d alone: %d MB more", i, more)
		}
	}
	was, begin := slots(), time.Now()
	most := attack(6*time.Second, attackers...)
	ran, took := slots()-was, time.Since(begin)
	var list struct {
		Feeds []struct {
			Name, State, Error string
			Events             int
		}
	}
	if err := get("/v1/feeds", &list); err != nil {
		t.Error(err)
	}
	t.Logf("%d MB before and %d MB at most; %d slots in %v; %d MB of the flood, %d MB of large messages; %+v", before>>20, most>>20, ran, took,
		flood.sent.Load()>>20, large.sent.Load()>>20, list)
	if more := (most - before) >> 20; more > 180 {
		t.Errorf("%d MB more", more)
	}
	if ran < 4 {
		t.Errorf("%d slots in %v", ran, took)
	}
	for _, f := range list.Feeds {
		switch f.Name {
		case "pages":
			if f.State != "failing" || !strings.Contains(f.Error, "smaller pages") {
				t.Errorf("%+v", f)
			}
		case "elsewhere", "circle":
			if f.State != "failing" || !strings.Contains(f.Error, "redirect") {
				t.Errorf("%+v", f)
			}
		case "flood", "large":
			if f.Events == 0 {
				t.Errorf("%+v", f)
			}
		}
	}
	if said := srv.Stderr.String(); strings.Contains(said, "panic") {
		t.Error(said)
	}
}

// resident is the resident memory of a process, in bytes.
func resident(t *testing.T, pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	var kB int64
	for line := range strings.Lines(string(text)) {
		if n, _ := fmt.Sscanf(line, "VmRSS: %d", &kB); n == 1 {
			return kB << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
