package browsertest

import "testing"

// The slider says its version while it moves, and shows it when it rests.
func TestHistorySlider(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	x.as("read")
	x.visit("/queries/" + w.queries["free"])
	x.wait(`document.readyState == "complete" && document.querySelector("#state tbody td:last-child a")`)
	before := must[string](x, `document.getElementById("state").textContent`)
	move := func(event string) string {
		return must[string](x, `(() => { const s = document.querySelector("input[data-history]"); s.value = 1; s.dispatchEvent(new Event("`+event+`", { bubbles: true })); return document.querySelector("output").textContent })()`)
	}
	if said := move("input"); said != "1" {
		t.Errorf("the slider says %q", said)
	}
	move("change")
	x.wait(`location.search == "?b=1" && document.readyState == "complete" && document.getElementById("state")`)
	if after := must[string](x, `document.getElementById("state").textContent`); after == before {
		t.Errorf("version 1 shows\n%s", after)
	}
	x.picture("history-slider")
}
