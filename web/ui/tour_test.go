package ui

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/docs"
)

var (
	toured  = regexp.MustCompile("`(/[^`]*)`")
	quote   = regexp.MustCompile(`"([^"]+)"`)
	heading = regexp.MustCompile(`(?s)<(?:h1|h2|th|dt|a)\b[^>]*>([^<]+)`)
)

// The tour has all pages and no other, and each heading that it quotes is on one of the
// pages of its section.
func TestTour(t *testing.T) {
	text, err := docs.File("tour.md")
	if err != nil {
		t.Fatal(err)
	}
	r, fill := toVisit(t)
	left := map[string]bool{}
	for _, p := range r.pages.pages() {
		left[strings.TrimSuffix(p.path, "{$}")] = true
	}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		seen := map[string]bool{}
		for _, m := range toured.FindAllStringSubmatch(section, -1) {
			route, _, _ := strings.Cut(m[1], "?")
			delete(left, route)
			for _, h := range heading.FindAllStringSubmatch(r.get(fill.Replace(m[1])).status(200).body, -1) {
				seen[strings.TrimSpace(html.UnescapeString(h[1]))] = true
			}
		}
		for _, m := range quote.FindAllStringSubmatch(section, -1) {
			if name := strings.Join(strings.Fields(m[1]), " "); !seen[name] {
				title, _, _ := strings.Cut(section, "\n")
				t.Errorf("%s quotes %q, which is on none of its pages", title, name)
			}
		}
	}
	for route := range left {
		t.Errorf("the tour leaves out %s", route)
	}
}

// toVisit returns a server with one of everything, and the ids for its addresses.
func toVisit(t *testing.T) (*rig, *strings.Replacer) {
	r := signedIn(t, registry.RoleAdmin)
	moving, _, _ := r.three()
	r.endpoint("wikidata")
	r.post("/watch", "link", "Q42", "labels", "en", "name", "adams").status(303)
	r.follower(registry.Subscription{ID: "a", Way: registry.Webhook, Caller: "ops", Query: moving.ID, State: registry.Active,
		Dead: []registry.DeadLetter{{OutboxMessage: registry.OutboxMessage{ID: "msg_1"}, Attempts: 2}}})
	r.post("/rules", "name", "late", "query", moving.ID, "when", "changed").status(303)
	board := r.post("/profiles", "name", "board", "items", moving.ID+" every 2 slots").status(303).Header.Get("Location")
	return r, strings.NewReplacer("/register", "/register?endpoint=city&query=ASK+%7B%3Fs+%3Fp+%3Fo%7D",
		"/queries/{id}", "/queries/"+moving.ID, "{seq}", "2", "/watches/{id}", "/watches/adams", "/endpoints/{name}", "/endpoints/city",
		"/deliveries/{id}", "/deliveries/a",
		"/rules/{id}", "/rules/late", "/profiles/{id}", board, "/tokens/{name}", "/tokens/wall", "{page}", "tour", "{slug}", "gap")
}
