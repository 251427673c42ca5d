package endpoint

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/icholy/digest"
)

// A digestChallenge is an HTTP Digest challenge (RFC 7616). It is used until the server sends a new one, so that only
// the first request is sent twice.
type digestChallenge struct {
	mu    sync.Mutex
	known *digest.Challenge // nil: the server has to send one first
	count int               // uses of it
}

// answer adds the answer to the challenge, if one is known.
func (d *digestChallenge) answer(r *http.Request, username, password string) error {
	d.mu.Lock()
	d.count++
	k, n := d.known, d.count
	d.mu.Unlock()
	if k == nil {
		return nil
	}
	c, err := digest.Digest(k, digest.Options{
		Method: r.Method, URI: r.URL.RequestURI(), GetBody: r.GetBody, Count: n, Username: username, Password: password,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errSecret, err)
	}
	r.Header.Set("Authorization", c.String())
	return nil
}

// read takes the challenge of the header of a 401 and reports whether it has one that can be answered.
func (d *digestChallenge) read(h http.Header) bool {
	k, err := digest.FindChallenge(http.Header{"Www-Authenticate": challenges(h)})
	if err != nil || k.Nonce == "" {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.count = k, 0
	return true
}

// A part of a WWW-Authenticate header is a parameter of a challenge, whose value may be missing, or the name of the next one.
var challengePart = regexp.MustCompile(`([^\s,="]+)(?:\s*(=)\s*("(?:[^"\\]|\\.)*"|[^\s,"]+)?)?`)

// challenges returns the Digest challenges of a header in the one spelling that the library
// reads: each alone, with parameters in small letters and quotes. A line may hold several
// challenges (RFC 9110, section 11.6.1).
func challenges(h http.Header) (list []string) {
	for _, line := range h.Values("WWW-Authenticate") {
		digests, begun := false, false
		for _, part := range challengePart.FindAllStringSubmatch(line, -1) {
			key, value := part[1], part[3]
			switch {
			case part[2] == "":
				digests, begun = strings.EqualFold(key, "digest"), false
			case value == "": // as if it were not given
			case digests:
				if !strings.HasPrefix(value, `"`) {
					value = `"` + value + `"`
				}
				if strings.EqualFold(key, "qop") {
					value = strings.ReplaceAll(value, " ", "")
				}
				parameter := strings.ToLower(key) + "=" + value
				if begun {
					list[len(list)-1] += ", " + parameter
				} else {
					list, begun = append(list, "Digest "+parameter), true
				}
			}
		}
	}
	return list
}
