package service

import (
	"bytes"
	"crypto/ecdh"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

// The example of RFC 8291, section 5 and appendix A.
func TestSealedExample(t *testing.T) {
	raw := func(s string) []byte {
		b, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	theirs, err := ecdh.P256().NewPublicKey(raw("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"))
	if err != nil {
		t.Fatal(err)
	}
	mine, err := ecdh.P256().NewPrivateKey(raw("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := sealed([]byte("When I grow up, I want to be a watermelon"), theirs, raw("BTBZMqHH6r4Tts7J_aSIgg"), mine,
		raw("DGv6ra1nlYgDCS1FRnbzlw"))
	want := "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYW" +
		"AmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
	if err != nil || base64.RawURLEncoding.EncodeToString(got) != want {
		t.Errorf("%s, %v", base64.RawURLEncoding.EncodeToString(got), err)
	}
}

// Whatever a message holds, its body is as long as push services take, and is valid JSON.
func TestPushedFits(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("é", 700), strings.Repeat("\u2028", 700), strings.Repeat(`"<\`, 233),
		strings.Repeat("😀", 700)} {
		m := Message{ID: "msg_1", Title: Cut(strings.Repeat("\u2028", 300), mostTitle), Text: text,
			Link: "https://fresh.example/queries/" + strings.Repeat("q", 100)}
		b := pushed(&m)
		var v map[string]string
		if err := json.Unmarshal(b, &v); err != nil || len(b)+recordHead+17 > mostPush || v["title"] != m.Title || text != "" && v["body"] == "" {
			t.Errorf("%d bytes, %v: %.100s", len(b), err, b)
		}
		if len(text) < 10 && v["body"] != text || bytes.ContainsRune(b, 0) {
			t.Errorf("%s", b)
		}
	}
}

// An address holds the keys of the browser and none of the server, also if an earlier version has stored it with one.
func TestBrowserAddress(t *testing.T) {
	key := NewPushKey()
	const browser = "webpush+https://push.example/abc" +
		"#p256dh=BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4" +
		"&auth=BTBZMqHH6r4Tts7J_aSIgg"
	for _, address := range []string{browser, browser + "&key=" + key} {
		if _, complete, err := Find("", address); err != nil || complete != browser {
			t.Errorf("%s, %v", complete, err)
		}
	}
	u, err := parse(browser + "&key=" + NewPushKey())
	if err != nil {
		t.Fatal(err)
	}
	m := Message{ID: "msg_1", Title: "late"}
	if q := push(u, &m); q.err == nil {
		t.Error("it is sent without a key")
	}
	m.Key = func() (string, error) { return key, nil }
	public, err := PublicPushKey(key)
	if q := push(u, &m); q.err != nil || err != nil || !strings.HasSuffix(q.header.Get("Authorization"), ", k="+public) ||
		strings.Contains(q.url, "key") {
		t.Errorf("%v, %v, %v", q.err, err, q.header)
	}
	if raw, _ := base64.RawURLEncoding.DecodeString(public); err != nil || len(raw) != 65 {
		t.Errorf("%s, %v", public, err)
	}
	if _, err := PublicPushKey("x"); err == nil {
		t.Error("x is a key")
	}
	for _, wrong := range []string{"", "#p256dh=AAAA&auth=BTBZMqHH6r4Tts7J_aSIgg", "#auth=BTBZMqHH6r4Tts7J_aSIgg",
		strings.Replace(browser[strings.Index(browser, "#"):], "_aSIgg", "", 1)} {
		if _, _, err := Find("", "webpush+https://push.example/PRIVATE"+wrong); err == nil || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}
