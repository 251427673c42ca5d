package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

// A played service answers as its documentation says.
type played struct {
	status int
	header http.Header
	body   string
}

// A got is a request that a service got.
type got struct {
	method, path, query string
	header              http.Header
	body                string
}

// nothing stores no subscription.
type nothing struct{}

func (nothing) Subscription(string) (registry.Subscription, error) {
	return registry.Subscription{}, registry.ErrNotFound
}
func (nothing) Subscriptions(string, int) ([]registry.Subscription, error) { return nil, nil }
func (nothing) EditSubscription(string, func(*registry.Subscription, bool) error) (s registry.Subscription, err error) {
	return s, nil
}

func engine(t *testing.T) *deliver.Engine {
	t.Helper()
	guard, err := deliver.NewGuard([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	e, err := deliver.New(notifytest.Delivering(deliver.Options{Store: nothing{}, Waker: notify.NewWaker(), Guard: guard}))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// play sends a message to an address on a server that gives some answers, one after another.
func play(t *testing.T, kind, address string, m service.Message, answers ...played) (deliver.Reply, []got) {
	t.Helper()
	var requests []got
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests = append(requests, got{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header, string(body)})
		a := played{status: 200, body: `{"ok":true}`}
		if len(answers) > 0 {
			a, answers = answers[0], answers[1:]
		}
		for k, v := range a.header {
			w.Header()[k] = v
		}
		w.WriteHeader(a.status)
		io.WriteString(w, a.body)
	}))
	defer s.Close()
	k, complete, err := service.Find(kind, strings.ReplaceAll(address, "HOST", strings.TrimPrefix(s.URL, "http://")))
	if err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	if again, same, err := service.Find(k.Name, complete); err != nil || again != k || same != complete {
		t.Errorf("%s is not complete: %s, %v", complete, same, err)
	}
	m.Key = func() (string, error) { return browser.server, nil }
	send, err := service.Send(k.Name, complete, m)
	if err != nil {
		t.Fatal(err)
	}
	r, err := engine(t).Try(t.Context(), "app", send)
	if err != nil {
		t.Fatal(err)
	}
	return r, requests
}

