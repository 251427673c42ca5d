package browsertest

import "testing"

// The navigation of an open page counts dead letters as they come and go; they are sent again or
// dropped one by one or together, and what came after one looked is not dropped.
func TestDeadLetters(t *testing.T) {
	needBrowser(t)
	w := newWorld(t)
	x, rail := open(t, w.url), open(t, w.url)
	const badge = `document.querySelector('#places-2 a[href="/dead-letters"] .n.bad')`
	rail.as("admin")
	rail.visit("/queries")
	rail.wait(`document.getElementById("conn").innerText == "Live" && ` + badge + `.innerText.endsWith("1")`)

	x.as("admin")
	x.visit("/dead-letters")
	x.waitText("Market Square: free 7 → 8")
	if must[bool](x, `document.body.innerHTML.includes("secret-parameter")`) {
		t.Error("the page shows the query string of a callback")
	}
	x.press("Send again")
	x.waitText("1 message is sent again.")
	x.wait(`document.getElementById("letters").innerText.includes("3 attempts")`) // it is refused again

	w.free(9)
	w.untilLetters(2)
	rail.wait(badge + `.innerText.endsWith("2")`)
	x.press("Drop all")
	x.waitText("Drop all dead letters?")
	x.waitText("2 messages that were given up.")
	w.free(10)
	w.untilLetters(3)
	x.press("Drop all")
	x.waitText("2 messages are dropped.")
	x.waitText("free 9 → 10")
	x.click("#letters td .danger")
	x.waitText("Every message was received")
	rail.wait("!" + badge)
}
