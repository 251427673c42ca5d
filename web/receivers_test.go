package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/freshet/freshet/notify/service"
)

// Receivers are made, tested, listed and dropped by the API, and their addresses stay secret.
func TestReceivers(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText, `"name":"rows"`)
	var got atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		got.Add(1)
		if strings.HasSuffix(r.URL.Path, "/wrong") {
			rw.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(s.Close)
	address := "text+" + s.URL + "/SECRET"
	if kind := w.post("/v1/receivers/test", `{"notify":"`+address+`"}`).status(200).json()["kind"]; kind != "text" || got.Load() != 1 {
		t.Errorf("%v, %d messages", kind, got.Load())
	}
	w.post("/v1/receivers/test", `{"notify":"`+address+`/wrong"}`).problem(422, "bad-setting")
	w.post("/v1/receivers/test", `{"notify":"https://example.org/SECRET"}`).problem(422, "bad-setting")
	w.post("/v1/receivers/test", `{"to":"x"}`).problem(400, "malformed")
	v := w.post("/v1/receivers", `{"notify":"`+address+`","query":"rows","digest":"08:00","zone":"Europe/Berlin"}`).status(201).json()
	if v["kind"] != "text" || v["way"] != "notify" || v["query"] != id || v["digest"] != "08:00" || v["zone"] != "Europe/Berlin" ||
		v["state"] != "active" {
		t.Errorf("%v", v)
	}
	w.post("/v1/receivers", `{"notify":"`+address+`","query":"rows","quiet":"at night"}`).problem(422, "bad-setting")
	w.post("/v1/receivers", `{"notify":"`+address+`","query":"nothing"}`).problem(422, "unknown-query")
	w.do("POST", "/v1/receivers", "notify=x", "Content-Type: text/plain").problem(415, "unsupported-media-type")
	list := w.get("/v1/subscriptions?way=notify").status(200)
	if strings.Contains(string(list.body), "SECRET") || !strings.Contains(string(list.body), `"kind":"text"`) {
		t.Errorf("%s", list.body)
	}
	w.do("DELETE", "/v1/subscriptions/"+v["id"].(string), "").status(204)
}

// A browser is told by an encrypted and signed message. Its keys, and that of the server, stay secret.
func TestPushReceiver(t *testing.T) {
	w := newWorld(t)
	w.register(selectText, `"name":"rows"`)
	headers := make(chan http.Header, 1)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		rw.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(s.Close)
	address := "webpush+" + s.URL + "/SECRET#p256dh=BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4" +
		"&auth=BTBZMqHH6r4Tts7J_aSIgg"
	w.post("/v1/receivers/test", `{"notify":"`+address+`"}`).status(200)
	public, err := service.PublicPushKey(pushKey)
	if h := <-headers; err != nil || !strings.HasSuffix(h.Get("Authorization"), ", k="+public) || h.Get("Content-Encoding") != "aes128gcm" {
		t.Errorf("%v, %v", h, err)
	}
	v := w.post("/v1/receivers", `{"notify":"`+address+`","query":"rows"}`).status(201)
	list := w.get("/v1/subscriptions?way=notify").status(200)
	for _, secret := range []string{"SECRET", "BCVxsr7N", "BTBZMqHH", pushKey} {
		if strings.Contains(string(v.body)+string(list.body), secret) {
			t.Errorf("%s is shown: %s%s", secret, v.body, list.body)
		}
	}
	if !strings.Contains(string(list.body), `"kind":"webpush"`) {
		t.Errorf("%s", list.body)
	}
	w.post("/v1/receivers", `{"notify":"webpush+https://push.example/x","query":"rows"}`).problem(422, "bad-setting")
	w.post("/v1/receivers", `{"notify":"`+strings.Replace(address, "127.0.0.1", "10.0.0.1", 1)+`","query":"rows"}`).problem(422, "bad-setting")
}