// services are what the services document: where a message goes, and what they answer.
var services = []struct {
	address      string // plays on HOST
	method, path string
	header       [2]string // that a request has
	secret       string    // of the address, which nothing shows
	body         []string  // what the body has
	limited      played
	wait         time.Duration
	wrong        played // a wrong secret
	gone         *played
	long         *played
	none         [2]string                        // why the service documents no answer about what is gone, or too long
	brief        string                           // what the body has of a message without a text
	read         func(t *testing.T, q got) string // decrypts a body, nil if it is readable
}{
	{address: "ntfy+http://tk_secret@HOST/alerts", method: "POST", path: "/", header: [2]string{"Authorization", "Bearer tk_secret"},
		secret:  "tk_secret",
		body:    []string{`"topic":"alerts"`, `"title":"[FIRING] late"`, `"priority":4`, `"click":"http://fresh.example/q"`},
		limited: played{status: 429, body: `{"code":42901,"http":429,"error":"limit reached: too many requests"}`},
		wrong:   played{status: 403, body: `{"code":40301,"http":403,"error":"forbidden"}`}, long: &played{status: 413, body: `{"code":41301}`},
		none:  [2]string{"any name is a topic", ""},
		brief: `"message":"[FIRING] late"`},
	{address: "gotify+http://HOST/base/?token=AbcSecret", method: "POST", path: "/base/message", header: [2]string{"X-Gotify-Key",
		"AbcSecret"}, secret: "AbcSecret",
		body:    []string{`"priority":8`, `"url":"http://fresh.example/q"`},
		limited: played{status: 429, header: http.Header{"Retry-After": {"7"}}}, wait: 7 * time.Second,
		wrong: played{status: 401, body: `{"error":"Unauthorized"}`},
		none:  [2]string{"a deleted application is a wrong secret", "there is no limit"},
		brief: `"message":"[FIRING] late"`},
	{address: "slack+http://HOST/services/T0/B0/secretX", method: "POST", path: "/services/T0/B0/secretX", secret: "secretX",
		body:    []string{`*[FIRING] late*`, `line t2 \u0026lt;!channel\u0026gt;`, `\u003chttp://fresh.example/q|Open\u003e`},
		limited: played{status: 429, header: http.Header{"Retry-After": {"30"}}}, wait: 30 * time.Second,
		wrong: played{status: 403, body: "invalid_token"},
		gone:  &played{status: 404, body: "no_service"}, long: &played{status: 400, body: "msg_too_long"},
		brief: `"text":"*[FIRING] late*\n\u003c`},
	{address: "mattermost+http://HOST/hooks/abcdefghijklmnopqrstuvwxy7", method: "POST", path: "/hooks/abcdefghijklmnopqrstuvwxy7",
		secret:  "abcdefghijklmnopqrstuvwxy7",
		body:    []string{`**\\[FIRING\\] late**`, "@\u200bhere"},
		limited: played{status: 429, header: http.Header{"Retry-After": {"1"}}}, wait: time.Second, wrong: played{status: 403},
		gone:  &played{status: 400, body: `{"id":"web.incoming_webhook.invalid.app_error"}`},
		long:  &played{status: 400, body: `{"id":"web.incoming_webhook.text.length.app_error"}`},
		brief: `"text":"**\\[FIRING\\] late**\n[Open]`},
	{address: "discord+http://HOST/api/webhooks/1/secretY", method: "POST", path: "/api/webhooks/1/secretY", secret: "secretY",
		body:    []string{`"allowed_mentions":{"parse":[]}`, `"url":"http://fresh.example/q"`, `\\[click\\](http://evil.example)`},
		limited: played{status: 429, body: `{"message":"You are being rate limited.","retry_after":2.5,"global":false}`},
		wait:    2500 * time.Millisecond,
		wrong:   played{status: 401, body: `{"message":"Invalid Webhook Token","code":50027}`},
		gone:    &played{status: 404, body: `{"message":"Unknown Webhook","code":10015}`},
		long:    &played{status: 400, body: `{"errors":{"embeds":{"0":{"description":{"_errors":[{"code":"BASE_TYPE_MAX_LENGTH"}]}}}}}`},
		brief:   `"title":"\\[FIRING\\] late"`},
	{address: "telegram+http://123:AASecret@HOST/-100200", method: "POST", path: "/bot123:AASecret/sendMessage", secret: "AASecret",
		body: []string{`"chat_id":"-100200"`, `"parse_mode":"HTML"`, "@\u200bhere"},
		limited: played{status: 429, body: `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after ` +
			`35","parameters":{"retry_after":35}}`}, wait: 35 * time.Second,
		wrong: played{status: 401, body: `{"ok":false,"error_code":401,"description":"Unauthorized"}`},
		gone:  &played{status: 403, body: `{"ok":false,"error_code":403,"description":"Forbidden: bot was kicked from the group chat"}`},
		long:  &played{status: 400, body: `{"ok":false,"error_code":400,"description":"Bad Request: message is too long"}`},
		brief: `[FIRING] late\u003c/b\u003e\n\u003ca`},
	{address: "teams+http://HOST/workflows/abc/triggers/manual/paths/invoke?sig=secretZ", method: "POST",
		path: "/workflows/abc/triggers/manual/paths/invoke", secret: "secretZ",
		body:    []string{`"type":"AdaptiveCard"`, `"type":"TextRun"`, `"url":"http://fresh.example/q"`},
		limited: played{status: 429, header: http.Header{"Retry-After": {"10"}}}, wait: 10 * time.Second,
		wrong: played{status: 401, body: `{"error":{"code":"DirectApiInvalidAuthorizationScheme"}}`},
		gone:  &played{status: 404, body: `{"error":{"code":"WorkflowNotFound"}}`}, long: &played{status: 413},
		brief: `"text":"[FIRING] late"`},
	{address: "matrix+http://syt_secret@HOST/!room:example.org", method: "PUT",
		path:   "/_matrix/client/v3/rooms/%21room:example.org/send/m.room.message/msg_1",
		header: [2]string{"Authorization", "Bearer syt_secret"}, secret: "syt_secret", body: []string{`"m.mentions":{}`, `"msgtype":"m.text"`},
		limited: played{status: 429, body: `{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":2000}`}, wait: 2 * time.Second,
		wrong: played{status: 401, body: `{"errcode":"M_UNKNOWN_TOKEN"}`}, long: &played{status: 413, body: `{"errcode":"M_TOO_LARGE"}`},
		none:  [2]string{"a room that was left is a wrong secret", ""},
		brief: `"body":"[FIRING] late\nhttp://`},
	{address: "pushover+http://userkey:apptoken@HOST/", method: "POST", path: "/1/messages.json", secret: "apptoken",
		body:    []string{`"token":"apptoken"`, `"user":"userkey"`, `"priority":1`},
		limited: played{status: 429, body: `{"status":0}`},
		wrong:   played{status: 400, body: `{"token":"invalid","errors":["application token is invalid"],"status":0}`},
		long:    &played{status: 400, body: `{"errors":["message is too long"],"status":0}`},
		none:    [2]string{"a user who left is a wrong secret", ""},
		brief:   `"message":"[FIRING] late"`},
	{address: "text+http://HOST/hook?key=secretQ", method: "POST", path: "/hook", header: [2]string{"Content-Type",
		"text/plain; charset=utf-8"}, secret: "secretQ",
		body:    []string{"[FIRING] late\nline t2"},
		limited: played{status: 503, header: http.Header{"Retry-After": {"5"}}}, wait: 5 * time.Second, wrong: played{status: 403},
		gone: &played{status: 410}, long: &played{status: 413},
		brief: "[FIRING] late\nhttp"},
	{address: "markdown+http://HOST/hook?key=secretQ", method: "POST", path: "/hook", header: [2]string{"Content-Type",
		"text/markdown; charset=utf-8"}, secret: "secretQ",
		body: []string{`**\[FIRING\] late**`}, limited: played{status: 429}, wrong: played{status: 403}, gone: &played{status: 410},
		long:  &played{status: 413},
		brief: `**\[FIRING\] late**`},
	{address: "apprise+http://HOST/notify/keyS", method: "POST", path: "/notify/keyS", secret: "keyS",
		body:    []string{`"type":"failure"`, `"format":"text"`},
		limited: played{status: 429}, wrong: played{status: 204},
		none:  [2]string{"an unknown key is a wrong secret", "Apprise splits messages"},
		brief: `"body":"[FIRING] late\nhttp://`},
	{address: browser.address("HOST"), method: "POST", path: "/push/secretP", header: [2]string{"Urgency", "high"},
		secret: "secretP", read: browser.open,
		body:    []string{`"title":"[FIRING] late"`, `"url":"http://fresh.example/q"`, `"tag":"msg_1"`},
		limited: played{status: 429, header: http.Header{"Retry-After": {"45"}}}, wait: 45 * time.Second,
		wrong: played{status: 403, body: `the VAPID credentials do not match`},
		gone:  &played{status: 410}, long: &played{status: 413},
		brief: `"body":"","tag"`},
}

