package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var stopChromium = func() {}

// chromium is started once for all tests.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, err
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path),
		chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("host-resolver-rules", "MAP freshet.test 127.0.0.1"),
		chromedp.WSURLReadTimeout(patience)) // to start
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	all, stopAll := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, stop := chromedp.NewContext(all)
	stopChromium = func() { stop(); stopAll() }
	return ctx, chromedp.Do(ctx)
})

func needBrowser(t testing.TB) context.Context {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		part(t, "chromium", "apt-get install chromium")
	}
	ctx, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

// patience is the timeout of every wait, generous enough for a loaded machine.
const patience = 3 * time.Minute

// A tab is one page of a browser without cookies. It records what no page may do:
// write to the console, send a request to another host, or receive an error.
type tab struct {
	t    testing.TB
	ctx  context.Context
	base string // URL of its server

	mu       sync.Mutex
	noise    []string
	expected []string // parts of the messages that the test provokes
}

// open opens a tab of the size of a laptop for the server at base.
func open(t testing.TB, base string) *tab {
	t.Helper()
	ctx, stop := chromedp.NewContext(needBrowser(t), chromedp.WithNewBrowserContext())
	x := &tab{t: t, ctx: ctx, base: base}
	if err := chromedp.Listen(ctx, x.hear); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		x.quiet()
		stop()
	})
	x.do(chromedp.EmulateViewport(laptop.width, laptop.height))
	call(x, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watchShifts})
	return x
}

// watchShifts adds up the layout shifts of a page as the browser defines them,
// except those that a click or a key caused.
const watchShifts = `window.__shift = 0; window.__shifted = [];
new PerformanceObserver(list => { for (const e of list.getEntries()) if (!e.hadRecentInput) { window.__shift += e.value;
  for (const s of e.sources) window.__shifted.push(s.node ? (s.node.outerHTML || s.node.textContent).slice(0, 120) : "gone"); } })
  .observe({ type: "layout-shift", buffered: true });`

