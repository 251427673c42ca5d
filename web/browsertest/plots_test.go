package browsertest

import (
	"strings"
	"testing"
)

// Every plot shows its values, mark by mark with the keyboard, and under the
// pointer. Escape hides them.
func TestPlotsSayTheirValues(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	x.as("admin")
	for _, path := range []string{"/", "/queries/" + w.queries["free"], "/endpoints/city", "/profiles"} {
		x.visit(path)
		x.wait(`document.readyState == "complete" && document.querySelector("svg[data-plot][tabindex]")`)
		x.still()
		mute := must[string](x, `[...document.querySelectorAll("svg[role=img]")].filter(e => !e.matches("[data-plot], .meter, `+
			`.tbl .strip") && e.checkVisibility()).map(e => e.outerHTML.slice(0, 120)).join("\n")`)
		if mute != "" {
			t.Errorf("%s: plots that say nothing:\n%s", path, mute)
		}
		wrong := must[[]string](x, `(() => { const out = [], tip = document.getElementById("tip"), words = () => tip.hidden ? "" `+
			`: tip.textContent;
			for (const svg of document.querySelectorAll("svg[data-plot]")) {
				if (!svg.checkVisibility()) continue;
				const name = svg.getAttribute("aria-label") || svg.querySelector("title")?.textContent, say = what => out.push(name + ": " + what);
				svg.scrollIntoView({ block: "center" });
				document.dispatchEvent(new Event("scroll"));
				svg.focus({ focusVisible: true });
				const last = words();
				if (!last) { say("nothing on focus"); continue; }
				const key = k => svg.dispatchEvent(new KeyboardEvent("keydown", { key: k, bubbles: true, cancelable: true }));
				key("Home");
				const first = words();
				key("ArrowRight");
				if (!first || !words()) say("nothing after a key");
				key("Escape");
				if (words()) say("stays after Escape: " + words());
				svg.blur();
				const box = svg.getBoundingClientRect();
				svg.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: box.right - 1, clientY: box.top + 5 }));
				if (words() !== last) say("on hover " + words() + ", on focus " + last);
				const at = tip.getBoundingClientRect();
				if (at.left < 0 || at.right > innerWidth || at.top < 0) say("the words lie outside the window");
				document.querySelector("h1").dispatchEvent(new PointerEvent("pointermove", { bubbles: true }));
				if (words()) say("stays when the pointer leaves");
			}
			return out; })()`)
		if len(wrong) > 0 {
			t.Errorf("%s:\n%s", path, strings.Join(wrong, "\n"))
		}
		x.picture("plots" + strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "-"))
	}
}

// A refused form opens with its message at the top of the page and the focus in
// the wrong field.
func TestRefusedFormTakesTheFocus(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	x.as("admin")
	x.expect("422")
	for _, s := range []screen{phone, laptop} {
		x.show(s)
		x.visit("/endpoints/still?tab=settings")
		x.wait(`document.readyState == "complete" && document.getElementById("f-concurrency")`)
		x.fill("#f-concurrency", "99")
		must[any](x, `document.getElementById("f-concurrency").form.requestSubmit()`)
		x.waitText("one field needs a change")
		x.wait(`document.activeElement.id == "f-concurrency"`)
		if !must[bool](x, `(() => { const b = document.activeElement.getBoundingClientRect(); return b.top >= 0 && b.bottom <= `+
			`innerHeight && document.activeElement.value == "99" })()`) {
			t.Errorf("%s: the field is not in sight", s.name)
		}
		if c := must[string](x, `getComputedStyle(document.getElementById("f-concurrency-e")).color`); c == must[string](x,
			`getComputedStyle(document.body).color`) {
			t.Errorf("the error is written in the colour of text, %s", c)
		}
		x.picture("refused-" + s.name)
		x.click("#refused a")
		x.wait(`location.hash == "#f-concurrency"`)
	}
}
