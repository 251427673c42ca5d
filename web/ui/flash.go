package ui

import (
	"encoding/base64"
	"encoding/json"
	"time"
)

// A flash tells on the next page what became of a form.
type flash struct {
	Kind   string `json:"k"` // good, warn, fail or "" for a plain word
	Text   string `json:"t"`
	Detail string `json:"d,omitempty"`
}

const (
	flashCookie = "freshet-said"
	longestWord = 600 // bytes of each text: a cookie holds 4 KB
)

// say puts a message in front of the next page. It travels in a cookie, and is
// escaped like anything else that comes from a browser.
func (v *visit) say(kind, text, detail string) {
	b, _ := json.Marshal(flash{kind, clip(text, longestWord), clip(detail, longestWord)}) // strings only
	v.sessions.set(v.w, flashCookie, base64.RawURLEncoding.EncodeToString(b), time.Minute)
}

// said takes the message that the last page left.
func (v *visit) said() *flash {
	c, err := v.r.Cookie(flashCookie)
	if err != nil {
		return nil
	}
	v.sessions.set(v.w, flashCookie, "", 0)
	var f flash
	b, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || json.Unmarshal(b, &f) != nil || f.Text == "" {
		return nil
	}
	if f.Kind != "good" && f.Kind != "warn" && f.Kind != "fail" {
		f.Kind = ""
	}
	return &f
}
