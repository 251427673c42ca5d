package browsertest

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
)

// axe returns the accessibility checker from npm.
func axe(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		part(t, "npm", `run "make parts"`)
	}
	return string(b)
}

// bring loads the checker into the page.
func (x *tab) bring(axe string) {
	x.t.Helper()
	if _, err := eval[any](x, axe+";null"); err != nil {
		x.t.Fatal(err)
	}
}

// checkAccess fails the test for each violation of WCAG 2.2 A and AA that axe
// finds on the page.
func (x *tab) checkAccess(what string) {
	x.t.Helper()
	found := must[[]struct {
		ID, Help string
		Nodes    []struct{ HTML, FailureSummary string }
	}](x, `axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], `+
		`resultTypes: ["violations"], preload: false })
		.then(r => r.violations.map(v => ({ ID: v.id, Help: v.help, Nodes: v.nodes.map(n => ({ HTML: n.html, FailureSummary: `+
		`n.failureSummary })) })))`)
	for _, v := range found {
		for _, n := range v.Nodes[:min(3, len(v.Nodes))] {
			x.t.Errorf("%s: %s: %s\n\t%.300s\n\t%s", what, v.ID, v.Help, n.HTML, strings.ReplaceAll(n.FailureSummary, "\n", "\n\t"))
		}
	}
}

// checkWidth fails the test if a page has to be scrolled sideways.
func (x *tab) checkWidth(s screen, what string) {
	x.t.Helper()
	if wide := must[int64](x, "document.documentElement.scrollWidth"); wide > s.width {
		who := must[string](x, fmt.Sprintf(`[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right `+
			`> %d && !e.closest(".scroll, pre, textarea, svg")).map(e => e.outerHTML.slice(0, 120)).slice(-3).join("\n")`, s.width+1))
		x.t.Errorf("%s is %d pixels wide:\n%s", what, wide, who)
	}
}

// The maximum layout shifts as browsers measure them. Above 0.1 a page is considered
// bad. A browser that is slow may show any first part of a page.
const (
	mostShift   = 0.1
	mostInParts = 0.05 // where the test says which part is shown first
)

// checkShift fails the test if the layout of a page shifts each time that arrive opens it. A
// late event of the server may move it once.
func checkShift(t testing.TB, what string, most float64, arrive func() *tab) {
	t.Helper()
	said := ""
	for range 3 {
		x := arrive()
		v := must[float64](x, "window.__shift ?? -1")
		if v >= 0 && v <= most {
			return
		}
		said = fmt.Sprintf("%s: what was there moved, by %.4f: %s", what, v, strings.Join(must[[]string](x, "window.__shifted"), "\n\t"))
		t.Log(said)
	}
	t.Error(said)
}

// checkNames fails the test for duplicate ids and for hostile text that became
// markup or a title.
func (x *tab) checkNames(what string) {
	x.t.Helper()
	if twice := must[string](x, `[...document.querySelectorAll("[id]")].map(e => e.id).filter((id, i, all) => all.indexOf(id) `+
		`!= i).join(" ")`); twice != "" {
		x.t.Errorf("%s has ids twice: %s", what, twice)
	}
	if bad := must[string](x, `document.title.includes("taken over") ? document.title : [...document.querySelectorAll("main `+
		`script:not([src]), main [onerror], main [onmouseover], main [style]")].map(e => e.outerHTML).join("\n")`); bad != "" {
		x.t.Errorf("%s lets in: %s", what, bad)
	}
	if title := must[string](x, "document.title"); !strings.HasSuffix(title, " · Freshet") {
		x.t.Errorf("%s has the title %q", what, title)
	}
}

// TestPages checks each page on a laptop, a tablet and a phone, light and dark, and
// moves through it with the keyboard.
func TestPages(t *testing.T) {
	needBrowser(t)
	checker := axe(t)
	w := shared(t)
	for _, p := range pages(w) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			x := open(t, w.url)
			if p.refused {
				x.expect("Failed to load resource")
			}
			if p.role != "" {
				x.as(p.role)
			}
			x.look(p, phone, checker)
			x.look(p, tablet, checker)
			x.look(p, laptop, checker)
			x.still()
			x.walk()
		})
	}
}

// look opens a page and checks it in both color schemes. On a laptop, which shows
// most, both are checked for accessibility; on a phone only the dark one is. On a
// tablet only the width is checked.
func (x *tab) look(p look, s screen, checker string) {
	x.t.Helper()
	x.show(s)
	x.light("light")
	what := p.name + "-" + s.name
	checkShift(x.t, what, mostShift, func() *tab { // before pictures of the whole page, which enlarge the window for a moment
		x.visit(p.path)
		x.wait(`document.readyState == "complete" && document.querySelector("main h1")`)
		if p.shows != "" {
			x.waitText(p.shows)
		}
		return x
	})
	x.bring(checker)
	x.checkNames(what)
	x.checkWidth(s, what)
	x.picture(what + "-light")
	if s == tablet {
		return
	}
	if s == laptop {
		x.checkAccess(what + "-light")
	}
	x.light("dark")
	x.picture(what + "-dark")
	x.checkAccess(what + "-dark")
}

// TestSlowNetwork checks that no page moves while it arrives in pieces. A browser may
// show the first rows of a table before it knows the width of its columns, or a page
// before its script and its pictures.
func TestSlowNetwork(t *testing.T) {
	needBrowser(t)
	w := shared(t)
	for _, p := range pages(w) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			checkShift(t, p.name, mostInParts, func() *tab { return arriveInParts(t, w, p) })
		})
	}
}

// arriveInParts opens a page whose second half, and then whose scripts and pictures, arrive late.
func arriveInParts(t *testing.T, w *world, p look) *tab {
	t.Helper()
	slow := slowly(t, w.url)
	x := open(t, slow.url)
	if p.refused {
		x.expect("Failed to load resource")
	}
	if p.role != "" {
		x.as(p.role)
	}
	const painted = `performance.getEntriesByName("first-contentful-paint").length > 0`
	call(x, page.Navigate, page.NavigateParams{URL: slow.url + p.path})
	x.wait(`document.querySelector("main")`)
	for range 10 { // time for a browser that would show the first half
		if must[bool](x, painted) {
			break
		}
		time.Sleep(30 * time.Millisecond)
	}
	close(slow.page)
	x.wait(painted)
	close(slow.others)
	x.wait(`document.readyState == "complete" && document.querySelector("main h1")`)
	return x
}

// A slowServer passes requests on to a server. It holds back the second half of a
// page, and then scripts and pictures, until its channels are closed.
type slowServer struct {
	url          string
	page, others chan struct{}
}

func slowly(t testing.TB, base string) *slowServer {
	t.Helper()
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	s := &slowServer{page: make(chan struct{}), others: make(chan struct{})}
	server := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1, // at once
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: func(r *http.Response) error {
			switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind {
			case "text/html":
				b, err := io.ReadAll(r.Body)
				if err != nil {
					return err
				}
				from := max(0, bytes.Index(b, []byte("<main")))
				half := from + (len(b)-from)/2
				r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(b[:half]), closed(s.page), bytes.NewReader(b[half:])))
			case "text/javascript", "image/svg+xml":
				r.Body = io.NopCloser(io.MultiReader(closed(s.others), r.Body))
			}
			return nil
		},
	})
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	s.url = server.URL
	return s
}

// closed is an empty stream that ends when the channel is closed.
type closed chan struct{}

func (c closed) Read([]byte) (int, error) {
	<-c
	return 0, io.EOF
}
