package web

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/freshet/freshet/registry"
)

// ErrUnauthorized is the TokenGate's error for wrong, missing and expired tokens.
var ErrUnauthorized = registry.ErrUnauthorized

var errShort = fmt.Errorf("%w: a token has at least %d characters", ErrUnauthorized, registry.MinSecretLength)

const maxSecret = 512 // maximum length of a token in bytes

// A TokenGate admits callers with a token of the configuration file or of the store. A token
// of the file hides the stored one of its name, which can still be revoked.
// It is open while there are no tokens. Once a token has existed, it stays closed
// until the process ends, so that removing the last token does not open the server.
type TokenGate struct {
	// Changed is called after the tokens have changed, since a token that was valid
	// may no longer be. Set it before the gate is used; it may be nil.
	Changed func()

	store TokenStore
	now   Clock

	edit sync.Mutex // makes reading all tokens and the resulting edit atomic

	mu     sync.RWMutex
	file   []registry.Token
	closed bool
	used   map[string]time.Time // by name, since the process began

	guesses guesses
}

// NewTokenGate returns a gate with the tokens of the file and of the store.
func NewTokenGate(file []registry.Token, store TokenStore, now Clock) (*TokenGate, error) {
	g := &TokenGate{store: store, now: now, used: map[string]time.Time{}}
	g.SetFile(file)
	_, _, err := g.all()
	return g, err
}

// SetFile replaces the tokens of the configuration file.
func (g *TokenGate) SetFile(file []registry.Token) {
	file = slices.Clone(file)
	for i := range file {
		file[i].FromFile = true
	}
	g.mu.Lock()
	g.file = file
	g.mu.Unlock()
	g.changed()
}

func (g *TokenGate) changed() {
	if g.Changed != nil {
		g.Changed()
	}
}

// On reports whether tokens are required.
func (g *TokenGate) On() bool {
	_, closed, err := g.all()
	return err != nil || closed
}

// all returns all tokens, the file's first, and whether one has ever existed.
func (g *TokenGate) all() (tokens []registry.Token, closed bool, err error) {
	return g.with(g.store.Tokens)
}

