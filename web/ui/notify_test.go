package ui

import (
	"context"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// told records who is told what. It knows ntfy only.
type told struct {
	made   []registry.ReceiverRequest
	tested []string
	state  registry.SubscriptionState // of receivers
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
	return registry.Subscription{Callback: "ntfy+https://ntfy.sh/…a1b2c3", State: d.state}, d.check(r.Address)
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
	if want := (registry.ReceiverRequest{Address: "https://ntfy.sh/city", Query: q.ID, Quiet: registry.Quiet{Digest: "08:00",
		Zone: "Europe/Berlin"}}); len(d.made) != 1 || d.made[0] != want {
		t.Errorf("%+v", d.made)
	}
	signedIn(t, registry.RoleRead).get("/").lacks("Send a test")
	d.state = registry.SubscriptionPaused
	r.follow(r.post(at+"/notify", "notify", "https://ntfy.sh/city")).has("is paused, so it is told nothing").lacks("from now on")

	r.get(at).has("Tell this browser", `data-into="notify" data-send`, "browser.js")
	r.get("/push-key").status(200).has("BPublic")
	if v := r.get("/push.js").status(200).has("showNotification"); v.Header.Get("Cache-Control") != "no-cache" ||
		!strings.HasPrefix(v.Header.Get("Content-Type"), "text/javascript") {
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
	to := registry.Receiver{Kind: registry.Notify, Address: "ntfy+http://127.0.0.1:1/city", Quiet: registry.Quiet{Digest: "08:00",
		Zone: "Europe/Berlin", Hours: "22:00-07:00", Most: "6", Repeat: "4h"}}
	if _, err := r.pages.Rules.Create(t.Context(), registry.Caller{Name: "shop", Role: registry.RoleApp},
		registry.RuleSettings{Name: "late", Query: "delays", When: "rows > 0", To: []registry.Receiver{to}}); err != nil {
		t.Fatal(err)
	}
	r.get("/rules/late").status(200).has("Digest 08:00.", "Quiet 22:00-07:00.", "At most 6 an hour.",
		"Again after 4h while it fires.", "Times are those of Europe/Berlin.")
}

// The form of rules says when people are told something, shows that of a stored rule, and sends a test.
func TestRuleFormQuiet(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	r.register("city", "delays", "SELECT ?line ?delay { ?line <http://x/delay> ?delay }")
	d := &told{}
	r.pages.Receivers = d
	const ntfy, hook = "ntfy+http://127.0.0.1:1/city", "webhook http://127.0.0.1:1/x"
	typed := []string{"name", "late", "query", "delays", "when", "rows > 0", "to", ntfy + "\n" + hook, "digest", "1h", "zone",
		"Europe/Berlin", "quiet", "22:00-07:00", "most", "6", "repeat", "4h"}
	r.post("/rules", typed...).status(201)
	stored := func() registry.Rule {
		t.Helper()
		list, err := r.store.Rules.Rules()
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		return list[0].Rule
	}
	all := registry.Quiet{Digest: "1h", Zone: "Europe/Berlin", Hours: "22:00-07:00", Most: "6", Repeat: "4h"}
	rule := stored()
	if rule.To[0].Quiet != all || rule.To[1].Quiet != (registry.Quiet{Repeat: "4h"}) {
		t.Fatalf("%+v", rule.To)
	}
	r.get("/rules?edit="+rule.ID).status(200).has(`name="digest" value="1h"`, `name="repeat" value="4h"`, "Send a test")
	edit := func(pairs ...string) *response {
		tag := regexp.MustCompile(`name="tag" value="([^"]+)"`).FindStringSubmatch(r.get("/rules?edit=" + rule.ID).body)
		if tag == nil {
			t.Fatal("there is no tag")
		}
		return r.post("/rules", append([]string{"edit", rule.ID, "tag", html.UnescapeString(tag[1]), "name", "late", "query",
			rule.Query, "when", "rows > 0"}, pairs...)...)
	}
	masked := rule.To[0].Kind + " " + rule.To[0].Masked() + "\nwebhook " + rule.To[1].Masked()
	edit("to", masked, "repeat", "8h").status(303)
	if to := stored().To; to[0].Quiet != (registry.Quiet{Repeat: "8h"}) || to[1].Quiet != to[0].Quiet {
		t.Errorf("%+v", to)
	}
	edit("to", masked, "repeat", "often").status(422).has("repeat is a duration")
	r.post("/rules/late/test").status(303)
	edit("to", masked, "do", "test").status(422).has("The address cannot be used") // told knows https://ntfy.sh only
	if len(d.tested) != 2 || d.tested[0] != ntfy || d.tested[1] != ntfy {
		t.Errorf("%q", d.tested)
	}
	edit("to", "https://ntfy.sh/city", "do", "test").status(200).has("Look for it in ntfy", "https://ntfy.sh/city")
	edit("to", hook, "do", "test").status(422).has("no receiver that people read", "There is")
	r.get("/rules/late").has("Send a test")

	// Receivers that differ keep what they have.
	to := []registry.Receiver{{Kind: "ntfy", Address: ntfy, Quiet: registry.Quiet{Digest: "08:00"}}, {Kind: "ntfy", Address: ntfy + "2"}}
	if _, err := r.pages.Rules.Replace(t.Context(), registry.Caller{Name: "shop", Role: registry.RoleApp}, rule.ID,
		registry.RuleSettings{Name: "late", Query: rule.Query, When: "rows > 0", To: to}); err != nil {
		t.Fatal(err)
	}
	r.get("/rules?edit=" + rule.ID).has(`name="digest" value=""`)
	edit("to", "ntfy "+to[0].Masked()+"\nntfy "+to[1].Masked(), "summary", "x").status(303)
	if now := stored().To; now[0] != to[0] || now[1] != to[1] {
		t.Errorf("%+v", now)
	}
}

// Who edits a rule can try it, although the addresses of its receivers are masked, and comes back to its page. A rule
// without labels keeps having none.
func TestRuleFormTriesMasked(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	q := r.register("city", "delays", "SELECT ?line ?delay { ?line <http://x/delay> ?delay }")
	r.oracle.set(q.ID, delays(t, [2]string{"S1", "12"}))
	r.tick("city")
	to := registry.Receiver{Kind: "telegram", Address: "telegram+http://TOKEN@127.0.0.1:1/CHAT"}
	v, err := r.pages.Rules.Create(t.Context(), registry.Caller{Name: "shop", Role: registry.RoleApp},
		registry.RuleSettings{Name: "late?", Query: q.ID, When: "?delay > 10", Labels: map[string]string{},
			To: []registry.Receiver{to}})
	if err != nil {
		t.Fatal(err)
	}
	r.get("/rules?edit=" + v.ID).status(200).has(`href="/rules/late%3F">Cancel`)
	r.post("/rules", "edit", v.ID, "name", "late?", "query", q.ID, "when", "?delay > 11", "to", "telegram "+v.To[0].Masked(),
		"do", "try").status(200).has("It would have fired once").lacks("line=S1")
}

// How long a delivery waits is told in one unit, because the column is narrow.
func TestWaitsFor(t *testing.T) {
	for waiting, want := range map[time.Duration]string{4500 * time.Millisecond: "4 s", 5*time.Minute + 6*time.Second: "5 min",
		2*time.Hour + 59*time.Minute: "2 h", 25 * time.Hour: "1 d"} {
		if got := (&follower{Waiting: waiting}).WaitsFor(); strings.ReplaceAll(got, thin, " ") != want {
			t.Errorf("%s: %q, want %q", waiting, got, want)
		}
	}
}
