package web

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

// secretAddresses are addresses with a secret in every place where it may be.
var secretAddresses = map[string]string{
	"apprise":    "apprise+http://SESAME@127.0.0.1:9/notify/SESAME?urls=mailto://u:SESAME@h.example",
	"discord":    "discord+http://127.0.0.1:9/api/webhooks/1/SESAME",
	"gotify":     "gotify+http://127.0.0.1:9?token=abc@SESAME",
	"markdown":   "markdown+http://SESAME@127.0.0.1:9/SESAME?key=SESAME#%7Btext%7DSESAME",
	"matrix":     "matrix+http://SESAME@127.0.0.1:9/!SESAME:h.example",
	"mattermost": "mattermost+http://127.0.0.1:9/hooks/SESAME",
	"ntfy":       "ntfy+http://tk_SESAME@127.0.0.1:9/topicSESAME",
	"pushover":   "pushover+http://SESAME:SESAME@127.0.0.1:9/",
	"slack":      "slack+http://127.0.0.1:9/services/T0/B0/SESAME",
	"teams":      "teams+http://127.0.0.1:9/workflows/SESAME?sig=SESAME",
	"telegram":   "telegram+http://123:SESAME@127.0.0.1:9/-1SESAME",
	"webpush": "webpush+http://127.0.0.1:9/SESAME#p256dh=BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi" +
		"6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4&auth=SESAMEqH6r4Tts7J_aSIgg&key=" + pushKey,
	"text": "text+http://SESAME:SESAME@127.0.0.1:9?k=@SESAME#@SESAME",
}

// The answers about a rule say when its receivers are told something, so who reads them and writes the
// receivers back keeps it, and they show the secret of no kind of address.
func TestRuleShowsReceivers(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText, `"name":"rows"`)
	w.m.publish(id, finishRows(t, "a", "b"))
	quiet := registry.Quiet{Digest: "08:00", Zone: "Europe/Berlin", Hours: "22:00-07:00", Most: "6"}
	for _, k := range service.Kinds() {
		if secretAddresses[k.Name] == "" {
			t.Errorf("there is no address of %s: add one", k.Name)
			continue
		}
		to, err := json.Marshal([]registry.Receiver{{Kind: registry.Notify, Address: secretAddresses[k.Name], Quiet: quiet}})
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
