package browsertest

import "testing"

// One field shows a version by its number or by a time.
func TestVersionField(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	x.as("read")
	x.visit("/queries/" + w.queries["free"])
	x.wait(`document.readyState == "complete" && document.querySelector("#state tbody td:last-child a")`)
	x.still()
	before := must[string](x, `document.getElementById("state").textContent`)
	x.fill("#vb", "1")
	x.press("Show")
	x.wait(`location.search.startsWith("?b=1&") && document.readyState == "complete" && document.getElementById("state")`)
	if after := must[string](x, `document.getElementById("state").textContent`); after == before {
		t.Errorf("version 1 shows\n%s", after)
	}
	x.still()
	x.fill("#vb", "2000-01-01")
	x.press("Show")
	x.waitText("This version cannot be shown.")
}
