package browsertest

import (
	"strings"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A stop is an element that has the keyboard focus.
type stop struct {
	Who     string // the beginning of its markup
	Number  int    // its index among the reachable elements
	Ring    bool   // it has a visible focus ring
	Covered bool   // another element covers it
}

// reachable numbers the elements that the keyboard has to reach: every visible
// link, button and field, and one radio button of each group.
const reachable = `(() => { const groups = new Set(); let n = 0;
	for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")) {
		if (!e.checkVisibility({ visibilityProperty: true }) || e.disabled || e.closest("[inert]") || e.tabIndex < 0) continue;
		if (e.type == "radio") { const g = e.form?.id + e.name + (e.form?.action ?? ""); if (groups.has(g)) continue; groups.add(g); }
		e.dataset.stop = n++;
	} return n; })()`

// standing records the focused element after each key. A ring is an outline of the
// element or, for an editor, of its parent.
const standing = `window.__stops = []; addEventListener("keyup", () => { const on = () => { const e = ` +
	`document.activeElement; if (!e || e === document.body || e === document.documentElement) return { Number: -1 };
	const ring = x => { const c = getComputedStyle(x); return c.outlineStyle != "none" && parseFloat(c.outlineWidth) >= 2; };
	const r = e.getClientRects()[0] ?? e.getBoundingClientRect(), x = r.left + Math.min(r.width, 40) / 2, y = r.top + ` +
	`Math.min(r.height, 24) / 2, over = document.elementFromPoint(x, y);
	const seen = over && (e.contains(over) || over.contains(e) || e.labels?.[0]?.contains(over));
	const group = e.type == "radio" && document.querySelector('input[type=radio][data-stop][name="' + e.name + '"]');
	return { Who: e.outerHTML.slice(0, 140), Number: +(e.dataset.stop ?? (group ? group.dataset.stop : -2)), Ring: ring(e) || ` +
	`ring(e.parentElement), Covered: !seen }; };
	__stops.push(on()); }, true)`

// still stops the live updates of the page, so that its elements stay the same.
func (x *tab) still() {
	x.t.Helper()
	if must[bool](x, `!!document.querySelector(".rail [data-do=pause-live]")`) {
		x.click(".rail [data-do=pause-live]")
		must[any](x, `document.activeElement.blur()`)
	}
}

// walk moves through the page with Tab alone. Every element must be reached, show
// a focus ring, and not be covered.
func (x *tab) walk() {
	x.t.Helper()
	n := must[int](x, reachable)
	must[any](x, standing)
	x.do(chromedp.KeyEvent(strings.Repeat(kb.Tab, n+2))) // two more for the window's own controls
	met := make([]bool, n)
	for _, s := range must[[]stop](x, `__stops`) {
		if s.Number < 0 || met[s.Number] {
			continue
		}
		met[s.Number] = true
		if !s.Ring {
			x.t.Errorf("nothing shows that the keyboard is at %s", s.Who)
		}
		if s.Covered {
			x.t.Errorf("covered: %s", s.Who)
		}
	}
	for i, ok := range met {
		if !ok {
			x.t.Errorf("the keyboard does not reach %s", must[string](x, `document.querySelector('[data-stop="`+itoa(i)+
				`"]')?.outerHTML.slice(0, 140) ?? "what is gone"`))
		}
	}
}
