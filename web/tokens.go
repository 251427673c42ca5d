package web

// This file serves tokens.

import (
	"net/http"
	"net/url"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

func (s *server) viewToken(t registry.Token) api.Token {
	return api.Token{Name: t.Name, Role: t.Role, CreatedAt: moment(t.CreatedAt), ExpiresAt: t.ExpiresAt, FromFile: t.FromFile,
		Hidden: t.Hidden, Expired: expired(t, s.Now())}
}

func (c tokenAPI) list() error {
	all, err := c.Gate.Tokens()
	if err != nil {
		return err
	}
	views := make([]api.Token, len(all))
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
	t, secret, err := c.Gate.Make(body.Name, body.Role, body.ExpiresAt)
	if err != nil {
		return err
	}
	v := c.viewToken(t)
	v.Token = secret
	c.w.Header().Set("Location", c.url("/v1/tokens/"+url.PathEscape(t.Name)))
	return c.json(http.StatusCreated, v)
}

func (c tokenAPI) revoke() error {
	return c.noContent(c.Gate.Revoke(c.r.PathValue("name")))
}
