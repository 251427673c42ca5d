package endpoint

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"net/http"
	"strings"
	"sync"

	"github.com/freshet/freshet/registry"
)

// digest answers HTTP Digest challenges (RFC 7616): MD5 and SHA-256, plain and
// -sess, quality of protection "auth" or none. A challenge is used until the
// server sends a new one, so that only the first request is sent twice.
type digest struct {
	user registry.Password

	mu    sync.Mutex
	known challenge
	count uint32 // uses of known.nonce
}

// A challenge is one Digest challenge of a WWW-Authenticate header.
type challenge struct {
	realm, nonce, opaque, algorithm string
	auth                            bool // offers qop=auth
}

func (d *digest) authorize(r *http.Request) error {
	password, err := secret(d.user.Password, d.user.PasswordFile)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.count++
	k, n := d.known, d.count
	d.mu.Unlock()
	if k.nonce == "" {
		return nil // the server has to send a challenge first
	}
	r.Header.Set("Authorization", k.response(d.user.Username, password, r.Method, r.URL.RequestURI(), cnonce(), n))
	return nil
}

func (d *digest) challenged(h http.Header) bool {
	best, found := challenge{}, false
	for _, line := range h.Values("WWW-Authenticate") {
		for _, c := range challenges(line) {
			if newHash(c.algorithm) == nil || c.nonce == "" {
				continue
			}
			if !found || strings.HasPrefix(strings.ToUpper(c.algorithm), "SHA-256") && !strings.HasPrefix(strings.ToUpper(best.algorithm), "SHA-256") {
				best, found = c, true
			}
		}
	}
	if !found {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.count = best, 0
	return true
}

func newHash(algorithm string) func() hash.Hash {
	switch strings.TrimSuffix(strings.ToUpper(algorithm), "-SESS") {
	case "", "MD5":
		return md5.New
	case "SHA-256":
		return sha256.New
	}
	return nil
}

func cnonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// response is the Authorization header (RFC 7616, section 3.4).
func (k challenge) response(user, password, method, uri, cnonce string, count uint32) string {
	h := func(s string) string {
		sum := newHash(k.algorithm)()
		sum.Write([]byte(s))
		return hex.EncodeToString(sum.Sum(nil))
	}
	ha1 := h(user + ":" + k.realm + ":" + password)
	if strings.HasSuffix(strings.ToUpper(k.algorithm), "-SESS") {
		ha1 = h(ha1 + ":" + k.nonce + ":" + cnonce)
	}
	ha2, nc := h(method+":"+uri), fmt.Sprintf("%08x", count)
	proof := h(ha1 + ":" + k.nonce + ":" + ha2)
	if k.auth {
		proof = h(strings.Join([]string{ha1, k.nonce, nc, cnonce, "auth", ha2}, ":"))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `Digest username=%s, realm=%s, nonce=%s, uri=%s, response="%s"`,
		quoted(user), quoted(k.realm), quoted(k.nonce), quoted(uri), proof)
	if k.algorithm != "" {
		fmt.Fprintf(&b, ", algorithm=%s", k.algorithm)
	}
	if k.opaque != "" {
		fmt.Fprintf(&b, ", opaque=%s", quoted(k.opaque))
	}
	if k.auth {
		fmt.Fprintf(&b, `, qop=auth, nc=%s, cnonce="%s"`, nc, cnonce)
	} else if strings.HasSuffix(strings.ToUpper(k.algorithm), "-SESS") {
		fmt.Fprintf(&b, `, cnonce="%s"`, cnonce)
	}
	return b.String()
}

func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// challenges reads the Digest challenges of one header line. A line may hold
// challenges of several schemes, separated by commas as their parameters are.
func challenges(line string) []challenge {
	var out []challenge
	digest := false
	for _, item := range splitList(line) {
		if scheme, rest, ok := strings.Cut(item, " "); ok && !strings.ContainsAny(scheme, `="`) {
			if digest = strings.EqualFold(scheme, "Digest"); digest {
				out = append(out, challenge{})
			}
			item = strings.TrimSpace(rest)
		} else if !strings.Contains(item, "=") {
			digest = false // a scheme without parameters
		}
		if digest {
			name, value, _ := strings.Cut(item, "=")
			out[len(out)-1].set(strings.ToLower(strings.TrimSpace(name)), unquoted(strings.TrimSpace(value)))
		}
	}
	return out
}

func (k *challenge) set(name, value string) {
	switch name {
	case "realm":
		k.realm = value
	case "nonce":
		k.nonce = value
	case "opaque":
		k.opaque = value
	case "algorithm":
		k.algorithm = value
	case "qop":
		for _, q := range strings.Split(value, ",") {
			k.auth = k.auth || strings.EqualFold(strings.TrimSpace(q), "auth")
		}
	}
}

// splitList splits at commas outside of quotes.
func splitList(s string) []string {
	var out []string
	inside, from := false, 0
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && inside:
			i++
		case s[i] == '"':
			inside = !inside
		case s[i] == ',' && !inside:
			out = append(out, strings.TrimSpace(s[from:i]))
			from = i + 1
		}
	}
	return append(out, strings.TrimSpace(s[from:]))
}

func unquoted(s string) string {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return s
	}
	var b strings.Builder
	for s = s[1 : len(s)-1]; s != ""; s = s[1:] {
		if s[0] == '\\' && len(s) > 1 {
			s = s[1:]
		}
		b.WriteByte(s[0])
	}
	return b.String()
}