func (x *tab) hear(event any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		b, _ := json.Marshal(e.Args)
		x.noise = append(x.noise, fmt.Sprintf("console.%s: %s", e.Type, b))
	case *runtime.EventExceptionThrown:
		x.noise = append(x.noise, fmt.Sprintf("exception: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception))
	case *log.EventEntryAdded:
		if strings.HasPrefix(e.Entry.Text, "Autofocus processing was blocked") { // the test has typed before a slow browser came to it
			return
		}
		x.noise = append(x.noise, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(e.Request.URL); err == nil && u.Scheme != "data" && u.Scheme+"://"+u.Host != x.base {
			x.noise = append(x.noise, "a request to another place: "+e.Request.URL)
		}
	}
}

// expect allows messages with this text, because the test provokes them.
func (x *tab) expect(text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.expected = append(x.expected, text)
}

// quiet fails the test for each unexpected message since the last call.
func (x *tab) quiet() {
	x.t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, n := range x.noise {
		if !slices.ContainsFunc(x.expected, func(s string) bool { return strings.Contains(n, s) }) {
			x.t.Errorf("the browser noted: %s", n)
		}
	}
	x.noise = nil
}

func (x *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	x.t.Helper()
	ctx, stop := context.WithTimeout(x.ctx, patience)
	defer stop()
	if err := chromedp.Do(ctx, steps...); err != nil {
		x.t.Fatalf("%v; the page is %s", err, x.where())
	}
}

// where returns the URL and the visible text, for error messages.
func (x *tab) where() string {
	s, err := eval[string](x, `location.href + "\n" + document.body.innerText.slice(0, 1500)`)
	if err != nil {
		return err.Error()
	}
	return s
}

// eval evaluates an expression in the page and waits for promises.
func eval[T any](x *tab, expression string) (T, error) {
	ctx, stop := context.WithTimeout(x.ctx, patience)
	defer stop()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

func must[T any](x *tab, expression string) T {
	x.t.Helper()
	v, err := eval[T](x, expression)
	if err != nil {
		x.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// visit opens a path of the server.
func (x *tab) visit(path string) {
	x.t.Helper()
	x.do(chromedp.Navigate(x.base + path))
}

// wait waits until an expression is true, on any page.
func (x *tab) wait(expression string) {
	x.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(30 * time.Millisecond) {
		if ok, err := eval[bool](x, "!!("+expression+")"); err == nil && ok {
			return
		}
		if time.Now().After(end) {
			x.t.Fatalf("not within %v: %s\non %s", patience, expression, x.where())
		}
	}
}

// waitText waits until the page shows a text.
func (x *tab) waitText(text string) {
	x.t.Helper()
	x.wait(`document.readyState == "complete" && document.body.innerText.includes(` + quote(text) + `)`)
}

func quote(s string) string {
	b, _ := json.Marshal(s) // a string is always JSON
	return string(b)
}

// click clicks the first visible element that matches a selector. It finds and
// clicks the element in one step, so that no live update intervenes.
func (x *tab) click(selector string) {
	x.t.Helper()
	x.wait(`(() => { const el = [...document.querySelectorAll(` + quote(selector) +
		`)].find(e => e.checkVisibility()); el?.click(); return el; })()`)
}

// press clicks the visible button or link whose text begins with text.
func (x *tab) press(text string) {
	x.t.Helper()
	x.wait(`(() => { const el = [...document.querySelectorAll("main button, main a, main summary")].find(e => ` +
		`e.checkVisibility() && e.innerText.trim().startsWith(` + quote(text) + `)); el?.click(); return el; })()`)
}

// fill replaces the value of a field by typing like a user.
func (x *tab) fill(selector, text string) {
	x.t.Helper()
	must[any](x, `(() => { const e = document.querySelector(`+quote(selector)+
		`); e.value = ""; e.dispatchEvent(new Event("input", { bubbles: true })); })()`)
	x.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// as gives the tab the session of a user who has signed in.
func (x *tab) as(role string) {
	x.t.Helper()
	c := session(x.t, x.base, role)
	call(x, network.SetCookie, network.SetCookieParams{Name: c.Name, Value: c.Value, URL: x.base, HTTPOnly: new(true),
		SameSite: network.CookieSameSiteStrict})
}

// A screen is the size of a window.
type screen struct {
	name          string
	width, height int64
}

var (
	laptop = screen{"laptop", 1440, 900}
	tablet = screen{"tablet", 1024, 768}
	phone  = screen{"phone", 360, 780} // the narrowest that is common
)

// show resizes the window to a screen.
func (x *tab) show(s screen) {
	x.t.Helper()
	options := []chromedp.EmulateViewportOption{}
	if s == phone {
		options = append(options, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	x.do(chromedp.EmulateViewport(s.width, s.height, options...))
}

// light sets the preferred color scheme, "light" or "dark".
func (x *tab) light(theme string) {
	x.t.Helper()
	call(x, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: theme}}})
}

// picture saves a picture of the whole page as test output, if "make ui-test" asks for it.
func (x *tab) picture(name string) {
	x.t.Helper()
	if os.Getenv("FRESHET_TEST_PICTURES") == "" {
		return
	}
	r := call(x, page.CaptureScreenshot, page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng,
		CaptureBeyondViewport: new(true), OptimizeForSpeed: new(true)})
	dir := filepath.Join(root, "test-output", "ui")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		x.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), r.Data, 0o644); err != nil {
		x.t.Fatal(err)
	}
}

// call sends a command of the browser's protocol.
func call[P, R any](x *tab, command cdp.Command[P, R], params P) R {
	x.t.Helper()
	ctx, stop := context.WithTimeout(x.ctx, patience)
	defer stop()
	r, err := chromedp.Call(ctx, command, params)
	if err != nil {
		x.t.Fatal(err)
	}
	return r
}
