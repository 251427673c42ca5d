package endpoint

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/freshet/freshet/registry"
)

// An auth adds credentials to one client's requests. Secrets in files are read at each use, so that a new secret needs no
// restart.
type auth struct {
	registry.Auth
	challenge digestChallenge
}

func newAuth(a registry.Auth) (*auth, error) {
	if a.Basic != nil && a.Digest != nil || a.Bearer != nil && (a.Basic != nil || a.Digest != nil) {
		return nil, errors.New("set only one of basic, digest and bearer")
	}
	return &auth{Auth: a}, nil
}

// authorize adds the known credentials. Errors wrap errSecret.
func (a *auth) authorize(r *http.Request) error {
	switch {
	case a.Basic != nil:
		password, err := secret(a.Basic.Password, a.Basic.PasswordFile)
		if err != nil {
			return err
		}
		r.SetBasicAuth(a.Basic.Username, password)
	case a.Bearer != nil:
		token, err := secret(a.Bearer.Token, a.Bearer.TokenFile)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token)
	case a.Digest != nil:
		password, err := secret(a.Digest.Password, a.Digest.PasswordFile)
		if err != nil {
			return err
		}
		return a.challenge.answer(r, a.Digest.Username, password)
	}
	return nil
}

// challenged handles the header of a 401 and reports whether the request should be authorized and sent again.
func (a *auth) challenged(h http.Header) bool { return a.Digest != nil && a.challenge.read(h) }

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
