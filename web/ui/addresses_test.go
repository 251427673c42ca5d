package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

// secretAddresses are addresses with a secret in every place where it may be.
var secretAddresses = map[string]string{
	"apprise":    "apprise+http://SESAME@127.0.0.1:1/notify/SESAME?urls=mailto://u:SESAME@h.example",
	"discord":    "discord+http://127.0.0.1:1/api/webhooks/1/SESAME",
	"gotify":     "gotify+http://127.0.0.1:1?token=abc@SESAME",
	"markdown":   "markdown+http://SESAME@127.0.0.1:1/SESAME?key=SESAME#%7Btext%7DSESAME",
	"matrix":     "matrix+http://SESAME@127.0.0.1:1/!SESAME:h.example",
	"mattermost": "mattermost+http://127.0.0.1:1/hooks/SESAME",
	"ntfy":       "ntfy+http://tk_SESAME@127.0.0.1:1/topicSESAME",
	"pushover":   "pushover+http://SESAME:SESAME@127.0.0.1:1/",
	"slack":      "slack+http://127.0.0.1:1/services/T0/B0/SESAME",
	"teams":      "teams+http://127.0.0.1:1/workflows/SESAME?sig=SESAME",
	"telegram":   "telegram+http://123:SESAME@127.0.0.1:1/-1SESAME",
	"webpush": "webpush+http://127.0.0.1:1/SESAME" +
		"#p256dh=BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4" +
		"&auth=SESAMEqH6r4Tts7J_aSIgg",
	"text": "text+http://SESAME:SESAME@127.0.0.1:1?k=@SESAME#@SESAME",
}

// No page shows the secret of an address, whatever its kind, in rules, deliveries and dead letters.
func TestPagesShowNoAddress(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	q := r.register("city", "delays", "SELECT ?line ?delay { ?line <http://x/delay> ?delay }")
	r.oracle.set(q.ID, delays(t, [2]string{"S1", "12"}))
	for _, k := range service.Kinds() {
		address, ok := secretAddresses[k.Name]
		if !ok {
			t.Errorf("there is no address of %s: add one", k.Name)
			continue
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
	for kind := range secretAddresses {
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
