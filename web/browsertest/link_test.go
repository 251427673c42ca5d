package browsertest

// This file goes from a copied link on an empty server to a message, as people do, and makes a rule by
// pointing at a row.

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A copied link becomes a message on a phone in three clicks and less than a minute.
func TestLinkToMessage(t *testing.T) {
	needBrowser(t)
	checker := axe(t)
	if _, err := os.Stat(filepath.Join(root, "endpoint/local/node_modules/oxigraph/node_bg.wasm")); err != nil {
		part(t, "engine", `run "make deps"`)
	}
	messages := make(chan string, 10)
	phones := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		messages <- string(b)
	}))
	t.Cleanup(phones.Close)
	dir := t.TempDir()
	file := filepath.Join(dir, "freshet.yaml")
	write(t, file, "websub: {allow_callback_networks: [\"127.0.0.0/8\"]}\ntokens: [{name: ops, role: admin, sha256: "+
		sum(tokens["admin"])+"}]\n")
	city := start(t, "sparql", "--listen", "127.0.0.1:0").url
	server := start(t, "serve", "--config", file, "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data")).url
	w := &world{t: t, url: server, endpoint: city}
	w.update(`INSERT DATA { <https://data.city.example/north> <https://data.city.example/free> 3 . ` +
		`<https://data.city.example/south> <https://data.city.example/free> 8 }`)
	link := city + "?query=" + escape("# Free garages\nSELECT ?garage ?free { ?garage <https://data.city.example/free> ?free }")

	x := open(t, server)
	x.as("admin")
	began, clicks := time.Now(), 0
	press := func(text string) { clicks++; x.press(text) }
	x.visit("/")
	x.waitText("A link is enough")
	x.do(chromedp.SetValue(chromedp.CSS("#f-link"), link)) // as pasting does
	x.picture("link-1-paste")
	press("See what it brings")
	x.waitText("This server does not ask")
	x.picture("link-2-endpoint")
	x.bring(checker)
	x.checkAccess("link-2-endpoint")
	x.click("details.alt > summary")
	must[any](x, `(() => { window.before = 1; document.querySelector("#f-name").focus(); })()`)
	x.do(chromedp.KeyEvent(kb.Enter)) // looks, and adds nothing
	x.wait(`!window.before && document.readyState == "complete" && document.body.innerText.includes("This server does not ask")`)
	press("Add it, and see")
	x.waitText("“Free garages”")
	x.waitText("2 rows now")
	x.do(chromedp.SetValue(chromedp.CSS("#f-notify"), strings.Replace(phones.URL, "http://", "ntfy+http://", 1)+"/garages"))
	x.picture("link-3-result")
	x.bring(checker)
	x.checkAccess("link-3-result")
	press("Watch it")
	x.waitText("It is watched")
	x.picture("link-4-watched")
	id := must[string](x, `location.pathname.split("/").pop()`)
	var now struct {
		Seq      uint64
		Endpoint string
	}
	eventually(t, "the watch has a result", func() bool {
		w.call("GET", "/v1/queries/"+id, nil, &now)
		return now.Seq > 0
	})
	w.update(`DELETE DATA { <https://data.city.example/north> <https://data.city.example/free> 3 } ; INSERT DATA { ` +
		`<https://data.city.example/north> <https://data.city.example/free> 0 }`)
	w.call("POST", "/v1/endpoints/"+now.Endpoint+"/tick", nil, nil)
	for said := ""; !strings.Contains(said, "free 3 → 0"); {
		select {
		case said = <-messages:
			t.Logf("%s", said)
		case <-time.After(patience):
			t.Fatal("no message arrived")
		}
	}
	if took := time.Since(began); clicks > 3 || took > time.Minute {
		t.Errorf("it took %d clicks and %v", clicks, took)
	} else {
		t.Logf("%d clicks, %v", clicks, took)
	}

	// Pointing at a row makes a rule, which says what it would have done.
	for _, s := range []screen{laptop, {"phone-400", 400, 800}} {
		x.look(look{name: "tell", path: "/queries/" + id + "/tell?b=1&row=0", shows: "this row goes"}, s, checker)
	}
	x.show(laptop)
	x.visit("/queries/" + id + "?b=1#compare")
	x.press("Tell me when")
	x.waitText("The row")
	x.click("input[value=cell1]")
	x.press("Try it on the history")
	x.waitText("It would have fired")
	x.picture("tell-tried")
	x.press("Save the rule")
	x.wait(`location.pathname.startsWith("/rules/") && document.readyState == "complete"`)
	x.waitText("changed ?free where ?garage")
	x.look(look{name: "watch-empty", path: "/watch", shows: "Paste a link"}, screen{"phone-400", 400, 800}, checker)
	x.quiet()
}
