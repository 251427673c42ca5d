package endpoint

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/freshet/freshet/registry"
)

// An authenticator adds credentials to one client's requests. Secrets in files
// are read at each use, so that a new secret needs no restart.
type authenticator interface {
	// authorize adds the known credentials. Errors wrap errSecret.
	authorize(*http.Request) error
	// challenged handles the header of a 401 and reports whether the request
	// should be authorized and sent again.
	challenged(http.Header) bool
}

func newAuthenticator(a registry.Auth) (authenticator, error) {
	switch {
	case a.Basic != nil && a.Digest == nil && a.Bearer == nil:
		return basic{*a.Basic}, nil
	case a.Digest != nil && a.Basic == nil && a.Bearer == nil:
		return &digestAuth{user: *a.Digest}, nil
	case a.Bearer != nil && a.Basic == nil && a.Digest == nil:
		return bearer{*a.Bearer}, nil
	case a.Basic == nil && a.Digest == nil && a.Bearer == nil:
		return noAuth{}, nil
	}
	return nil, errors.New("set only one of basic, digest and bearer")
}

type noAuth struct{}

func (noAuth) authorize(*http.Request) error { return nil }
func (noAuth) challenged(http.Header) bool   { return false }

type basic struct{ registry.Password }

func (b basic) authorize(r *http.Request) error {
	secret, err := secret(b.Password.Password, b.PasswordFile)
	if err != nil {
		return err
	}
	r.SetBasicAuth(b.Username, secret)
	return nil
}

func (basic) challenged(http.Header) bool { return false }

type bearer struct{ registry.Bearer }

func (b bearer) authorize(r *http.Request) error {
	token, err := secret(b.Token, b.TokenFile)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	return nil
}

func (bearer) challenged(http.Header) bool { return false }

// secret is the value given directly, else the first line of the file.
func secret(value, file string) (string, error) {
	if file == "" {
		return value, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errSecret, err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimRight(line, "\r"), nil
}