// with is like all. read reads the tokens of the store.
func (g *TokenGate) with(read func() ([]registry.Token, error)) (tokens []registry.Token, closed bool, err error) {
	stored, err := read()
	if err != nil {
		return nil, false, fmt.Errorf("read the tokens: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	tokens = slices.Clone(g.file)
	for _, t := range stored {
		if !named(g.file, t.Name) {
			tokens = append(tokens, t)
		}
	}
	g.closed = g.closed || len(tokens) > 0
	return tokens, g.closed, nil
}

func named(tokens []registry.Token, name string) bool {
	return slices.ContainsFunc(tokens, func(t registry.Token) bool { return t.Name == name })
}

// Named returns the current caller of a name: with the role of its token if that is
// valid, with the role admin on a server without tokens, else without a role.
func (g *TokenGate) Named(name string) (registry.Caller, error) {
	tokens, closed, err := g.all()
	if err != nil {
		return registry.Caller{}, err
	}
	c := registry.Caller{Name: name}
	if !closed {
		c.Role = registry.RoleAdmin
	}
	for _, t := range tokens {
		if t.Name == name && !expired(t, g.now()) {
			c.Role = t.Role
		}
	}
	return c, nil
}

// Authenticate returns the caller of a token. On a server without tokens an empty token is
// registry.Anonymous with the role admin. Otherwise the error wraps ErrUnauthorized for an empty or
// invalid token. Wrong tokens are counted by address (registry.ClientAddress; "" is not counted).
// After too many, the error is registry.ErrGuessing. Any other error is the server's fault.
// It always compares the hashes of all tokens, so that its duration reveals nothing.
func (g *TokenGate) Authenticate(from, token string) (registry.Caller, error) {
	tokens, closed, err := g.all()
	if err != nil {
		return registry.Caller{}, err
	}
	if token == "" && !closed {
		return registry.Caller{Name: registry.Anonymous, Role: registry.RoleAdmin}, nil
	}
	switch {
	case token == "" || len(token) > maxSecret:
		return registry.Caller{}, ErrUnauthorized
	case utf8.RuneCountInString(token) < registry.MinSecretLength:
		return registry.Caller{}, errShort
	}
	sent, now := proof{from, registry.HashSecret(token)}, g.now()
	if from != "" && !g.guesses.admits(sent, now) {
		return registry.Caller{}, registry.ErrGuessing
	}
	found := find(tokens, sent.digest)
	if found == nil { // another node may have made it just now
		done, ok := g.guesses.ask(from, now)
		if !ok {
			return registry.Caller{}, registry.ErrGuessing
		}
		defer done() // after a wrong one was counted
		if tokens, _, err = g.with(func() ([]registry.Token, error) { return g.store.Newest(true) }); err != nil {
			return registry.Caller{}, err // a node that is cut off cannot call it wrong
		}
		found = find(tokens, sent.digest)
	}
	if found == nil || expired(*found, now) {
		if from != "" {
			g.guesses.failed(from, now)
		}
		return registry.Caller{}, ErrUnauthorized
	}
	if from != "" {
		g.guesses.succeeded(sent)
	}
	g.note(found.Name, now)
	c := registry.Caller{Name: found.Name, Role: found.Role}
	if found.ExpiresAt != nil {
		c.Expires = *found.ExpiresAt
	}
	return c, nil
}

// find returns the token with a hash, nil if there is none.
func find(tokens []registry.Token, digest string) (found *registry.Token) {
	for i := range tokens {
		if subtle.ConstantTimeCompare([]byte(digest), []byte(tokens[i].SHA256)) == 1 {
			found = &tokens[i]
		}
	}
	return found
}

// note records when a token was used, with a resolution of seconds; a finer one would
// cause contention between readers.
func (g *TokenGate) note(name string, now time.Time) {
	g.mu.RLock()
	last := g.used[name]
	g.mu.RUnlock()
	if now.Sub(last) < time.Second {
		return
	}
	g.mu.Lock()
	g.used[name] = now
	g.mu.Unlock()
}

func expired(t registry.Token, now time.Time) bool {
	return t.ExpiresAt != nil && !now.Before(*t.ExpiresAt)
}

// NewSecret returns a new token, 32 random bytes in base64url, and the lower-case
// hexadecimal SHA-256 of it that is stored.
func NewSecret() (secret, sha string) {
	var b [32]byte
	rand.Read(b[:]) // never fails
	secret = base64.RawURLEncoding.EncodeToString(b[:])
	return secret, registry.HashSecret(secret)
}

// Tokens returns the configuration file's tokens, then the store's, and then those that the file hides.
func (g *TokenGate) Tokens() ([]registry.Token, error) {
	var stored []registry.Token
	tokens, _, err := g.with(func() (_ []registry.Token, err error) {
		stored, err = g.store.Tokens()
		return stored, err
	})
	for _, t := range stored {
		if i := slices.IndexFunc(tokens, func(x registry.Token) bool { return x.Name == t.Name }); i >= 0 && tokens[i].FromFile {
			t.Hidden = true
			tokens = append(tokens, t)
		}
	}
	return tokens, err
}

// Used returns when a token was last used, zero if it has not been used since the
// process began.
func (g *TokenGate) Used(name string) time.Time {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.used[name]
}

// Make stores a new token and returns its secret, which is not stored. The first token must be one that can create further tokens.
func (g *TokenGate) Make(name string, role registry.Role, expires *time.Time) (registry.Token, string, error) {
	if err := registry.CheckTokenName(name); err != nil {
		return registry.Token{}, "", registry.BadSetting("/name", "%v", err)
	}
	switch {
	case !role.Includes(registry.RoleRead):
		return registry.Token{}, "", registry.BadSetting("/role", "a role is admin, app or read")
	case expires != nil && !expires.After(g.now()):
		return registry.Token{}, "", registry.BadSetting("/expires_at", "a token expires in the future")
	}
	g.edit.Lock()
	defer g.edit.Unlock()
	all, _, err := g.with(func() ([]registry.Token, error) { return g.store.Newest(false) })
	if err != nil {
		return registry.Token{}, "", err
	}
	if named(all, name) {
		return registry.Token{}, "", registry.ErrExists
	}
	if len(all) == 0 && (role != registry.RoleAdmin || expires != nil) {
		return registry.Token{}, "", newProblem("conflict", "with the first token this server begins to ask for "+
			"tokens: make it one of the role admin that does not expire, or no caller could make the next")
	}
	secret, sha := NewSecret()
	t := registry.Token{Name: name, Role: role, SHA256: sha, CreatedAt: g.now().UTC().Truncate(time.Second), ExpiresAt: expires}
	if err := g.store.PutToken(t); err != nil {
		return registry.Token{}, "", err
	}
	g.changed() // the first closes the gate
	return t, secret, nil
}

func lastToken() error {
	return newProblem("conflict", "this is the last admin token that does not expire: make another one first, or no caller could")
}

// Revoke removes a token of the store. The last admin token that does not expire cannot be revoked:
// otherwise no caller could create another one. The store sees to that, because nodes of a
// cluster may revoke tokens at the same time. The tokens of a file are known to this node alone.
func (g *TokenGate) Revoke(name string) error {
	g.edit.Lock()
	defer g.edit.Unlock()
	var stored []registry.Token
	all, _, err := g.with(func() (_ []registry.Token, err error) {
		stored, err = g.store.Newest(false)
		return stored, err
	})
	switch {
	case err != nil:
		return err
	case !named(all, name):
		return notFound("no token has this name")
	case !named(stored, name):
		return newProblem("conflict", "this token is in the configuration file: remove it there and send SIGHUP")
	}
	others := func(t registry.Token) bool { return t.Lasts() && (t.Name != name || t.FromFile) }
	last := func(t registry.Token) bool { return t.Lasts() && t.Name == name && !t.FromFile }
	if slices.ContainsFunc(all, last) && !slices.ContainsFunc(all, others) { // what the file hides does not count
		return lastToken()
	}
	inFile := slices.ContainsFunc(all, func(t registry.Token) bool { return t.FromFile && t.Lasts() })
	switch err := g.store.DeleteToken(name, !inFile); {
	case errors.Is(err, registry.ErrLastToken):
		return lastToken()
	case err != nil:
		return err
	}
	g.changed()
	return nil
}
