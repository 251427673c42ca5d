package ui

import (
	"slices"
	"strings"

	"github.com/freshet/freshet/registry"
)

// masked replaces a configured secret, as in registry.Endpoint.Masked.
const masked = "(set)"

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
		if value == masked {
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
	if a.Basic != nil && a.Basic.PasswordFile != "" || a.Digest != nil && a.Digest.PasswordFile != "" || a.Bearer != nil && a.Bearer.TokenFile != "" {
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
