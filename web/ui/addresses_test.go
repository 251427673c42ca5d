package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

// No page shows the secret of an address, whatever its kind, in rules, deliveries and dead letters.
func TestPagesShowNoAddress(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	q := r.register("city", "delays", "SELECT ?line ?delay { ?line <http://x/delay> ?delay }")
	r.oracle.set(q.ID, delays(t, [2]string{"S1", "12"}))
	for _, k := range service.Kinds() {
		address, ok := notifytest.SecretAddresses[k.Name]
		if !ok {
			continue // package service tests that it is there
		}
		_, complete, err := service.Find("", address)
		if err != nil {
			t.Fatal(err)
		}
		r.post("/rules", "name", "late-"+k.Name, "query", "delays", "when", "rows > 0", "to", address).status(303)
		to := registry.Receiver{Kind: k.Name, Address: complete}
		r.follower(registry.Subscription{ID: "nt_" + k.Name, Way: registry.People, Caller: "shop", Name: "people-" + k.Name,
			Query: q.ID, To: &to, Callback: to.Masked(), State: registry.Active,
			Dead: []registry.DeadLetter{{OutboxMessage: registry.OutboxMessage{ID: "msg_" + k.Name, Type: "change", Query: q.ID},
				Error: "refused", GivenUp: time.Now()}}})
	}
	r.tick("city")
	paths := []string{"/", "/rules", "/deliveries", "/dead-letters", "/queries", queryPath(q.ID)}
	for kind := range notifytest.SecretAddresses {
		rule, err := r.pages.Rules.Rule(registry.Caller{Role: registry.RoleAdmin}, "late-"+kind)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, "/rules/late-"+kind, "/rules?edit="+rule.ID, "/deliveries?q=nt_"+kind, "/deliveries?q="+rule.To[0].ID(rule.Caller))
		shown := r.get("/rules/late-" + kind).status(200)
		if !strings.Contains(shown.body, "127.0.0.1:1/…") {
			t.Errorf("%s: the page of the rule does not show the host", kind)
		}
	}
	for _, path := range paths {
		if body := r.get(path).status(200).body; strings.Contains(body, "SESAME") {
			at := strings.Index(body, "SESAME")
			t.Errorf("%s shows …%s…", path, body[max(0, at-80):at+6])
		}
	}
	r.get("/deliveries").has("people-ntfy", "127.0.0.1:1")
	r.get("/dead-letters").has("people-ntfy", "127.0.0.1:1/…")
}
