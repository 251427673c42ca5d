package web

// This file reads merge patches, and the conditions of requests.

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

var errPauseField = registry.WrongField("bad-endpoint", "/pause", "an endpoint is paused and resumed by POST …/pause and …/resume")

// apply returns settings changed by a merge patch (RFC 7396). null resets a setting to its default.
func apply[T any](old T, patch map[string]any) (next T, err error) {
	before, err := object(old)
	if err != nil {
		return next, err
	}
	after, err := json.Marshal(merge(before, patch))
	if err != nil {
		return next, err
	}
	err = readJSON(bytes.NewReader(after), &next)
	return next, err
}

// object returns settings as they are in JSON.
func object(settings any) (doc map[string]any, err error) {
	b, err := json.Marshal(settings)
	if err == nil {
		err = json.Unmarshal(b, &doc)
	}
	return doc, err
}

// patched applies a merge patch to an endpoint's settings.
func patched(e registry.Endpoint, patch map[string]any) (registry.Endpoint, error) {
	if _, ok := patch["pause"]; ok {
		return e, errPauseField
	}
	if err := registry.CheckGiven(patch); err != nil {
		return e, err
	}
	old := e
	if to, ok := patch["url"].(string); ok && registry.LeavesHost(e, registry.Endpoint{URL: to}) {
		old = e.Masked() // secrets must not be sent to another host: those that are not repeated are refused below
	}
	next, err := apply(old, patch)
	if err != nil {
		return e, err
	}
	next.Pause = e.Pause
	if err := unmask(old, &next); err != nil {
		return e, err
	}
	return next, noFiles(e, next)
}

// merge is the function MergePatch of RFC 7396, section 2.
func merge(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for name, value := range p {
		if value == nil {
			delete(t, name)
		} else {
			t[name] = merge(t[name], value)
		}
	}
	return t
}

// MergePatch returns the merge patch that makes to of from.
func MergePatch(from, to any) (map[string]any, error) {
	a, err := object(from)
	if err != nil {
		return nil, err
	}
	b, err := object(to)
	return mergePatch(a, b), err
}

func mergePatch(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for name := range from {
		patch[name] = nil
	}
	for name, value := range to {
		patch[name] = value
		if object, ok := value.(map[string]any); ok {
			was, _ := from[name].(map[string]any)
			patch[name] = mergePatch(was, object)
		}
	}
	return patch
}

// unmask replaces masks in next by the secrets of old. If old holds a mask as well,
// the endpoint has moved to another host and needs its own secret.
func unmask(old registry.Endpoint, next *registry.Endpoint) error {
	for name, value := range next.Headers {
		if value != registry.Mask {
			continue
		}
		if _, ok := old.Headers[name]; !ok {
			return registry.WrongField("bad-endpoint", "/headers", "a header's value %q refers to a stored one, and there is none", registry.Mask)
		}
		if next.Headers[name] = old.Headers[name]; next.Headers[name] == registry.Mask {
			return sendAgain("/headers", "the header "+name)
		}
	}
	for i, p := range passwords(next.Auth) {
		if p == nil || p.Password != registry.Mask {
			continue
		}
		was := passwords(old.Auth)[i]
		if was == nil {
			return registry.WrongField("bad-endpoint", "/auth", "a password %q refers to a stored one, and there is none", registry.Mask)
		}
		if p.Password = was.Password; p.Password == registry.Mask {
			return sendAgain("/auth/"+[]string{"basic", "digest"}[i]+"/password", "the password")
		}
	}
	if b := next.Auth.Bearer; b != nil && b.Token == registry.Mask {
		if old.Auth.Bearer == nil {
			return registry.WrongField("bad-endpoint", "/auth", "a token %q refers to a stored one, and there is none", registry.Mask)
		}
		if b.Token = old.Auth.Bearer.Token; b.Token == registry.Mask {
			return sendAgain("/auth/bearer/token", "the token")
		}
	}
	return nil
}

func sendAgain(pointer, what string) error {
	return registry.WrongField("bad-endpoint", pointer, "url leads to another host, or away from https: send %s again in the same "+
		"request, or drop it with null", what)
}

func passwords(a registry.Auth) [2]*registry.Password {
	return [2]*registry.Password{a.Basic, a.Digest}
}

// noFiles rejects names of files on the server, whose content would be sent to an
// endpoint of the caller's choice.
func noFiles(old, next registry.Endpoint) error {
	for i, p := range passwords(next.Auth) {
		was := passwords(old.Auth)[i]
		if p != nil && p.PasswordFile != "" && (was == nil || was.PasswordFile != p.PasswordFile || old.URL != next.URL) {
			return registry.WrongField("bad-endpoint", "/auth/"+[]string{"basic", "digest"}[i]+"/password_file",
				"files are named in the configuration file only; send the password itself")
		}
	}
	was := old.Auth.Bearer
	if b := next.Auth.Bearer; b != nil && b.TokenFile != "" && (was == nil || was.TokenFile != b.TokenFile || old.URL != next.URL) {
		return registry.WrongField("bad-endpoint", "/auth/bearer/token_file",
			"files are named in the configuration file only; send the token itself")
	}
	return nil
}

// settingsTag is a strong validator of editable settings. It does not cover counters
// and measurements.
func settingsTag(settings any) string {
	b, _ := json.Marshal(settings) // cannot fail for these types
	sum := sha256.Sum256(b)
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// guarded edits an object of the path if it is what If-Match names. It releases the lock before the answer is written,
// because a client may be slow to read it.
func guarded[T any](c *call, find func(*call) (T, error), tag func(T) string, do func(T) (T, error)) (T, error) {
	c.edits.Lock()
	defer c.edits.Unlock()
	x, err := find(c)
	if err == nil {
		err = c.ifMatch(tag(x))
	}
	if err != nil {
		return x, err
	}
	return do(x)
}

// expected returns a 412 problem if the precondition fails: If-Match, else
// If-Unmodified-Since with a resolution of seconds (RFC 9110, 13.2.2).
func (c *call) expected(tag string, modified time.Time) error {
	if len(c.r.Header.Values("If-Match")) > 0 {
		return c.ifMatch(tag)
	}
	since, err := http.ParseTime(c.r.Header.Get("If-Unmodified-Since"))
	if err == nil && modified.Truncate(time.Second).After(since) {
		return newProblem("precondition-failed", "it has changed after the time of If-Unmodified-Since")
	}
	return nil
}

// ifMatch returns a 412 problem if If-Match does not match.
func (c *call) ifMatch(tag string) error {
	want := c.r.Header.Values("If-Match")
	if len(want) == 0 || anyTag(want, tag, false) {
		return nil
	}
	return newProblem("precondition-failed", "it is not (any more) what If-Match names: read it again")
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
