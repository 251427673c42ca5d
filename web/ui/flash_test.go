package ui

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestMessagesAreSigned checks that a message is shown once, and that a cookie of another
// origin is not shown.
func TestMessagesAreSigned(t *testing.T) {
	said := func(s *sessions, value string) *flash {
		r := httptest.NewRequest("GET", "/", nil)
		r.AddCookie(&http.Cookie{Name: flashCookie, Value: value})
		w := httptest.NewRecorder()
		f := s.said(w, r)
		if c := w.Result().Cookies(); len(c) != 1 || c[0].Name != flashCookie || c[0].MaxAge >= 0 {
			t.Errorf("the cookie is not cleared: %v", c)
		}
		return f
	}
	v := &visit{w: httptest.NewRecorder(), Server: &Server{sessions: newSessions(time.Now, "http://127.0.0.1:8080")}}
	v.say("fail", "revert-refused", "", "the reason")
	sent := v.w.(*httptest.ResponseRecorder).Result().Cookies()[0].Value
	if f := said(v.sessions, sent); f == nil || f.Kind != "fail" || f.Code != "revert-refused" || f.Text != "the reason" {
		t.Errorf("the message is %+v", f)
	}
	if f := said(newSessions(time.Now, "http://127.0.0.1:8080"), sent); f != nil {
		t.Errorf("another process shows %+v", f)
	}
	forged := []byte(`{"k":"fail","c":"revert-refused","t":"call this number"}`)
	signed, err := base64.RawURLEncoding.DecodeString(sent)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{forged, append(make([]byte, 32), forged...), append(signed[:32:32], forged...), signed[:31], {}} {
		if f := said(v.sessions, base64.RawURLEncoding.EncodeToString(b)); f != nil {
			t.Errorf("%q shows %+v", b, f)
		}
	}
}

// TestEveryMessageHasSentences checks that the templates have sentences for each code that
// a form reports, and no others.
func TestEveryMessageHasSentences(t *testing.T) {
	codes := map[string]bool{"follower-pause": true, "follower-resume": true}
	for verb := range verbs {
		codes["query-"+verb], codes["queries-"+verb] = true, true
	}
	sameCodes(t, "templates/messages.html", regexp.MustCompile(`(?:say\("[a-z]*", |refused\(|flash\{.*Code: )"([a-z-]+[a-z])"`), codes)
	sameCodes(t, "templates/forms.html", regexp.MustCompile(`(?:bad\([a-z_"]*, |fault\{.*Code: )"([a-z_-]+)"`), map[string]bool{"": true})
}

// sameCodes compares the codes of a template with given ones and those that the Go files report.
func sameCodes(t *testing.T, template string, reported *regexp.Regexp, codes map[string]bool) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range reported.FindAllStringSubmatch(string(text), -1) {
			codes[m[1]] = true
		}
	}
	sentences, err := os.ReadFile(template)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`if eq \.Code "([^"]*)"`).FindAllStringSubmatch(string(sentences), -1) {
		if known[m[1]] || !codes[m[1]] {
			t.Errorf("%s: the code %q occurs twice, or no form reports it", template, m[1])
		}
		known[m[1]] = true
	}
	for code := range codes {
		if !known[code] {
			t.Errorf("%s has no sentence for the code %q", template, code)
		}
	}
}