var message = service.Message{ID: "msg_1", Title: "[FIRING] late", Text: "line t2 <!channel> @here\n[click](http://evil.example)",
	Link:  "http://fresh.example/q",
	State: registry.AlertFiring, At: time.Unix(1_700_000_000, 0), From: "https://fresh.example"}

// Each kind sends what its service documents, and understands what it answers.
func TestServices(t *testing.T) {
	tested := map[string]bool{}
	for _, x := range services {
		k, _, err := service.Find("", x.address)
		if err != nil {
			t.Errorf("%s: %v", x.address, err)
			continue
		}
		tested[k.Name] = true
		r, requests := play(t, "", x.address, message)
		if !r.OK() || len(requests) != 1 {
			t.Errorf("%s: %+v after %d requests", k.Name, r, len(requests))
			continue
		}
		if x.read == nil {
			x.read = func(_ *testing.T, q got) string { return q.body }
		}
		q := requests[0]
		q.body = x.read(t, q)
		if q.method != x.method || q.path != x.path || x.header[0] != "" && q.header.Get(x.header[0]) != x.header[1] {
			t.Errorf("%s: %s %s %v", k.Name, q.method, q.path, q.header)
		}
		for _, part := range x.body {
			if !strings.Contains(q.body, part) {
				t.Errorf("%s: no %s in %s", k.Name, part, q.body)
			}
		}
		for _, text := range []string{"", " \n"} {
			brief := message
			brief.Text = text
			if r, requests := play(t, "", x.address, brief); !r.OK() || x.brief == "" || !strings.Contains(x.read(t, requests[0]),
				x.brief) || strings.Contains(x.read(t, requests[0]), `"message":""`) {
				t.Errorf("%s, no text: %s", k.Name, x.read(t, requests[0]))
			}
		}
		if r, _ := play(t, "", x.address, message, x.limited); r.OK() || r.Refused() || r.Wait != x.wait {
			t.Errorf("%s, too many requests: status %d, wait %v, want %v", k.Name, r.Status, r.Wait, x.wait)
		}
		if r, _ := play(t, "", x.address, message, x.wrong); !r.Refused() || strings.Contains(r.Problem(), x.secret) {
			t.Errorf("%s, wrong secret: status %d, %s", k.Name, r.Status, r.Problem())
		}
		if x.gone != nil {
			if r, _ := play(t, "", x.address, message, *x.gone); r.Status != http.StatusGone || r.Problem() == "" {
				t.Errorf("%s, gone: status %d, %s", k.Name, r.Status, r.Problem())
			}
		}
		if x.long != nil {
			long := message
			long.Text = strings.Repeat("é ", 5000)
			r, requests := play(t, "", x.address, long, *x.long)
			if !r.OK() || len(requests) != 2 || len(requests[1].body) > 2500 {
				t.Errorf("%s, too long: %+v after %d requests", k.Name, r, len(requests))
			}
		}
		to := registry.Receiver{Kind: k.Name, Address: strings.Replace(x.address, "HOST", "h.example", 1)}
		if masked := to.Masked(); strings.Contains(masked, x.secret) || !strings.Contains(masked, "h.example") ||
			masked == (registry.Receiver{Kind: k.Name, Address: to.Address + "1"}).Masked() {
			t.Errorf("%s is shown as %s", k.Name, masked)
		}
	}
	for _, k := range service.Kinds() {
		if !tested[k.Name] {
			t.Errorf("%s is not tested: add a row", k.Name)
		}
		if kind, _, err := service.Find("", notifytest.SecretAddresses[k.Name]); err != nil || kind != k {
			t.Errorf("notifytest.SecretAddresses has no address of %s: add one", k.Name)
		}
	}
}

