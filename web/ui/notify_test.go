package ui

import (
	"context"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// told records who is told what. It knows ntfy only.
type told struct {
	made   []registry.ReceiverRequest
	tested []string
}

func (d *told) check(address string) error {
	if !strings.HasPrefix(address, "https://ntfy.sh/") {
		return registry.BadSetting("/notify", "the address cannot be used")
	}
	return nil
}

// Create implements web.Receivers.
func (d *told) Create(_ registry.Caller, r registry.ReceiverRequest) (registry.Subscription, error) {
	d.made = append(d.made, r)
	return registry.Subscription{Callback: "ntfy+https://ntfy.sh/…a1b2c3"}, d.check(r.Address)
}

// Test implements web.Receivers.
func (d *told) Test(_ context.Context, _ registry.Caller, address string) (string, error) {
	d.tested = append(d.tested, address)
	return "ntfy", d.check(address)
}

// PushKey implements web.Receivers.
func (d *told) PushKey() (string, error) { return "BPublic", nil }

// The page of a query has a form that sends a test and keeps what was typed, and then tells people.
func TestNotifyForm(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	q := r.register("city", "q", "ASK { ?s ?p ?o }")
	d := &told{}
	r.pages.Receivers = d
	at := "/queries/" + q.ID
	r.get(at).status(200).has("Send a test", `action="`+at+`/notify#notify"`)
	r.post(at+"/notify", "notify", " https://ntfy.sh/city ", "digest", "08:00", "zone", "Europe/Berlin", "do", "test").status(200).
		has("The test message was sent", `value=" https://ntfy.sh/city "`, `value="08:00"`)
	if len(d.made) != 0 || len(d.tested) != 1 || d.tested[0] != "https://ntfy.sh/city" {
		t.Errorf("%+v", d)
	}
	r.post(at+"/notify", "notify", "https://ntfy.sh/city", "digest", "08:00", "zone", "Europe/Berlin").status(303)
	if want := (registry.ReceiverRequest{Address: "https://ntfy.sh/city", Query: q.ID, Quiet: registry.Quiet{Digest: "08:00", Zone: "Europe/Berlin"}}); len(d.made) != 1 || d.made[0] != want {
		t.Errorf("%+v", d.made)
	}
	signedIn(t, registry.RoleRead).get("/").lacks("Send a test")

	r.get(at).has("Tell this browser", `data-into="notify" data-send`, "browser.js")
	r.get("/push-key").status(200).has("BPublic")
	if v := r.get("/push.js").status(200).has("showNotification"); v.Header.Get("Cache-Control") != "no-cache" || !strings.HasPrefix(v.Header.Get("Content-Type"), "text/javascript") {
		t.Errorf("%v", v.Header)
	}
}

// Who edits a rule in the form does not change when its people are told.
func TestKeepQuiet(t *testing.T) {
	const address = "ntfy+https://ntfy.example/city"
	before := []registry.Receiver{{Kind: "ntfy", Address: address, Quiet: registry.Quiet{Digest: "08:00"}}}
	list := receivers("ntfy " + before[0].Masked() + "\nhttps://ntfy.sh/other")
	s := registry.RuleSettings{To: list}
	web.UnmaskReceivers(&s, registry.RuleSettings{To: before})
	keepQuiet(s.To, before)
	if s.To[0] != before[0] || s.To[1] != (registry.Receiver{Kind: registry.Notify, Address: "https://ntfy.sh/other"}) {
		t.Errorf("%+v", s.To)
	}
}

// The page of a rule says when its receivers are told something.
func TestRulePageShowsQuiet(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	r.register("city", "delays", "SELECT ?line ?delay { ?line <http://x/delay> ?delay }")
	to := registry.Receiver{Kind: registry.Notify, Address: "ntfy+http://127.0.0.1:1/city", Quiet: registry.Quiet{Digest: "08:00", Zone: "Europe/Berlin", Hours: "22:00-07:00", Most: "6"}}
	if _, err := r.pages.Rules.Create(t.Context(), registry.Caller{Name: "shop", Role: registry.RoleApp}, registry.RuleSettings{Name: "late", Query: "delays", When: "rows > 0", To: []registry.Receiver{to}}); err != nil {
		t.Fatal(err)
	}
	r.get("/rules/late").status(200).has("Digest 08:00.", "Quiet 22:00-07:00.", "At most 6 an hour.", "Times are those of Europe/Berlin.")
}
