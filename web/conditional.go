package web

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// settingsTag is a strong validator of editable settings. It does not cover counters
// and measurements.
func settingsTag(settings any) string {
	b, _ := json.Marshal(settings) // cannot fail for these types
	sum := sha256.Sum256(b)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// expected returns a 412 problem if the precondition fails: If-Match, else
// If-Unmodified-Since with a resolution of seconds (RFC 9110, 13.2.2).
func (c *call) expected(tag string, modified time.Time) error {
	if len(c.r.Header.Values("If-Match")) > 0 {
		return c.ifMatch(tag)
	}
	since, err := http.ParseTime(c.r.Header.Get("If-Unmodified-Since"))
	if err == nil && modified.Truncate(time.Second).After(since) {
		return &problem{Problem: newProblem("precondition-failed", "it has changed after the time of If-Unmodified-Since")}
	}
	return nil
}

// ifMatch returns a 412 problem if If-Match does not match.
func (c *call) ifMatch(tag string) error {
	want := c.r.Header.Values("If-Match")
	if len(want) == 0 || anyTag(want, tag, false) {
		return nil
	}
	return &problem{Problem: newProblem("precondition-failed", "it is not (any more) what If-Match names: read it again")}
}

// unchanged reports whether the client already has the representation. If-None-Match
// is exact; without it If-Modified-Since applies, with a resolution of seconds.
func (c *call) unchanged(tag string, modified time.Time) bool {
	if none := c.r.Header.Values("If-None-Match"); len(none) > 0 {
		return anyTag(none, tag, true)
	}
	since, err := http.ParseTime(c.r.Header.Get("If-Modified-Since"))
	return err == nil && !modified.Truncate(time.Second).After(since)
}

// anyTag looks for tag in lists of entity tags. Weak comparison ignores W/.
func anyTag(lists []string, tag string, weak bool) bool {
	for _, l := range lists {
		for {
			l = strings.TrimLeft(l, " \t,")
			if strings.HasPrefix(l, "*") {
				return true
			}
			rest, isWeak := strings.CutPrefix(l, "W/")
			if !strings.HasPrefix(rest, `"`) {
				break
			}
			end := strings.IndexByte(rest[1:], '"')
			if end < 0 {
				break
			}
			if rest[:end+2] == tag && (weak || !isWeak) {
				return true
			}
			l = rest[end+2:]
		}
	}
	return false
}
