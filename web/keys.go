package web

import (
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// Keys lists, creates and revokes tokens. Errors that the caller can correct are
// problems. TokenGate implements Keys.
type Keys interface {
	// Tokens returns the configuration file's tokens, then the store's.
	Tokens() ([]registry.Token, error)
	// Make stores a new token and returns its secret, which is not stored.
	Make(name string, role registry.Role, expires *time.Time) (t registry.Token, secret string, err error)
	// Revoke removes a token of the store.
	Revoke(name string) error
}

// Tokens implements Keys.
func (g *TokenGate) Tokens() ([]registry.Token, error) { return g.all() }

// Used returns when a token was last used, zero if it has not been used since the
// process began.
func (g *TokenGate) Used(name string) time.Time {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.used[name]
}

// Make implements Keys. The first token must be one that can create further tokens.
func (g *TokenGate) Make(name string, role registry.Role, expires *time.Time) (registry.Token, string, error) {
	if err := registry.CheckTokenName(name); err != nil {
		return registry.Token{}, "", unprocessable("bad-setting", "/name", "%v", err)
	}
	switch {
	case !role.Includes(registry.RoleRead):
		return registry.Token{}, "", unprocessable("bad-setting", "/role", "a role is admin, app or read")
	case expires != nil && !expires.After(g.now()):
		return registry.Token{}, "", unprocessable("bad-setting", "/expires_at", "a token expires in the future")
	}
	g.edit.Lock()
	defer g.edit.Unlock()
	all, err := g.all()
	if err != nil {
		return registry.Token{}, "", err
	}
	if slices.ContainsFunc(all, func(t registry.Token) bool { return t.Name == name }) {
		return registry.Token{}, "", registry.ErrExists
	}
	if len(all) == 0 && (role != registry.RoleAdmin || expires != nil) {
		return registry.Token{}, "", &problem{Problem: newProblem("conflict", "with the first token this server begins to ask for tokens: make it one of the role admin that does not expire, or no caller could make the next")}
	}
	secret, sha := NewSecret()
	t := registry.Token{Name: name, Role: role, SHA256: sha, CreatedAt: g.now().UTC().Truncate(time.Second), ExpiresAt: expires}
	if err := g.store.PutToken(t); err != nil {
		return registry.Token{}, "", err
	}
	g.changed() // the first closes the gate
	return t, secret, nil
}

// Revoke implements Keys. The last admin token that does not expire cannot be revoked:
// otherwise no caller could create another one.
func (g *TokenGate) Revoke(name string) error {
	g.edit.Lock()
	defer g.edit.Unlock()
	all, err := g.all()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(t registry.Token) bool { return t.Name == name })
	if i < 0 {
		return notFound("no token has this name")
	}
	if all[i].FromFile {
		return &problem{Problem: newProblem("conflict", "this token is in the configuration file: remove it there and send SIGHUP")}
	}
	lasting := func(t registry.Token) bool { return t.Role == registry.RoleAdmin && t.ExpiresAt == nil }
	if lasting(all[i]) && !slices.ContainsFunc(slices.Delete(slices.Clone(all), i, i+1), lasting) {
		return &problem{Problem: newProblem("conflict", "this is the last admin token that does not expire: make another one first, or no caller could")}
	}
	if err := g.store.DeleteToken(name); err != nil {
		return err
	}
	g.changed()
	return nil
}
