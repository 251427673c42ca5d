package browsertest

// This file tells a browser what changes. No push service can be reached from a test, so the test is one: it decrypts with a
// library of others what the server sends, and hands it to the browser, whose service worker shows it.

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// decrypts reads a message as a browser does.
const decrypts = `const { key, curve, auth, body } = JSON.parse(require("fs").readFileSync(0));
const own = require("crypto").createECDH("prime256v1");
own.setPrivateKey(Buffer.from(key, "base64url"));
process.stdout.write(require("http_ece").decrypt(Buffer.from(body, "base64"), { version: "aes128gcm", privateKey: own, ` +
	`authSecret: auth }));`

func TestTellThisBrowser(t *testing.T) {
	needBrowser(t)
	checker := axe(t)
	if _, err := os.Stat("node_modules/http_ece"); err != nil {
		part(t, "npm", `run "make parts"`)
	}
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	auth := make([]byte, 16)
	rand.Read(auth)
	text := base64.RawURLEncoding.EncodeToString
	sent := make(chan []byte, 10)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if !strings.HasPrefix(r.Header.Get("Authorization"), "vapid t=") || r.Header.Get("TTL") == "" {
			t.Errorf("%v", r.Header)
		}
		sent <- b
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(service.Close)
	read := func(body []byte) string {
		in, err := json.Marshal(map[string]any{"key": text(key.Bytes()), "auth": text(auth), "body": body})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("node", "-e", decrypts)
		cmd.Stdin = bytes.NewReader(in)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %+v", err, err)
		}
		return string(out)
	}
	w := pushWorld(t)
	x := open(t, w.url)
	call(x, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: fmt.Sprintf(`
PushManager.prototype.getSubscription = async () => sessionStorage.subscribed ? {
  options: { applicationServerKey: new Uint8Array(JSON.parse(sessionStorage.subscribed)).buffer },
  unsubscribe: async () => { delete sessionStorage.subscribed; sessionStorage.ended = 1; },
  toJSON: () => ({ endpoint: %q, keys: { p256dh: %q, auth: %q } }) } : null;
PushManager.prototype.subscribe = async function (o) {
  if (await Notification.requestPermission() !== "granted") throw new DOMException("no", "NotAllowedError");
  if (!o.userVisibleOnly || o.applicationServerKey.length !== 65) throw new Error("wrong options");
  sessionStorage.subscribed = JSON.stringify([...o.applicationServerKey]);
  sessionStorage.made = 1 + Number(sessionStorage.made ?? 0);
  return this.getSubscription();
};`, service.URL+"/push/1", text(key.PublicKey().Bytes()), text(auth))})
	x.as("admin")
	id := w.queries["free"]
	x.visit("/queries/" + id)
	for _, s := range []screen{laptop, {"phone-400", 400, 800}} {
		x.look(look{name: "browser-button", path: "/queries/" + id, shows: "Tell this browser"}, s, checker)
	}
	x.show(laptop)

	// A browser that does not allow it says so.
	x.visit("/queries/" + id)
	permit(x, false)
	x.do(chromedp.Focus(chromedp.CSS("#notify [data-do=push]")))
	x.do(chromedp.KeyEvent(kb.Enter))
	x.waitText("The browser does not allow it")
	permit(x, true)
	x.press("Tell this browser")
	x.waitText("webpush+" + service.URL[:len("http://127.0.0.1")])
	x.bring(checker)
	x.checkAccess("browser-told")

	// It stays subscribed, unless that was at a server with another key.
	tellAgain := func(want string) {
		t.Helper()
		must[any](x, `void (window.before = true)`)
		x.press("Tell this browser")
		x.wait(`!window.before && document.readyState === "complete" && document.body.innerText.includes("webpush+")`)
		if got := must[string](x, `sessionStorage.made + " made, ended: " + (sessionStorage.ended ?? "no")`); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	tellAgain("1 made, ended: no")
	must[any](x, `void (sessionStorage.subscribed = JSON.stringify(Array(65).fill(7)))`)
	tellAgain("2 made, ended: 1")

	// A change comes to the service, and from there to the service worker.
	registered := make(chan serviceworker.RegistrationID, 100)
	if err := chromedp.Listen(x.ctx, func(event any) {
		if e, ok := event.(*serviceworker.EventWorkerRegistrationUpdated); ok {
			for _, r := range e.Registrations {
				if strings.HasPrefix(r.ScopeURL, x.base) {
					registered <- r.RegistrationID
				}
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	call(x, serviceworker.Enable, cdp.Empty{})
	w.update(`INSERT DATA { <https://data.city.example/east> <https://data.city.example/free> 1 }`)
	w.call("POST", "/v1/endpoints/city/tick", nil, nil)
	var said string
	select {
	case body := <-sent:
		if len(body) > 4096 || bytes.Contains(body, []byte("east")) {
			t.Errorf("%d bytes are sent: %q", len(body), body)
		}
		said = read(body)
	case <-time.After(patience):
		t.Fatal("nothing was sent")
	}
	if !strings.Contains(said, "east") || !strings.Contains(said, `"title":"free"`) {
		t.Errorf("%s", said)
	}
	must[any](x, `void setInterval(() => navigator.serviceWorker.ready.then(r => r.getNotifications()).then(list => { // a `+
		`headless browser soon closes it
	  for (const n of list) window.shown = n.title + ": " + n.body + " " + n.data; }), 20)`)
	call(x, serviceworker.DeliverPushMessage, serviceworker.DeliverPushMessageParams{Origin: x.base, RegistrationID: <-registered, Data: said})
	x.wait("window.shown")
	shown := must[string](x, "window.shown")
	if !strings.HasPrefix(shown, "free: ") || !strings.Contains(shown, "east") {
		t.Errorf("the browser shows %s", shown)
	}

	// A click opens the page that the message is about, and the end of a subscription is told to the person, as the server cannot. No
	// test can cause either, so the worker gets the events from itself.
	worker := workerOf(x)
	opened := must[string](worker, `(async () => {
	  let opened, closed, done, said;
	  const show = registration.showNotification.bind(registration);
	  registration.showNotification = (title, o) => { said = title + " " + o.data; return show(title, o); };
	  clients.openWindow = async url => { opened = url; };
	  dispatchEvent(Object.assign(new Event("notificationclick"), { waitUntil: p => { done = p; },
	    notification: { data: "/queries/7", close: () => { closed = true; } } }));
	  await done;
	  dispatchEvent(Object.assign(new Event("pushsubscriptionchange"), { waitUntil: p => { done = p; } }));
	  await done;
	  return opened + " " + closed + " " + said;
	})()`)
	if opened != "/queries/7 true This browser is told no more /deliveries" {
		t.Errorf("the worker does: %s", opened)
	}
	x.expect("Notification")
	x.quiet()
}

// workerOf is the service worker of a tab's pages.
func workerOf(x *tab) *tab {
	x.t.Helper()
	list, err := chromedp.Targets(x.ctx)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, target := range list {
		if target.Type == "service_worker" && target.URL == x.base+"/push.js" {
			ctx, cancel := chromedp.NewContext(x.ctx, chromedp.WithTargetID(target.TargetID))
			x.t.Cleanup(cancel)
			return &tab{t: x.t, ctx: ctx, base: x.base}
		}
	}
	x.t.Fatal("there is no service worker")
	return nil
}

// permit allows the page of a tab to notify, or refuses it.
func permit(x *tab, allowed bool) {
	x.t.Helper()
	setting := browser.PermissionSettingDenied
	if allowed {
		setting = browser.PermissionSettingGranted
	}
	call(x, browser.SetPermission, browser.SetPermissionParams{Permission: &browser.PermissionDescriptor{Name: "notifications"},
		Setting: setting, Origin: x.base, BrowserContextID: chromedp.FromContext(x.ctx).BrowserContextID})
}

// pushWorld is a server with one public query, named free.
func pushWorld(t *testing.T) *world {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, "endpoint/local/node_modules/oxigraph/node_bg.wasm")); err != nil {
		part(t, "engine", `run "make deps"`)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "freshet.yaml")
	city := start(t, "sparql", "--listen", "127.0.0.1:0").url
	write(t, file, "websub: {allow_callback_networks: [\"127.0.0.0/8\"]}\ntokens: [{name: ops, role: admin, sha256: "+
		sum(tokens["admin"])+"}]\n"+
		"endpoints: [{name: city, url: \""+city+"\", slot: never, budget: 5s}]\n")
	w := &world{t: t, endpoint: city, queries: map[string]string{}}
	w.url = start(t, "serve", "--config", file, "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data")).url
	w.update(`INSERT DATA { <https://data.city.example/north> <https://data.city.example/free> 3 }`)
	var made struct{ ID string }
	w.call("POST", "/v1/queries", map[string]any{"endpoint": "city", "name": "free", "public": true,
		"query": "SELECT ?garage ?free { ?garage <https://data.city.example/free> ?free }"}, &made)
	w.call("POST", "/v1/endpoints/city/tick", nil, nil)
	w.queries["free"] = made.ID
	return w
}
