package web

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// A tokenView is a token without anything that lets somebody in.
type tokenView struct {
	Name      string        `json:"name"`
	Role      registry.Role `json:"role"`
	CreatedAt *time.Time    `json:"created_at,omitempty"`
	ExpiresAt *time.Time    `json:"expires_at,omitempty"`
	Expired   bool          `json:"expired,omitempty"`
	FromFile  bool          `json:"from_file,omitempty"`
	Token     string        `json:"token,omitempty"` // only in the answer that makes it
}

func (s *server) viewToken(t registry.Token) tokenView {
	v := tokenView{Name: t.Name, Role: t.Role, ExpiresAt: t.ExpiresAt, FromFile: t.FromFile, Expired: expired(t, s.Now())}
	if !t.CreatedAt.IsZero() {
		v.CreatedAt = &t.CreatedAt
	}
	return v
}

// tokens are the file's and the store's.
func (s *server) tokens() ([]registry.Token, error) {
	var all []registry.Token
	if g, ok := s.Gate.(interface{ fileTokens() []registry.Token }); ok {
		all = g.fileTokens()
	}
	stored, err := s.Store.Tokens()
	return append(all, stored...), err
}

func listTokens(c *call) error {
	all, err := c.tokens()
	if err != nil {
		return err
	}
	views := make([]tokenView, len(all))
	for i, t := range all {
		views[i] = c.viewToken(t)
	}
	return c.json(http.StatusOK, map[string]any{"tokens": views})
}

var tokenName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func createToken(c *call) error {
	var body struct {
		Name      string        `json:"name"`
		Role      registry.Role `json:"role"`
		ExpiresAt *time.Time    `json:"expires_at"`
	}
	if err := c.decode(&body, typeJSON); err != nil {
		return err
	}
	switch {
	case !tokenName.MatchString(body.Name) || body.Name == registry.Anonymous:
		return unprocessable("bad-setting", "/name", "a token's name has 1 to 64 letters, digits, dots, underscores and hyphens, and is not %q", registry.Anonymous)
	case !body.Role.Includes(registry.RoleRead):
		return unprocessable("bad-setting", "/role", "a role is admin, app or read")
	case body.ExpiresAt != nil && !body.ExpiresAt.After(c.Now()):
		return unprocessable("bad-setting", "/expires_at", "a token expires in the future")
	}
	c.edit.Lock()
	defer c.edit.Unlock()
	all, err := c.tokens()
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(t registry.Token) bool { return t.Name == body.Name }) {
		return registry.ErrExists
	}
	if len(all) == 0 && (body.Role != registry.RoleAdmin || body.ExpiresAt != nil) {
		return &problem{Problem: newProblem("conflict", "with the first token this server begins to ask for tokens: make it one of the role admin that does not expire, or nobody could make the next")}
	}
	secret, sha := NewSecret()
	t := registry.Token{Name: body.Name, Role: body.Role, SHA256: sha, CreatedAt: c.Now().UTC().Truncate(time.Second), ExpiresAt: body.ExpiresAt}
	if err := c.Store.PutToken(t); err != nil {
		return err
	}
	v := c.viewToken(t)
	v.Token = secret
	c.w.Header().Set("Location", c.url("/v1/tokens/"+url.PathEscape(t.Name)))
	return c.json(http.StatusCreated, v)
}

func deleteToken(c *call) error {
	name := c.r.PathValue("name")
	c.edit.Lock()
	defer c.edit.Unlock()
	all, err := c.tokens()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(t registry.Token) bool { return t.Name == name })
	if i < 0 {
		return notFound("no token has this name")
	}
	if all[i].FromFile {
		return &problem{Problem: newProblem("conflict", "this token stands in the configuration file: remove it there and send SIGHUP")}
	}
	lasting := func(t registry.Token) bool { return t.Role == registry.RoleAdmin && t.ExpiresAt == nil }
	if lasting(all[i]) && !slices.ContainsFunc(slices.Delete(slices.Clone(all), i, i+1), lasting) {
		return &problem{Problem: newProblem("conflict", "this is the last admin token that does not expire: make another one first, or nobody could")}
	}
	if err := c.Store.DeleteToken(name); err != nil {
		return err
	}
	return c.noContent()
}
