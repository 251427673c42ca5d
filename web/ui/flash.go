package ui

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"github.com/freshet/freshet/scheduler"
)

// A flash reports the outcome of a form on the next page. The template "said" holds the
// sentences of each code.
type flash struct {
	Kind string          `json:"k"` // good, warn, fail, or "" for a neutral message
	Code string          `json:"c"`
	Name string          `json:"n,omitempty"` // what the message is about
	Text string          `json:"t,omitempty"` // an error, or another value
	Done int             `json:"d,omitempty"`
	Not  int             `json:"r,omitempty"`
	Slot *scheduler.Slot `json:"s,omitempty"`
}

const (
	flashCookie = "freshet-said"
	longestWord = 600 // bytes of each text: a cookie holds 4 KB
)

// say shows a message on the next page.
func (v *visit) say(kind, code, name, text string) {
	v.report(flash{Kind: kind, Code: code, Name: name, Text: text})
}

// report sends the message in a cookie. Other hosts of the domain can set cookies, so it
// is signed: only this server puts words on its pages.
func (v *visit) report(f flash) {
	f.Name, f.Text = clip(f.Name, longestWord), clip(f.Text, longestWord)
	b, _ := json.Marshal(f) // marshalling strings and numbers cannot fail
	v.sessions.set(v.w, flashCookie, base64.RawURLEncoding.EncodeToString(append(v.sessions.sign(b), b...)), time.Minute)
}

func (s *sessions) sign(b []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write(b)
	return h.Sum(nil)
}

// said returns and clears the message of the previous request.
func (s *sessions) said(w http.ResponseWriter, r *http.Request) *flash {
	c, err := r.Cookie(flashCookie)
	if err != nil {
		return nil
	}
	s.set(w, flashCookie, "", 0)
	b, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || len(b) < sha256.Size || !hmac.Equal(b[:sha256.Size], s.sign(b[sha256.Size:])) {
		return nil
	}
	var f flash
	if json.Unmarshal(b[sha256.Size:], &f) != nil {
		return nil
	}
	return &f
}
