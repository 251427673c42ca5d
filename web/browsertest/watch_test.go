package browsertest

// This file watches an entity and makes a rule in the browser, as people without SPARQL do.

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// A pasted IRI shows what it covers, becomes a watch, and the page of the watch shows its
// changes in words.
func TestWatchOnThePage(t *testing.T) {
	w := shared(t)
	checker := axe(t)
	x := open(t, w.url)
	x.as("app")
	x.look(look{name: "watch", path: "/watch", shows: "Paste a link"}, laptop, checker)
	x.fill("#f-link", "https://data.city.example/garage/1")
	x.click("details.alt > summary")
	x.do(chromedp.SetValue(chromedp.CSS("#f-endpoint"), "city"))
	x.fill("#f-name", "garage-one")
	x.press("See what it brings")
	x.waitText("Nothing is saved yet.")
	x.press("Watch it")
	x.wait(`location.pathname.startsWith("/watches/") && document.readyState == "complete" && ` +
		`document.body.innerText.includes("It is watched.")`)
	path := must[string](x, `location.pathname`)
	id := path[len("/watches/"):]
	defer w.call("DELETE", "/v1/queries/"+id+"?force=1", nil, nil)
	eventually(t, "the watch has a result", func() bool {
		var now struct{ Seq uint64 }
		w.call("GET", "/v1/queries/"+id, nil, &now)
		return now.Seq > 0
	})
	w.update(`INSERT DATA { <https://data.city.example/garage/1> <https://data.city.example/motto> "<b>Park</b>" }`)
	eventually(t, "the change is known", func() bool {
		var now struct{ Seq uint64 }
		w.call("GET", "/v1/queries/"+id, nil, &now)
		return now.Seq > 1
	})
	x.visit(path)
	x.waitText("motto: + <b>Park</b>")
	x.look(look{name: "watched", path: path, shows: "motto"}, laptop, checker)
	x.quiet()
	w.update(`DELETE DATA { <https://data.city.example/garage/1> <https://data.city.example/motto> "<b>Park</b>" }`)
}

// A rule is tried on the history, corrected, and saved on its page.
func TestRuleOnThePage(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	x.as("app")
	x.visit("/rules?query=" + w.queries["free"])
	x.fill("#f-name", "nearly-full")
	x.fill("#f-when", "?nothing < 10")
	x.press("Try it on the history")
	x.expect("422")
	x.waitText("which is not available here")
	x.fill("#f-when", "rows > 0")
	x.fill("#f-summary", "?rows rows")
	x.press("Try it on the history")
	x.waitText("It would have fired once")
	x.press("Save rule")
	x.wait(`location.pathname.startsWith("/rules/") && document.readyState == "complete"`)
	defer w.call("DELETE", "/v1"+must[string](x, `location.pathname`), nil, nil)
	eventually(t, "the rule fires", func() bool {
		var rule struct{ Status string }
		w.call("GET", must[string](x, `"/v1" + location.pathname`), nil, &rule)
		return rule.Status == "firing"
	})
	x.visit(must[string](x, `location.pathname`))
	x.waitText("firing")
	x.quiet()
}
