package ui

import (
	"encoding/base64"
	"encoding/json"
	"time"
)

// A flash reports the outcome of a form on the next page.
type flash struct {
	Kind   string `json:"k"` // good, warn, fail, or "" for a neutral message
	Text   string `json:"t"`
	Detail string `json:"d,omitempty"`
}

const (
	flashCookie = "freshet-said"
	longestWord = 600 // bytes of each text: a cookie holds 4 KB
)

// say shows a message on the next page. The message travels in a cookie, so it is
// untrusted and is escaped.
func (v *visit) say(kind, text, detail string) {
	b, _ := json.Marshal(flash{kind, clip(text, longestWord), clip(detail, longestWord)}) // marshalling strings cannot fail
	v.sessions.set(v.w, flashCookie, base64.RawURLEncoding.EncodeToString(b), time.Minute)
}

// said returns and clears the message of the previous request.
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
