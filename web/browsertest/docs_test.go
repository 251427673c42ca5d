package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// The documentation is read without sign-in: a link leads to a page, one of its links to a
// heading of another, and a search to a section.
func TestDocumentation(t *testing.T) {
	needBrowser(t)
	x := open(t, shared(t).url)
	x.visit("/docs")
	x.press("Read results of the past")
	x.wait(`location.pathname == "/docs/history" && document.readyState == "complete"`)
	x.waitText("Read results of the past")
	x.click(`nav[aria-label="Documentation"] a[href="/docs/endpoints"]`)
	x.wait(`location.pathname == "/docs/endpoints" && document.readyState == "complete"`)
	x.fill("#f-q", "packs Memento")
	x.do(chromedp.KeyEvent(kb.Enter))
	x.waitText("No section has all words")
	x.fill("#f-q", "well-known packs")
	x.press("Search")
	x.waitText("with “well-known packs”")
	x.click(".found a")
	x.wait(`location.pathname == "/docs/endpoints" && location.hash == "#well-known-endpoints-packs" && document.readyState == "complete"`)
	x.wait(`(() => { const y = document.querySelector(":target").getBoundingClientRect().top; return y >= 0 && y < innerHeight })()`)
}
