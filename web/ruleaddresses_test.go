package web

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

// The answers about a rule say when its receivers are told something, so who reads them and writes the
// receivers back keeps it, and they show the secret of no kind of address.
func TestRuleShowsReceivers(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText, `"name":"rows"`)
	w.m.publish(id, finishRows(t, "a", "b"))
	quiet := registry.Quiet{Digest: "08:00", Zone: "Europe/Berlin", Hours: "22:00-07:00", Most: "6", Repeat: "4h"}
	for _, k := range service.Kinds() {
		address, ok := notifytest.SecretAddresses[k.Name]
		if !ok {
			continue // package service tests that it is there
		}
		to, err := json.Marshal([]registry.Receiver{{Kind: registry.Notify, Address: address, Quiet: quiet}})
		if err != nil {
			t.Fatal(err)
		}
		w.post("/v1/rules", `{"name":"r","query":"rows","when":"rows > 1","to":`+string(to)+`}`).status(201)
		stored := func() registry.Receiver {
			r, err := w.rules.Rule(registry.Caller{Role: registry.RoleAdmin}, "r")
			if err != nil || len(r.To) != 1 {
				t.Fatal(r.To, err)
			}
			return r.To[0]
		}
		before := stored()
		var r api.Rule
		if err := json.Unmarshal(w.get("/v1/rules/r").status(200).body, &r); err != nil {
			t.Fatal(err)
		}
		if len(r.To) != 1 || r.To[0].Kind != k.Name || r.To[0].Quiet != quiet {
			t.Fatalf("%s: the answer shows %+v", k.Name, r.To)
		}
		back, err := json.Marshal([]registry.Receiver{{Kind: r.To[0].Kind, Address: r.To[0].Address, Quiet: r.To[0].Quiet}})
		if err != nil {
			t.Fatal(err)
		}
		w.do("PATCH", "/v1/rules/r", `{"to":`+string(back)+`}`, "Content-Type: application/merge-patch+json").status(200)
		if after := stored(); after != before {
			t.Errorf("%s: it was %+v and is %+v", k.Name, before, after)
		}
		for _, path := range []string{"/v1/rules", "/v1/rules/r", "/v1/rules/r/alerts", "/v1/subscriptions", "/v1/dead-letters"} {
			if body := string(w.get(path).status(200).body); strings.Contains(body, "SESAME") {
				t.Errorf("%s: %s shows %s", k.Name, path, body)
			}
		}
		w.do("DELETE", "/v1/rules/r", "").status(204)
	}
}
