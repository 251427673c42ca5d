package web

import (
	"net/http"
	"net/url"
	"time"

	"github.com/freshet/freshet/registry"
)

// A tokenView is a token without its secret.
type tokenView struct {
	Name      string        `json:"name"`
	Role      registry.Role `json:"role"`
	CreatedAt *time.Time    `json:"created_at,omitempty"`
	ExpiresAt *time.Time    `json:"expires_at,omitempty"`
	Expired   bool          `json:"expired,omitempty"`
	FromFile  bool          `json:"from_file,omitempty"`
	Token     string        `json:"token,omitempty"` // only in the answer that creates it
}

func (s *server) viewToken(t registry.Token) tokenView {
	v := tokenView{Name: t.Name, Role: t.Role, ExpiresAt: t.ExpiresAt, FromFile: t.FromFile, Expired: expired(t, s.Now())}
	if !t.CreatedAt.IsZero() {
		v.CreatedAt = &t.CreatedAt
	}
	return v
}

// keys returns the gate if it manages tokens, else the store's tokens.
func (s *server) keys() (Keys, error) {
	if k, ok := s.Gate.(Keys); ok {
		return k, nil
	}
	return NewTokenGate(nil, s.Tokens, s.Now)
}

func (c tokenAPI) list() error {
	keys, err := c.keys()
	if err != nil {
		return err
	}
	all, err := keys.Tokens()
	if err != nil {
		return err
	}
	views := make([]tokenView, len(all))
	for i, t := range all {
		views[i] = c.viewToken(t)
	}
	return c.json(http.StatusOK, map[string]any{"tokens": views})
}

func (c tokenAPI) create() error {
	var body struct {
		Name      string        `json:"name"`
		Role      registry.Role `json:"role"`
		ExpiresAt *time.Time    `json:"expires_at"`
	}
	if err := c.decode(&body, typeJSON); err != nil {
		return err
	}
	keys, err := c.keys()
	if err != nil {
		return err
	}
	t, secret, err := keys.Make(body.Name, body.Role, body.ExpiresAt)
	if err != nil {
		return err
	}
	v := c.viewToken(t)
	v.Token = secret
	c.w.Header().Set("Location", c.url("/v1/tokens/"+url.PathEscape(t.Name)))
	return c.json(http.StatusCreated, v)
}

func (c tokenAPI) revoke() error {
	keys, err := c.keys()
	if err != nil {
		return err
	}
	if err := keys.Revoke(c.r.PathValue("name")); err != nil {
		return err
	}
	return c.noContent()
}
