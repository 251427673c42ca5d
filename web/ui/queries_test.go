package ui

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// three registers three queries: one that changes, one that does not, and one that is paused.
func (r *rig) three() (moving, resting, paused registry.Query) {
	r.t.Helper()
	r.endpoint("city")
	moving = r.register("city", "Moving <b>rows</b>", selectText, "air", `"><script>x</script>`)
	resting = r.register("city", "resting", "SELECT ?rest { ?rest ?p ?o }", "rest")
	paused = r.register("city", "\u202epaused", "ASK { ?s ?p ?o }")
	r.oracle.set(moving.ID, table(r.t, [2]diff.Term{iri("a"), lit("1")}))
	r.tick("city")
	if _, err := r.reg.Pause(admin, paused.ID); err != nil {
		r.t.Fatal(err)
	}
	r.oracle.set(moving.ID, table(r.t, [2]diff.Term{iri("a"), lit("2")}))
	r.tick("city")
	return moving, resting, paused
}

// shown returns the order of the queries on a page.
func shown(a *response, all ...registry.Query) string {
	at := map[int]string{}
	for i, q := range all {
		if n := strings.Index(a.body, `id="row-`+q.ID+`"`); n >= 0 {
			at[n] = fmt.Sprint(i)
		}
	}
	out := ""
	for len(at) > 0 {
		least := -1
		for n := range at {
			if least < 0 || n < least {
				least = n
			}
		}
		out += at[least]
		delete(at, least)
	}
	return out
}

func TestQueries(t *testing.T) {
	r := newRig(t)
	r.get("/queries").status(200).has("No query is registered yet.", "Register the first one")
	a, b, c := r.three()
	page := r.get("/queries").status(200).has("1 change in 24 hours", "from 3 queries.", "Moving &lt;b&gt;rows&lt;/b&gt;",
		"live (2)", "paused (1)", `aria-sort="descending"`,
		"1 to 3 of 3", "last 2 slots: ran in 2, 1 change", ">paused<").lacks("<b>rows", "<script>x")
	if got := shown(page, a, b, c); !strings.HasPrefix(got, "0") {
		t.Errorf("sorted by changes: %s", got)
	}
	for query, want := range map[string]string{
		"?state=paused": "2", "?tag=rest": "1", "?q=MOVING": "0", "?q=rest": "1", "?q=%3Fs+%3Chttp://example.org/p%3E": "0",
		"?endpoint=city&sort=name": "012", "?sort=checked": "2",
		"?q=" + a.ID: "0", "?page=99": "0", "?page=-1": "0", "?sort=nonsense": "0",
	} {
		p := r.get("/queries" + query).status(200)
		if got := shown(p, a, b, c); !strings.HasPrefix(got, want) || len(want) > 1 && got != want || strings.Contains(query, "q=") &&
			got != want {
			t.Errorf("%s shows %s, want %s", query, got, want)
		}
	}
	r.get("/queries?q=%3Cscript%3E&state=live&tag=no").has("No query matches",
		"Nothing mentions “&lt;script&gt;” in the state live with the tag no.", `href="/queries"`).lacks("<script>&state")
	r.get("/queries?tag=" + url.QueryEscape(`"><script>x</script>`)).status(200).has("Moving").lacks(`"><script>x`)
}

// One form applies an action to all marked queries, and the next page reports the outcome.
func TestBulk(t *testing.T) {
	r := newRig(t)
	a, b, c := r.three()
	back := "/queries?sort=name"
	r.follow(r.post("/queries", "do", "pause", "id", a.ID, "id", b.ID, "back", back)).has("2 queries are paused.", "paused (3)",
		`aria-sort="ascending"`)
	r.get("/queries").lacks("2 queries are paused.")
	r.follow(r.post("/queries", "do", "resume", "id", c.ID, "back", back)).has("1 query is resumed.", "paused (2)")
	r.follow(r.post("/queries", "do", "refresh", "id", c.ID, "id", "q_gone", "back", back)).has("1 query runs in the next "+
		"slot, 1 not.", "no query has the id q_gone")
	if q, _ := r.reg.Query(c.ID); q.Refreshes != 1 || q.Pause != nil {
		t.Errorf("%+v", q)
	}
	r.follow(r.post("/queries", "do", "pause", "back", "https://evil.example/")).has("No query is selected.", "<h1>Overview</h1>")
	r.post("/queries", "do", "explode", "id", a.ID).status(400).has("does not say what to do")
}

// Readers may only read: other actions are neither offered nor accepted.
func TestRolesOnQueries(t *testing.T) {
	reader, secret := token("reader", registry.RoleRead)
	other, key := token("other", registry.RoleApp)
	r := newRig(t, reader, other)
	a, _, _ := r.three()
	r.post("/signin", "token", secret, "next", "/").status(303)
	r.get("/queries").status(200).has("Moving").lacks(`type="checkbox"`, `value="pause"`)
	r.post("/queries", "do", "pause", "id", a.ID).status(403).has("needs the role app", "reader has read")
	r.post("/signin", "token", key, "next", "/").status(303)
	r.get("/queries").has(`value="pause"`)
	r.follow(r.post("/queries", "do", "pause", "id", a.ID)).has("Nothing was done.", "other does not hold this query")
	if q, _ := r.reg.Query(a.ID); q.Pause != nil {
		t.Error("somebody else paused it")
	}
}

func TestPaging(t *testing.T) {
	r := newRig(t)
	r.endpoint("city")
	var all []registry.Query
	for i := range queriesShown + 5 {
		all = append(all, r.register("city", fmt.Sprintf("n%03d", i), fmt.Sprintf("SELECT ?s { ?s <http://example.org/%d> ?o }", i)))
	}
	one := r.get("/queries?sort=name").has("1 to 30 of 35", `rel="next"`).lacks(`rel="prev"`)
	two := r.get("/queries?sort=name&page=2").has("31 to 35 of 35", `rel="prev"`).lacks(`rel="next"`)
	for i, q := range all {
		if in := strings.Contains(one.body, q.ID); in != (i < 30) || strings.Contains(two.body, q.ID) == in {
			t.Errorf("query %d is on the wrong page", i)
		}
	}
}

func TestByHour(t *testing.T) {
	var b byHour
	const now = 495_000
	for _, h := range []int64{now - 30, now - 23, now - 1, now - 1, now, now - 23, now - 24} {
		b.add(h)
	}
	if s := b.series(now); s[0] != 2 || s[22] != 2 || s[23] != 1 || b.sum(now) != 5 {
		t.Errorf("%v", s)
	}
	if s := b.series(now + 3); s[19] != 2 || s[20] != 1 || s[23] != 0 || b.sum(now+3) != 3 {
		t.Errorf("three hours later: %v", s)
	}
	b.add(now + 100)
	if b.sum(now+100) != 1 {
		t.Errorf("after a long rest: %v", b.series(now+100))
	}
}
