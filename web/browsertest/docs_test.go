package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/input"
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

// A button copies a block of code as it is written. Outputs have none. The contents of the
// page are beside it where there is room, and no page is scrolled sideways.
func TestDocumentationCode(t *testing.T) {
	needBrowser(t)
	x := open(t, shared(t).url)
	x.visit("/docs/cluster")
	x.do(chromedp.Click(chromedp.CSS("pre.wrap .btn")))
	x.wait(`document.querySelector("pre.wrap .btn").textContent == "Copied"`)
	x.do(chromedp.Click(chromedp.CSS("#f-q")))
	call(x, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Commands: []string{"paste"}})
	x.wait(`document.querySelector("#f-q").value.startsWith("head -c 32 /dev/urandom | base64 > token")`)
	x.wait(`!document.querySelector(".language-text .btn, .language-text + .btn")`)
	checker := axe(t)
	for i, width := range []int64{360, 1280, 1920} {
		x.show(screen{width: width, height: 900})
		x.light([]string{"light", "dark"}[i%2])
		for _, p := range []string{"proxy", "javascript"} {
			x.visit("/docs/" + p)
			x.checkWidth(screen{width: width}, p)
			x.wait(fmt.Sprintf(`document.querySelector(".contents").checkVisibility() == %v`, width >= 1280))
			x.picture(fmt.Sprintf("docs-%s-%d", p, width))
			x.bring(checker)
			x.checkAccess(fmt.Sprintf("%s at %d", p, width))
		}
	}
}
