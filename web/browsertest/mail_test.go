package browsertest

// This file goes from a copied link to an e-mail with the keyboard alone, and looks at the pages for visitors of a portal.

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// newMailServer takes e-mail, and sends the lines of each to a channel.
func newMailServer(t *testing.T) (address string, letters <-chan string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	got := make(chan string, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go takeMail(c, got)
		}
	}()
	return l.Addr().String(), got
}

// takeMail speaks as much SMTP as a sender needs.
func takeMail(c net.Conn, got chan<- string) {
	defer c.Close()
	say := func(line string) { fmt.Fprintf(c, "%s\r\n", line) }
	say("220 mail.example.org")
	var letter strings.Builder
	inside := false
	for in := bufio.NewScanner(c); in.Scan(); {
		line := strings.TrimSuffix(in.Text(), "\r")
		verb, _, _ := strings.Cut(strings.ToUpper(line), " ")
		switch {
		case inside && line == ".":
			inside = false
			got <- letter.String()
			letter.Reset()
			say("250 taken")
		case inside:
			letter.WriteString(strings.TrimSuffix(line, "=")) // quoted-printable breaks long lines
			if !strings.HasSuffix(line, "=") {
				letter.WriteByte('\n')
			}
		case verb == "DATA":
			inside = true
			say("354 go on")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 well")
		}
	}
}

// tabTo presses Tab until an element has the focus.
func (x *tab) tabTo(selector string) {
	x.t.Helper()
	for range 200 {
		if must[bool](x, fmt.Sprintf(`document.activeElement?.matches(%q) ?? false`, selector)) {
			return
		}
		x.do(chromedp.KeyEvent(kb.Tab))
	}
	x.t.Fatalf("the keyboard does not reach %s", selector)
}

// checkThemes looks at a page in light and dark, on a phone and a laptop: nothing overflows, and axe finds nothing.
func (x *tab) checkThemes(name, checker string) {
	x.t.Helper()
	for _, theme := range []string{"light", "dark"} {
		x.light(theme)
		for _, s := range []screen{{"phone-400", 400, 800}, laptop} {
			x.show(s)
			x.checkWidth(s, name+"-"+theme)
			x.picture(name + "-" + s.name + "-" + theme)
		}
		x.bring(checker)
		x.checkAccess(name + "-" + theme)
	}
}

func TestLinkToMailByKeyboard(t *testing.T) {
	needBrowser(t)
	checker := axe(t)
	if _, err := os.Stat(filepath.Join(root, "endpoint/local/node_modules/oxigraph/node_bg.wasm")); err != nil {
		part(t, "engine", `run "make deps"`)
	}
	mail, letters := newMailServer(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "freshet.yaml")
	write(t, file, "mail: {server: \""+mail+"\", from: freshet@example.org, security: none, recipients: [team.example], "+
		"visitors: 10}\ntokens: [{name: ops, role: admin, sha256: "+sum(tokens["admin"])+"}]\n")
	city := start(t, "sparql", "--listen", "127.0.0.1:0").url
	server := start(t, "serve", "--config", file, "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data")).url
	w := &world{t: t, url: server, endpoint: city}
	w.update(`INSERT DATA { <https://data.city.example/north> <https://data.city.example/free> 3 }`)
	await := func(part string) string {
		t.Helper()
		for {
			select {
			case said := <-letters:
				if strings.Contains(said, part) {
					return said
				}
				t.Logf("%s", said)
			case <-time.After(patience):
				t.Fatalf("no letter has %s", part)
			}
		}
	}

	x := open(t, server)
	x.as("admin")
	began := time.Now()
	x.visit("/")
	x.waitText("A link is enough")
	x.tabTo("#f-link")
	x.do(chromedp.KeyEvent(city + "?query=" + escape("# Free garages\nSELECT ?garage ?free { ?garage "+
		"<https://data.city.example/free> ?free }")))
	x.tabTo("form:has(#f-link) button:not([hidden])")
	x.do(chromedp.KeyEvent(kb.Enter))
	x.waitText("This server does not ask")
	x.tabTo("button[value=add]")
	x.do(chromedp.KeyEvent(kb.Enter))
	x.waitText("1 row now")
	x.tabTo("#f-notify")
	x.do(chromedp.KeyEvent("mailto:ops@team.example"))
	x.tabTo("#seen .foot-acts button")
	x.do(chromedp.KeyEvent(kb.Enter))
	x.waitText("It is watched")
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
	await("free 3")
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}

	// The form of rules says when people are told something.
	x.visit("/rules")
	x.tabTo("form[action='/rules'] details.alt summary")
	x.do(chromedp.KeyEvent(kb.Enter))
	x.waitText("How often what still fires comes again")
	x.tabTo("#f-repeat")
	x.checkThemes("rules-quiet", checker)

	// The page of a rule sends a test.
	w.call("POST", "/v1/rules", map[string]any{"name": "full", "query": id, "when": "rows > 5",
		"to": []map[string]string{{"email": "ops@team.example", "quiet": "22:00-07:00", "zone": "Europe/Berlin", "repeat": "4h"}}}, nil)
	x.visit("/rules/full")
	x.waitText("22:00-07:00")
	x.checkThemes("rule-quiet", checker)
	x.tabTo("form[action$='/test'] button")
	x.do(chromedp.KeyEvent(kb.Enter))
	x.waitText("The test message was sent")
	x.checkThemes("rule-tested", checker)
	await("Test message of Freshet")

	// The pages for visitors of a portal.
	w.call("POST", "/v1/queries", map[string]any{"endpoint": now.Endpoint, "name": "free", "public": true,
		"query": "SELECT ?free { ?s <https://data.city.example/free> ?free }"}, nil)
	v := open(t, server)
	check := func(name string) {
		t.Helper()
		v.checkThemes(name, checker)
	}
	v.visit("/notify-me?query=free")
	v.waitText("Get an e-mail when this changes")
	check("visitor-form")
	v.tabTo("input[type=email]")
	v.do(chromedp.KeyEvent("ada@home.example" + kb.Tab + kb.Enter))
	v.waitText("Look into your mailbox")
	check("visitor-asked")
	link := regexp.MustCompile(`/notify-me/[^\s>]+`).FindString(strings.ReplaceAll(await("Please confirm"), "=3D", "="))
	v.visit(link)
	v.waitText("Do you want these")
	check("visitor-confirm")
	v.tabTo("button")
	v.do(chromedp.KeyEvent(kb.Enter))
	v.waitText("Thank you")
	check("visitor-thanks")
	v.visit(link)
	v.waitText("Stop these")
	check("visitor-stop")
	v.tabTo("button")
	v.do(chromedp.KeyEvent(kb.Enter))
	v.waitText("It is stopped")
	check("visitor-stopped")
	v.visit("/notify-me?query=none")
	v.waitText("That did not work")
	check("visitor-wrong")
	v.expect("404")
	v.quiet()
}
