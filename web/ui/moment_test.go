package ui

import (
	"errors"
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// Every time at which a version was current is an address of that version, and each version has
// one such address.
func TestVersionsByTime(t *testing.T) {
	r := newRig(t)
	var q registry.Query
	r.endpoint("city")
	q = r.register("city", "n", selectText)
	at := queryPath(q.ID)
	const versions = 60 // more than the page plots
	for i := range versions {
		r.oracle.set(q.ID, r.numbers(i))
		r.tick("city")
	}
	st, _, err := r.store.History.Current(q.ID, false)
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.store.History.After(q.ID, registry.Position{Epoch: st.Position.Epoch}, versions)
	if err != nil || len(all) != versions {
		t.Fatalf("%d changes, %v", len(all), err)
	}
	show := func(moment time.Time) *response {
		return r.get(at + "?" + url.Values{"at": {moment.UTC().Format(time.RFC3339Nano)}}.Encode()).status(200)
	}
	for i, c := range all {
		if i > 5 && i < len(all)-2 && i%10 != 0 {
			continue
		}
		moments := []time.Time{c.Time}
		if i+1 < len(all) {
			moments = append(moments, all[i+1].Time.Add(-1))
		} else {
			moments = append(moments, c.Time.Add(time.Hour))
		}
		for _, m := range moments {
			if !m.Before(c.Time) {
				show(m).has("version " + itoa(c.Seq) + " since")
			}
		}
	}
	show(all[0].Time.Add(-1)).has("The first result is of ")
	r.get(at + "?at=yesterday").status(200).has("Write a date and a time in UTC")
	page := r.get(at+"?b=3").has(`<option value="3" selected>3, `, `<option value="60">60, `, ", newest", `<option value="">nothing</option>`)
	link := regexp.MustCompile(`href="([^"]+)">link to this time`).FindStringSubmatch(page.body)
	if link == nil {
		t.Fatal("no link by time")
	}
	path, _, _ := strings.Cut(html.UnescapeString(link[1]), "#")
	r.get(path).has("version 3 since")
	r.get(at + "?" + url.Values{"b": {all[2].Time.UTC().Format(time.RFC3339Nano)}}.Encode()).has("version 3 since") // the field takes both
}

func TestMomentsThatAreRead(t *testing.T) {
	for text, want := range map[string]string{"2026-11-20T09:30": "09:30:00", "2026-11-20T09:30:15": "09:30:15",
		"2026-11-20T09:30:15.5+01:00": "08:30:15", " 2026-11-20 09:30 ": "09:30:00", "2026-11-20": "00:00:00"} {
		if got, err := readMoment(text); err != nil || got.Format("15:04:05") != want {
			t.Errorf("%q reads as %s, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "now", "9:30", "2026-13-01"} {
		var p *registry.Problem
		if _, err := readMoment(bad); !errors.As(err, &p) || p.Kind != registry.KindMalformed {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A query without a time for its next run says why.
func TestNextRun(t *testing.T) {
	c := clock{time.Now()}
	for _, x := range []struct {
		due     time.Time
		running bool
		has     string
	}{{time.Time{}, true, "after this slot"}, {time.Time{}, false, none}, {c.now.Add(time.Minute + time.Second), false, "in 1"}} {
		if got := rendered(t, "queries", "query-row", queryRow{Next: c.Next(x.due), Running: x.running}); !strings.Contains(got, x.has) {
			t.Errorf("due %v, running %v: %s", x.due, x.running, got)
		}
	}
}

// The explanation begins with one sentence and a few bars. The other numbers are folded, and no
// term occurs twice.
func TestExplanationOfHybrid(t *testing.T) {
	r := newRig(t)
	e, err := r.reg.CreateEndpoint(admin, registry.Endpoint{Name: "city", URL: "http://127.0.0.1:3030/sparql", Slot: "@every 1h",
		Budget: registry.Duration(30 * time.Millisecond), Policy: "hybrid"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.daemon.Add(e, r.oracle); err != nil {
		t.Fatal(err)
	}
	q := r.register("city", "n", selectText)
	r.register("city", "m", "ASK { ?s ?p ?o }") // a slot has time for only one of the queries
	for i := range 12 {
		r.oracle.set(q.ID, r.numbers(i/2))
		r.tick("city")
	}
	page := r.get(queryPath(q.ID)).status(200).has("other numbers that hybrid goes by")
	_, why, _ := strings.Cut(page.body, `id="why"`)
	why, _, _ = strings.Cut(why, "</section>")
	say := regexp.MustCompile(`<p class="say">(It is [^<]* in the order of hybrid, because [^<.]*\.)`).FindString(why)
	if say == "" {
		t.Errorf("no reason at the beginning: %.600s", why)
	}
	bars := regexp.MustCompile(`<li><span>([^<]*)</span>`).FindAllStringSubmatch(why, -1)
	if len(bars) == 0 || len(bars) > 5 {
		t.Errorf("%d bars: %v", len(bars), bars)
	}
	seen := map[string]bool{}
	for _, m := range append(bars, regexp.MustCompile(`<dt>([^<]*)</dt>`).FindAllStringSubmatch(why, -1)...) {
		if seen[m[1]] {
			t.Errorf("%q occurs twice", m[1])
		}
		seen[m[1]] = true
	}
}
