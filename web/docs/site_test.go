package docs

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/yuin/goldmark/ast"
)

func site(t *testing.T) *Site {
	t.Helper()
	s, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every file is a page, and is in the list of pages once.
func TestPagesAreListed(t *testing.T) {
	s := site(t)
	var listed []string
	for _, g := range s.Groups {
		for _, p := range g.Pages {
			listed = append(listed, p.Name+".md")
		}
	}
	names, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(listed)
	if want := slices.DeleteFunc(names, func(n string) bool { return n == "index.md" }); !slices.Equal(listed, want) {
		t.Errorf("the list has %q, the directory %q", listed, want)
	}
	for _, link := range s.Index.links {
		if strings.HasSuffix(link, ".md") && !slices.Contains(listed, link) {
			t.Errorf("index.md lists %s, which is not there", link)
		}
	}
}

// A page that the index does not list comes last.
func TestUnlistedPage(t *testing.T) {
	s, err := read(fstest.MapFS{
		"index.md": {Data: []byte("# Index\n\n## First\n\n- [B](b.md): and [B again](b.md#x)\n\n## Second\n\n- [A](a.md)\n")},
		"a.md":     {Data: []byte("# About a\n")}, "b.md": {Data: []byte("# About b\n\n## x\n")}, "c.md": {Data: []byte("# About c\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range s.Groups {
		got = append(got, g.Title+":")
		for _, p := range g.Pages {
			got = append(got, p.Title)
		}
	}
	if want := []string{"First:", "About b", "Second:", "About a", ":", "About c"}; !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
}

func TestRender(t *testing.T) {
	p, err := render("x", []byte("# The `x` page\n\n<!-- test: hidden -->\nSee [that](b.md#two), [here](#again-1), "+
		"[API](openapi.yaml), [out](https://example.org/?a=1&b=2) ![p](concepts.svg).\n\n"+
		"<script>alert(1)</script>\n\n## Again\n\n## Again\n\n| a | |\n|---|---|\n| `<b>` |\n\n```sh\necho '<table>' $a # "+
		"c\n```\n\n```text\na <b>\n```\n"))
	if err != nil {
		t.Fatal(err)
	}
	html := string(p.HTML)
	for _, want := range []string{`href="/docs/b#two"`, `href="#again-1"`, `href="/v1/openapi.yaml"`,
		`href="https://example.org/?a=1&amp;b=2"`, `src="/docs/files/concepts.svg" alt="p" width="760" height="300"`,
		`<h2 id="again">`, `<h2 id="again-1">`, `<table class="tbl" role="table">`, `<th scope="col" role="columnheader">a</th>`,
		`<code>&lt;b&gt;</code>`,
		`<pre class="code wrap"><code class="language-sh"><span class="k">echo</span> <span class="s">&#39;&lt;table&gt;&#39;` +
			`</span> <span class="v">$a</span><span class="c"> # c</span>`,
		`<pre class="code" tabindex="0"><code class="language-text">a &lt;b&gt;`} {
		if !strings.Contains(html, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, bad := range []string{"<script", "hidden", `"columnheader"></th>`} {
		if strings.Contains(html, bad) {
			t.Errorf("%s is there", bad)
		}
	}
	if t.Failed() {
		t.Log(html)
	}
	if p.Title != "The x page" {
		t.Errorf("title %q", p.Title)
	}
	for _, bad := range []string{"", "text\n", "# A\n[b](../b.md)\n", "# A\n[b](//x/b)\n"} {
		if _, err := render("x", []byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestSearch(t *testing.T) {
	s, err := read(fstest.MapFS{
		"index.md": {Data: []byte("# Index\n\n## All\n\n- [A](a.md)\n- [B](b.md)\n")},
		"a.md":     {Data: []byte("# Follow changes\n\nA budget is a bound.\n\n## Limits\n\nOf a slot.\n")},
		"b.md":     {Data: []byte("# Endpoints\n\n## The Budget\n\nExecution " + strings.Repeat("seconds and ", 40) + "a slot end é here.\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string][]string{
		"budget":         {"/docs/b#the-budget", "/docs/a"}, // a heading comes first
		"BUDGET slot":    {"/docs/b#the-budget"},
		"follow slot":    {"/docs/a#limits"}, // one word in the title
		"follow changes": {"/docs/a"},
		"nothing":        nil, "": nil, "budget nothing": nil,
	} {
		var got []string
		for _, h := range s.Search(query) {
			got = append(got, h.Link)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q found %q, want %q", query, got, want)
		}
	}
	if h := s.Search("end é"); len(h) != 1 || !strings.Contains(h[0].Excerpt, "slot end é here.") || len(h[0].Excerpt) > 2*around {
		t.Errorf("found %v", h)
	}
}

// TestLinks checks the links in all Markdown files of the tree: that files and headings are
// there, and that addresses of others are well-formed. It uses no network.
func TestLinks(t *testing.T) {
	const root = "../.."
	seen := 0
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "node_modules", "testdata", "test-output", "bin"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".md":
			return nil
		}
		for _, link := range linksOf(t, file) {
			seen++
			if bad := broken(t, file, link); bad != "" {
				t.Errorf("%s: %s: %s", file, link, bad)
			}
		}
		return nil
	})
	if err != nil || seen < 30 {
		t.Errorf("%d links seen: %v", seen, err)
	}
}

func linksOf(t *testing.T, file string) (links []string) {
	walkFile(t, file, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Link:
			links = append(links, string(n.Destination))
		case *ast.Image:
			links = append(links, string(n.Destination))
		}
	})
	return links
}

func walkFile(t *testing.T, file string, visit func(ast.Node)) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_ = ast.Walk(parse(text), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			visit(n)
		}
		return ast.WalkContinue, nil
	})
}

// broken says what is wrong with a link in a file, "" for nothing.
func broken(t *testing.T, file, link string) string {
	u, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	switch {
	case u.Scheme != "" || u.Host != "":
		if u.Scheme != "https" && u.Scheme != "http" || !strings.Contains(u.Hostname(), ".") {
			return "no address of the web"
		}
		return ""
	case strings.HasPrefix(u.Path, "/"):
		return "depends on the server"
	}
	to := file
	if u.Path != "" {
		to = filepath.Join(filepath.Dir(file), filepath.FromSlash(u.Path))
	}
	if _, err := os.Stat(to); err != nil {
		return "no such file"
	}
	if u.Fragment == "" {
		return ""
	}
	found := false
	if filepath.Ext(to) == ".md" {
		walkFile(t, to, func(n ast.Node) {
			if h, ok := n.(*ast.Heading); ok {
				id, _ := h.AttributeString("id")
				found = found || string(id.([]byte)) == u.Fragment
			}
		})
	}
	if !found {
		return "no such heading"
	}
	return ""
}

func TestLinksFindsBroken(t *testing.T) {
	for _, bad := range []string{"none.md", "watch.md#none", "#none", "/docs/watch", "ftp://example.org/", "https://localhost/", "docs.go#x"} {
		if broken(t, "index.md", bad) == "" {
			t.Errorf("%s is accepted", bad)
		}
	}
	for _, good := range []string{"watch.md", "watch.md#labels", "#how-to", "../../README.md", "https://example.org/a#b", "docs.go"} {
		if why := broken(t, "index.md", good); why != "" {
			t.Errorf("%s: %s", good, why)
		}
	}
}

// People search for the names of what they have.
func TestSearchFindsWhatPeopleHave(t *testing.T) {
	for _, word := range []string{"nginx", "caddy", "cors", "kubernetes", "docker", "tls", "webhook signature", "websocket",
		"javascript", "postgres"} {
		if len(site(t).Search(word)) == 0 {
			t.Errorf("a search for %q finds nothing", word)
		}
	}
}
