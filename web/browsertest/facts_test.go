package browsertest

import (
	"fmt"
	"testing"
)

// measureFacts lays out the figures of a page with 5 to 8 tiles and lists what is wrong: a row that does
// not reach both edges, tiles that leave a hole between them, and text that is cut.
const measureFacts = `(() => { const out = [], list = document.getElementById("facts"), was = [...list.children].map(e => ` +
	`e.cloneNode(true));
	for (let n = 5; n <= 8; n++) {
		list.replaceChildren(...Array.from({ length: n }, (_, i) => was[i % was.length].cloneNode(true)));
		const box = list.getBoundingClientRect(), tiles = [...list.children].map(e => e.getBoundingClientRect());
		const area = tiles.reduce((sum, t) => sum + (t.width + 1) * (t.height + 1), 0), all = (box.width - 1) * (box.height - 1);
		if (Math.abs(area - all) > box.height * 2) out.push(n + " tiles cover " + Math.round(area) + " of " + Math.round(all) + " square pixels");
		for (const t of tiles) if (t.left < box.left || t.right > box.right + .5) out.push(n + " tiles: one is outside");
		for (const e of list.querySelectorAll("dt, dd")) if (e.scrollWidth > e.clientWidth + 1 || ` +
	`e.getBoundingClientRect().right > e.parentElement.getBoundingClientRect().right) out.push(n + " tiles: cut: " + e.textContent);
	}
	list.replaceChildren(...was);
	return out.join("\n"); })()`

// The tiles of the overview fill their rows at every width, light and dark.
func TestFactsLeaveNoHole(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	x.as("admin")
	for _, theme := range []string{"light", "dark"} {
		x.light(theme)
		x.visit("/")
		x.waitText("Endpoint time")
		x.still()
		for width := int64(360); width <= 2560; width += 40 {
			s := screen{"wide", width, 900}
			x.show(s)
			if wrong := must[string](x, measureFacts); wrong != "" {
				t.Errorf("%s, %d pixels wide:\n%s", theme, width, wrong)
			}
			x.checkWidth(s, fmt.Sprintf("overview at %d pixels", width))
		}
	}
}
