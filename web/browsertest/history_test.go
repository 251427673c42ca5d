package browsertest

import (
	"fmt"
	"testing"
)

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

// A change at the endpoint does not take the slider away between the choice of a version and
// its page. The test decides when the slider has rested.
func TestHistorySliderDuringChanges(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	x.as("read")
	x.visit("/queries/" + w.queries["free"])
	x.wait(`document.readyState == "complete" && document.getElementById("conn").innerText == "Live"`)
	must[any](x, `(() => {
		window.rested = [];
		const later = window.setTimeout;
		window.setTimeout = (f, ms) => ms == 500 ? rested.push(f) : later(f, ms);
		const s = document.querySelector("input[data-history]");
		s.value = 1;
		s.dispatchEvent(new Event("change", { bubbles: true }));
	})()`)
	const spaces = `<https://data.city.example/garage/0> <https://data.city.example/free> `
	for _, now := range []string{"INSERT DATA { " + spaces + "901 }", "DELETE DATA { " + spaces + "901 }"} { // the events of the first change are complete when the second is there
		seq := w.seq("free")
		w.update(now)
		w.until("free", seq+1)
		x.wait(fmt.Sprintf(`document.getElementById("facts").innerText.includes(":%d")`, seq+1))
	}
	must[any](x, `rested.forEach(f => f())`)
	x.wait(`location.search == "?b=1" && document.readyState == "complete" && document.getElementById("state")`)
}
