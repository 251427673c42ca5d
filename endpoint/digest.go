package endpoint

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/icholy/digest"

	"github.com/freshet/freshet/registry"
)

// digestAuth answers HTTP Digest challenges (RFC 7616). A challenge is used until the
// server sends a new one, so that only the first request is sent twice.
type digestAuth struct {
	user registry.Password

	mu    sync.Mutex
	known *digest.Challenge // nil: the server has to send one first
	count int               // uses of it
}

func (d *digestAuth) authorize(r *http.Request) error {
	password, err := secret(d.user.Password, d.user.PasswordFile)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.count++
	k, n := d.known, d.count
	d.mu.Unlock()
	if k == nil {
		return nil
	}
	c, err := digest.Digest(k, digest.Options{
		Method: r.Method, URI: r.URL.RequestURI(), GetBody: r.GetBody, Count: n, Username: d.user.Username, Password: password,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errSecret, err)
	}
	r.Header.Set("Authorization", c.String())
	return nil
}

func (d *digestAuth) challenged(h http.Header) bool {
	k, err := digest.FindChallenge(h)
	if err != nil || k.Nonce == "" {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known, d.count = k, 0
	return true
}