// What a push service answers is said as it is: only a wrong signature is about the key.
func TestAnswersOfPushServices(t *testing.T) {
	for status, want := range map[int]string{400: "answered 400", 401: "subscribed with another key", 403: "subscribed with another key",
		404: "its subscription has ended", 410: "its subscription has ended", 500: "answered 500"} {
		r, _ := play(t, "", browser.address("HOST"), message, played{status: status})
		other := status != 401 && status != 403 && strings.Contains(r.Problem(), "key")
		if gone := r.Status == http.StatusGone; !strings.Contains(r.Problem(), want) || other || gone != (status == 404 || status == 410) {
			t.Errorf("%d: status %d, %s", status, r.Status, r.Problem())
		}
	}
}

// The services' own web addresses are enough, and what is missing in others is said without their secrets.
func TestFind(t *testing.T) {
	for address, want := range map[string]string{
		"https://ntfy.sh/city":                                                                          "ntfy",
		"https://hooks.slack.com/services/T0/B0/x":                                                      "slack",
		"https://discord.com/api/webhooks/1/x":                                                          "discord",
		"https://chat.example.org/hooks/abcdefghijklmnopqrstuvwxy7":                                     "mattermost",
		"https://prod-1.westeurope.logic.azure.com:443/workflows/a/triggers/manual/paths/invoke?sig=x":  "teams",
		"https://abc.12.environment.api.powerplatform.com:443/powerautomate/automations/direct/x?sig=y": "teams",
		"telegram://123:AA@/-100":                                                                       "telegram",
		"pushover://u:t@":                                                                               "pushover",
		"matrix://tok@matrix.org/!a:matrix.org":                                                         "matrix",
		"gotify://g.example/?token=x":                                                                   "gotify",
		"text://h.example/":                                                                             "text",
		"https://h.example/hook":                                                                        "",
		"ftp://h.example/":                                                                              "",
		"gotify+ftp://h.example/?token=x":                                                               "",
		"gotify://g.example/":                                                                           "",
		"telegram://123:SECRET@/":                                                                       "",
		"pushover://SECRET@":                                                                            "",
		"https://ntfy.sh/":                                                                              "",
		"ntfy:opaque":                                                                                   "",
		"ntfy+https:///topic":                                                                           "",
		"text://h.example/a b":                                                                          "",
		"text://h.example/%zz":                                                                          "",
		"text://h.example/" + strings.Repeat("x", 5000):                                                 "",
	} {
		k, complete, err := service.Find("", address)
		switch {
		case want == "" && err == nil:
			t.Errorf("%.80s is %s", address, complete)
		case want != "" && (err != nil || k.Name != want):
			t.Errorf("%s: %v", address, err)
		case err != nil && strings.Contains(err.Error(), "SECRET"):
			t.Errorf("the error shows the address: %v", err)
		case err == nil && service.Base(complete) == "":
			t.Errorf("%s has no base", complete)
		}
	}
	if k, complete, err := service.Find("ntfy", "https://push.example.org/city"); err != nil || k.Name != "ntfy" ||
		complete != "ntfy+https://push.example.org/city" {
		t.Errorf("%s, %v", complete, err)
	}
	for _, rest := range []string{strings.Repeat("{text}", 600), strings.Repeat("x", 4000)} { // what is taken is taken again
		if k, complete, err := service.Find("", "text+https://h.example/x#"+rest); err == nil {
			if _, _, err := service.Find(k.Name, complete); err != nil {
				t.Errorf("%d bytes: %v", len(complete), err)
			}
		} else if len(rest) == 4000 {
			t.Error(err)
		}
	}
	if _, _, err := service.Find("slack", "https://ntfy.sh/city"); err != nil {
		t.Errorf("a proxy of Slack: %v", err)
	}
	if _, _, err := service.Find("slack", "ntfy+https://push.example.org/city"); err == nil {
		t.Error("an address of another kind is taken")
	}
}

