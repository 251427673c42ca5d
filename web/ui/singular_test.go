package ui

import (
	"html"
	"regexp"
	"testing"
)

var (
	tags    = regexp.MustCompile(`<[^>]*>`)
	plural1 = regexp.MustCompile(`(^|[^0-9.,])1[ \x{202f}](rows|queries|slots|changes|triples|endpoints|followers|executions|` +
		`runs|versions|alerts|nodes)\b`)
)

// With one of everything, no page says "1 rows".
func TestOneIsSingular(t *testing.T) {
	r := newRig(t)
	r.endpoint("city")
	q := r.register("city", "n", selectText)
	r.oracle.set(q.ID, r.numbers(1))
	r.tick("city")
	for _, path := range []string{"/", "/queries", "/queries/" + q.ID, "/queries/" + q.ID + "/changes/1", "/endpoints",
		"/endpoints/city", "/endpoints/city?tab=queries&slot=1",
		"/endpoints/city?tab=settings&compare=1", "/endpoints/city/remove", "/register", "/rules", "/about"} {
		a := r.get(path).status(200)
		if said := plural1.FindString(html.UnescapeString(tags.ReplaceAllString(a.body, ""))); said != "" {
			t.Errorf("%s says %q", path, said)
		}
	}
}
