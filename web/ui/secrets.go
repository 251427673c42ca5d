package ui

import (
	"cmp"
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
			f.bad("headers", "The address leads to another host: type the header fields for it.")
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
			f.bad("headers", "Write each as a name and a value: “X-Key: value”.")
			return
		}
		if value == masked {
			if value, ok = was.Headers[name]; !ok || registry.LeavesHost(was, *e) {
				f.bad("headers", "Type the value of "+clip(name, 80)+": there is none to keep for this address.")
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

// secretWords describes how an endpoint signs in if a file on the server holds the
// secret. Only the configuration file can name such a file.
func secretWords(a registry.Auth) string {
	const where = " Its secret is in a file on the server, which the configuration file names."
	switch {
	case a.Basic != nil && a.Basic.PasswordFile != "":
		return "It signs in as " + a.Basic.Username + " (basic)." + where
	case a.Digest != nil && a.Digest.PasswordFile != "":
		return "It signs in as " + a.Digest.Username + " (digest)." + where
	case a.Bearer != nil && a.Bearer.TokenFile != "":
		return "It signs in with a bearer token." + where
	}
	return ""
}

// signIn reads how an endpoint signs in. An empty secret keeps the current one unless
// the kind or the endpoint's host changes.
func (f *form) signIn(was registry.Endpoint, e *registry.Endpoint) {
	if !f.Values.Has("auth") || secretWords(was.Auth) != "" {
		if was.Auth != (registry.Auth{}) && registry.LeavesHost(was, *e) {
			f.bad("url", "The address leads to another host: change it together with the sign-in, in the configuration file or by the API.")
		}
		return
	}
	kind, user, secret := f.Get("auth"), strings.TrimSpace(f.Get("username")), f.Get("password")
	before, _, kept := signInOf(was.Auth)
	if secret == "" && kind == before && kept != "" {
		if registry.LeavesHost(was, *e) {
			f.bad("password", "The address leads to another host: type the secret for it.")
		}
		secret = kept
	}
	if kind != "" && cmp.Or(secret, f.Errors["password"]) == "" {
		f.bad("password", "Type the password or token to sign in with.")
	}
	if (kind == "basic" || kind == "digest") && user == "" {
		f.bad("username", "Type the user name to sign in with.")
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
		f.bad("auth", "Choose none, basic, digest or bearer.")
	}
}