// A template becomes the body, and values cannot break its JSON.
func TestTemplate(t *testing.T) {
	m := message
	m.Title = `"}, "admin": true, {"` + "\n"
	r, requests := play(t, "", `text+http://HOST/hook#%7B%22msg%22:%22%7Btitle%7D%20%7Btext%7D%22,%22at%22:%22%7Blink%7D%22%7D`, m)
	var body map[string]string
	if !r.OK() || json.Unmarshal([]byte(requests[0].body), &body) != nil || len(body) != 2 || body["at"] != m.Link ||
		requests[0].header.Get("Content-Type") != "application/json" {
		t.Errorf("%+v: %s", r, requests[0].body)
	}
	m.Text = ""
	if _, requests = play(t, "", `text+http://HOST/hook#%7B%22msg%22:%22%7Btext%7D%22%7D`, m); !strings.Contains(requests[0].body, "admin") {
		t.Errorf("a message without text says nothing: %s", requests[0].body)
	}
	if _, requests = play(t, "", "text+http://HOST/hook#%7Bstate%7D:%20%7Btitle%7D",
		message); requests[0].body != "firing: [FIRING] late" || requests[0].path != "/hook" {
		t.Errorf("%q", requests[0].body)
	}
}

// Whatever the data holds, a message is as long as its service allows, and is sent.
func TestLongMessages(t *testing.T) {
	m := message
	m.Title, m.Text = strings.Repeat("*é_", 5000), strings.Repeat("[x](y)@\n", 5000)
	for _, x := range services {
		r, requests := play(t, "", x.address, m)
		if !r.OK() || len(requests) != 1 || x.read == nil && !utf8.ValidString(requests[0].body) ||
			utf8.RuneCountInString(requests[0].body) > 16_000 {
			t.Errorf("%s: %+v", x.address, r)
		}
	}
}

// The title of a card of Discord has at most 256 characters, of which none is half escaped.
func TestDiscordTitle(t *testing.T) {
	for _, part := range []string{"late_departures_of_[x], ", "_", "é"} {
		m := message
		m.Title = strings.Repeat(part, 400)
		_, requests := play(t, "", "discord+http://HOST/api/webhooks/1/x", m)
		var body struct{ Embeds []struct{ Title string } }
		if err := json.Unmarshal([]byte(requests[0].body), &body); err != nil {
			t.Fatal(err)
		}
		title := body.Embeds[0].Title
		if n := utf8.RuneCountInString(title); n > 256 || n < 200 || !strings.HasSuffix(title, "…") || strings.HasSuffix(title, `\…`) {
			t.Errorf("%d characters: %s", n, title)
		}
	}
}

