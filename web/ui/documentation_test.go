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
	idAttribute   = regexp.MustCompile(`\sid="([^"]*)"`)
	linkAttribute = regexp.MustCompile(`\s(?:href|src)="([^"]*)"`)
)

// Each page of the documentation is shown without sign-in, and each of its links leads to
// something that the server serves, with the anchor.
func TestDocumentation(t *testing.T) {
	ops, _ := token("ops", registry.RoleAdmin)
	r := newRig(t, ops)
	site, err := docs.Open()
	if err != nil {
		t.Fatal(err)
	}
	bodies := map[string]string{}
	page := func(path string) string {
		if bodies[path] == "" {
			bodies[path] = r.get(path).status(200).body
		}
		return bodies[path]
	}
	paths := []string{"/docs", "/docs?q=budget"}
	for _, g := range site.Groups {
		for _, p := range g.Pages {
			paths = append(paths, p.Path())
		}
	}
	followed := 0
	for _, path := range paths {
		body := page(path)
		seen := map[string]bool{}
		for _, m := range idAttribute.FindAllStringSubmatch(body, -1) {
			if seen[m[1]] {
				t.Errorf("%s has the id %s twice", path, m[1])
			}
			seen[m[1]] = true
		}
		for _, m := range linkAttribute.FindAllStringSubmatch(body, -1) {
			to, anchor, _ := strings.Cut(html.UnescapeString(m[1]), "#")
			switch {
			case strings.HasPrefix(to, "https://") || strings.HasPrefix(to, "http://"):
				continue
			case to == "/": // needs a token
				continue
			case to == "":
				to = path
			}
			followed++
			if at := page(to); anchor != "" && !strings.Contains(at, ` id="`+anchor+`"`) {
				t.Errorf("%s links to %s, which has no %s", path, to, anchor)
			}
		}
	}
	if len(paths) < 9 || followed < 100 {
		t.Errorf("%d links on %d pages seen", followed, len(paths))
	}
}

func TestDocumentationSearch(t *testing.T) {
	r := newRig(t)
	r.get("/docs/").status(200).has("<h1")
	r.get("/docs").status(200).has("<h1", `name="q"`, `href="/docs/watch"`, `aria-current="page"`)
	r.get("/docs?q=Memento").status(200).has("“Memento”", `href="/docs/history#`, "<title>Search: Memento").lacks("No section")
	r.get("/docs?q=%3Cb%3Enothing").status(200).has("No section has all words", "&lt;b&gt;nothing").lacks("<b>nothing")
	r.get("/docs/watch").status(200).has("<title>Watch something without SPARQL · Freshet", `aria-current="page">Watch something`,
		`<pre class="code wrap">`, `<nav class="contents" aria-label="On this page">`, `href="#labels"`, `href="/docs/files/watch.md"`)
	a := r.get("/docs/files/watch.md").status(200).has("# Watch something")
	if typ := a.Header.Get("Content-Type"); typ != "text/markdown; charset=utf-8" {
		t.Errorf("Markdown comes as %s", typ)
	}
	for _, missing := range []string{"/docs/nothing", "/docs/index", "/docs/watch.md", "/docs/files/docs.go",
		"/docs/files/nothing.md", "/docs/files/%2e%2e%2fdocs.go"} {
		r.get(missing).status(404)
	}
}
