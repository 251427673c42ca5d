package ui

// This file manages tokens, and shows new secrets once.

import (
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// A tokensPage lists the tokens and creates new ones.
type tokensPage struct {
	Open        bool // there is no token, so the server requires none
	Valid, Idle int  // numbers of tokens; idle ones have not been used since the server started
	Rows        []tokenRow
	Made        *madeToken
	Form        form
}

type tokenRow struct {
	Name, Role          string
	Made, Used, Expires template.HTML // "" for never
	Mine, File, Expired bool
	Hidden              bool // by a token of the file
	Revoke              string
}

// A madeToken is shown once, in the answer to the form that created it.
type madeToken struct{ Name, Secret string }

func (v tokenHandler) page() (content, error) {
	return v.list(nil, freshToken())
}

var tokenFields = []string{"name", "role", "expires_at"}

func freshToken() form { return form{Values: url.Values{"role": {"app"}}, Fields: tokenFields} }

func (v tokenHandler) list(made *madeToken, f form) (content, error) {
	all, err := v.Gate.Tokens()
	if err != nil {
		return content{}, err
	}
	p := &tokensPage{Open: len(all) == 0, Made: made, Form: f}
	for _, t := range all {
		row := tokenRow{Name: t.Name, Role: string(t.Role), Made: v.Past(t.CreatedAt),
			Mine: v.token != "" && t.Name == v.caller.Name && !t.Hidden, File: t.FromFile, Hidden: t.Hidden,
			Revoke: "/tokens/" + url.PathEscape(t.Name) + "/revoke"}
		if t.ExpiresAt != nil {
			row.Expires, row.Expired = v.When(*t.ExpiresAt), !v.now.Before(*t.ExpiresAt)
		}
		switch at := v.Gate.Used(t.Name); {
		case t.Hidden: // the file's token is the one that is used
		case !at.IsZero():
			row.Used = v.Past(at) // this request counts as a use
		default:
			p.Idle++
		}
		if !row.Expired && !t.Hidden {
			p.Valid++
		}
		p.Rows = append(p.Rows, row)
	}
	return content{Data: p}, nil
}

// make creates a token and shows it once, in its answer.
func (v tokenHandler) make() error {
	f := v.typed(tokenFields)
	var expires *time.Time
	if life := f.Get("expires_at"); life != "" {
		d, err := registry.ParseDuration(life)
		if err != nil || d <= 0 {
			f.bad("expires_at", "expires_at")
		}
		end := v.now.Add(d).Truncate(time.Second)
		expires = &end
	}
	if f.Status != 0 {
		return v.tokensAgain(nil, f)
	}
	t, secret, err := v.Gate.Make(f.Get("name"), registry.Role(f.Get("role")), expires)
	switch {
	case errors.Is(err, registry.ErrExists):
		f.bad("name", "token-exists")
		return v.tokensAgain(nil, f)
	case err != nil:
		return f.refused(err, func() error { return v.tokensAgain(nil, f) })
	}
	if v.token == "" { // the server required no token until now: this session continues with the new one
		sessionHandler(v).open(secret)
		v.token, v.caller = secret, registry.Caller{Name: t.Name, Role: t.Role}
	}
	f = freshToken()
	f.Status = http.StatusCreated
	return v.tokensAgain(&madeToken{t.Name, secret}, f)
}

func (v tokenHandler) tokensAgain(made *madeToken, f form) error {
	c, err := v.list(made, f)
	if err != nil {
		return err
	}
	return v.again(f, "tokens", "tokens", c)
}

// askToRevoke shows which access will be lost.
func (v tokenHandler) askToRevoke() (content, error) {
	name := v.r.PathValue("name")
	all, err := v.Gate.Tokens()
	if err != nil {
		return content{}, err
	}
	if !slices.ContainsFunc(all, func(t registry.Token) bool { return t.Name == name }) {
		v.say("", "token-gone", name, "")
		return content{Instead: "/tokens"}, nil
	}
	held, next, err := v.Queries.List(registry.QueryFilter{Holder: name}, "", 1000)
	if err != nil {
		return content{}, err
	}
	return confirmation{What: "token", Name: name, Back: "/tokens", Held: len(held), HeldMore: next != "", Mine: v.token != "" &&
		name == v.caller.Name}.content(v.r), nil
}

func (v tokenHandler) revoke() error {
	name := v.r.PathValue("name")
	if err := v.Gate.Revoke(name); isMissing(err) { // by someone else, after the list was shown
		v.say("", "token-gone", name, "")
		return v.to("/tokens")
	} else if err != nil {
		return v.refused("revoke-refused", err, "/tokens")
	}
	v.say("good", "token-revoked", name, "")
	return v.to("/tokens")
}

// headerLines writes one header field per line, sorted by name.
func headerLines(h map[string]string) string {
	list := make([]string, 0, len(h))
	for name, value := range h {
		list = append(list, name+": "+value)
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// headers parses one header field per line. A masked value keeps the current one
// unless the endpoint moves to another host.
func (f *form) headers(was registry.Endpoint, e *registry.Endpoint) {
	if !f.Values.Has("headers") {
		if len(was.Headers) > 0 && registry.LeavesHost(was, *e) {
			f.bad("headers", "other-host-headers")
		}
		return
	}
	e.Headers = nil
	for line := range strings.Lines(f.Get("headers")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" {
			f.bad("headers", "header")
			return
		}
		if value == registry.Mask {
			if value, ok = was.Headers[name]; !ok || registry.LeavesHost(was, *e) {
				f.record(fault{Name: "headers", Code: "header-value", Text: clip(name, 80)})
				return
			}
		}
		if e.Headers == nil {
			e.Headers = map[string]string{}
		}
		e.Headers[name] = value
	}
}

// signInOf returns how an endpoint signs in: the kind, the user and the secret.
func signInOf(a registry.Auth) (kind, user, secret string) {
	switch {
	case a.Basic != nil:
		return "basic", a.Basic.Username, a.Basic.Password
	case a.Digest != nil:
		return "digest", a.Digest.Username, a.Digest.Password
	case a.Bearer != nil:
		return "bearer", "", a.Bearer.Token
	}
	return "", "", ""
}

// A fileSecret is how an endpoint signs in with a secret from a file on the server. Only
// the configuration file can name such a file.
type fileSecret struct{ Kind, User string } // Kind is basic, digest or bearer, "" if there is no such file

func secretInFile(a registry.Auth) fileSecret {
	kind, user, _ := signInOf(a)
	if a.Basic != nil && a.Basic.PasswordFile != "" || a.Digest != nil && a.Digest.PasswordFile != "" || a.Bearer != nil &&
		a.Bearer.TokenFile != "" {
		return fileSecret{kind, user}
	}
	return fileSecret{}
}

// signIn reads how an endpoint signs in. An empty secret keeps the current one unless
// the kind or the endpoint's host changes.
func (f *form) signIn(was registry.Endpoint, e *registry.Endpoint) {
	if !f.Values.Has("auth") || secretInFile(was.Auth).Kind != "" {
		if was.Auth != (registry.Auth{}) && registry.LeavesHost(was, *e) {
			f.bad("url", "other-host-url")
		}
		return
	}
	kind, user, secret := f.Get("auth"), strings.TrimSpace(f.Get("username")), f.Get("password")
	before, _, kept := signInOf(was.Auth)
	if secret == "" && kind == before && kept != "" {
		if registry.LeavesHost(was, *e) {
			f.bad("password", "other-host-password")
		}
		secret = kept
	}
	if kind != "" && secret == "" {
		f.bad("password", "password")
	}
	if (kind == "basic" || kind == "digest") && user == "" {
		f.bad("username", "username")
	}
	p := &registry.Password{Username: user, Password: secret}
	switch kind {
	case "":
		e.Auth = registry.Auth{}
	case "basic":
		e.Auth = registry.Auth{Basic: p}
	case "digest":
		e.Auth = registry.Auth{Digest: p}
	case "bearer":
		e.Auth = registry.Auth{Bearer: &registry.Bearer{Token: secret}}
	default:
		f.bad("auth", "auth")
	}
}