// A receiver is shown with the host that is called, by which its requests are limited, whatever its secret is.
func TestMaskedHost(t *testing.T) {
	for _, address := range []string{"gotify+https://push.example.org?token=abc@SECRET", "text+http://victim.example?x=@SECRET",
		"text+http://victim.example?x=@127.0.0.1",
		"text+https://victim.example#a@SECRET/", "text+https://u:SECRET@victim.example:8443?x=https://a@SECRET",
		"telegram://123:SECRET@/-100", "matrix+https://SECRET@[::1]:8008/!SECRET:b?x=@z"} {
		k, complete, err := service.Find("", address)
		if err != nil {
			t.Fatal(err)
		}
		masked := (registry.Receiver{Kind: k.Name, Address: complete}).Masked()
		if strings.Contains(masked, "SECRET") || deliver.Host(masked) == "" || deliver.Host(masked) != deliver.Host(service.Base(complete)) {
			t.Errorf("%s is shown as %s", address, masked)
		}
	}
}

// A caller cannot make the server call others again and again.
func TestTry(t *testing.T) {
	e, calls := engine(t), 0
	var refused error
	for range 20 {
		_, err := e.Try(context.Background(), "app", func(context.Context, *deliver.Client) deliver.Reply {
			calls++
			return deliver.Reply{Status: 200}
		})
		refused = err
	}
	if _, err := e.Try(context.Background(), "other",
		func(context.Context, *deliver.Client) deliver.Reply { return deliver.Reply{} }); calls > 6 || refused == nil || err != nil {
		t.Errorf("%d calls, %v; another caller: %v", calls, refused, err)
	}
}

func TestForms(t *testing.T) {
	var names []string
	for _, k := range service.Kinds() {
		names = append(names, k.Name)
		if !strings.Contains(service.Forms(), k.Form) {
			t.Errorf("%s is not among the forms", k.Name)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("%q", names)
	}
}

// The page of the documentation has a section of each kind, whose addresses can be used as they are.
func TestReceiversPage(t *testing.T) {
	page, err := os.ReadFile("../../web/docs/receivers.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^freshet notify add (\S+) --query spaces$`).FindAllSubmatch(page, -1) {
		address := strings.Trim(string(m[1]), "'")
		if strings.HasPrefix(address, "mailto:") {
			continue
		}
		k, complete, err := service.Find("", address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		named[k.Name] = true
		if masked := (registry.Receiver{Kind: k.Name, Address: complete}).Masked(); len(masked) > len(k.Name)+70 ||
			strings.Contains(masked, "?") {
			t.Errorf("%s is shown as %s", complete, masked)
		}
	}
	openAPI, err := os.ReadFile("../../web/docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range service.Kinds() {
		if !named[k.Name] {
			t.Errorf("receivers.md has no address of %s", k.Name)
		}
		if n := strings.Count(string(openAPI), " "+k.Name+": {type: string}"); n != 2 {
			t.Errorf("openapi.yaml names %s %d times, want once among the receivers of a new rule and once among those of a rule", k.Name, n)
		}
	}
}

// The page on tests says what each service plays, and no message goes to a network that the operator does not list.
func TestPlayedServices(t *testing.T) {
	guard, err := deliver.NewGuard(nil)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(p *played, none string) string {
		if p == nil {
			return "–: " + none
		}
		return strconv.Itoa(p.status)
	}
	table := []string{"| Service | Too often | Asks to wait | Wrong secret | Gone | Too long |", "|---|---|---|---|---|---|"}
	for _, x := range services {
		k, complete, err := service.Find("", strings.ReplaceAll(x.address, "HOST", "10.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := guard.Check(service.Base(complete)); err == nil {
			t.Errorf("%s goes to a private address", k.Name)
		}
		if x.gone == nil && x.none[0] == "" || x.long == nil && x.none[1] == "" {
			t.Errorf("%s plays too little", k.Name)
		}
		wait := "–"
		if x.wait > 0 {
			wait = x.wait.String()
		}
		table = append(table, fmt.Sprintf("| %s | %d | %s | %d | %s | %s |", k.Name, x.limited.status, wait, x.wrong.status,
			answer(x.gone, x.none[0]), answer(x.long, x.none[1])))
	}
	page, err := os.ReadFile("../../web/docs/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Join(table, "\n") + "\n"; !strings.Contains(string(page), want) {
		t.Errorf("testing.md has no such table:\n%s", want)
	}
}

// An address of no service leads to those of all services, and of e-mail.
func TestUnknownAddressNamesEmail(t *testing.T) {
	if _, _, err := service.Find("", "you@example.org"); err == nil || !strings.Contains(err.Error(), "ntfy") ||
		!strings.Contains(err.Error(), "e-mail like mailto:you@example.org") {
		t.Error(err)
	}
}
