package store

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// A TokenStore stores the tokens of callers. It implements web.TokenStore.
type TokenStore struct{ *boltFile }

// Tokens returns all tokens, sorted by name.
func (d *TokenStore) Tokens() ([]registry.Token, error) {
	return fetch(d.boltFile, storedTokens)
}

func storedTokens(tx *bbolt.Tx) (list []registry.Token, err error) {
	err = tx.Bucket(bTokens).ForEach(func(name, v []byte) error {
		var t registry.Token
		if err := json.Unmarshal(v, &t); err != nil {
			return fmt.Errorf("token %s: %w: %w", name, ErrDamaged, err)
		}
		list = append(list, t)
		return nil
	})
	return list, err
}

// Newest implements web.TokenStore.
func (d *TokenStore) Newest() ([]registry.Token, error) {
	if err := d.Confirm(); err != nil {
		return nil, err
	}
	return d.Tokens()
}

// PutToken adds a token. It returns registry.ErrExists if the name is taken.
func (d *TokenStore) PutToken(t registry.Token) error {
	v, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("token %s: %w", t.Name, err)
	}
	if t.Name == "" {
		return fmt.Errorf("a token needs a name")
	}
	return d.put(tokenEdit{name: t.Name, value: v})
}

// DeleteToken removes a token. It wraps registry.ErrNotFound. With keeps, it wraps
// registry.ErrLastToken for the last one that lasts.
func (d *TokenStore) DeleteToken(name string, keeps bool) error {
	return d.put(tokenEdit{name: name, keeps: keeps})
}

func (d *TokenStore) put(e tokenEdit) error {
	_, err := d.execute(func(tx *bbolt.Tx) (command, error) { return &e, e.check(tx) })
	return err
}

// A tokenEdit adds a token, or deletes it if value is nil. It is a command, of the kind kindRevoke
// if keeps is set.
type tokenEdit struct {
	name  string
	value []byte
	keeps bool // refuse to delete the last token that lasts
}

func (e *tokenEdit) check(tx *bbolt.Tx) error {
	exists := e.name != "" && tx.Bucket(bTokens).Get([]byte(e.name)) != nil
	switch {
	case e.value != nil && exists:
		return fmt.Errorf("token %s: %w", e.name, registry.ErrExists)
	case e.value == nil && !exists:
		return fmt.Errorf("token %s: %w", e.name, registry.ErrNotFound)
	case !e.keeps:
		return nil
	}
	list, err := storedTokens(tx)
	if err != nil {
		return err
	}
	lasting := slices.DeleteFunc(list, func(t registry.Token) bool { return !t.Lasts() })
	if len(lasting) == 1 && lasting[0].Name == e.name {
		return fmt.Errorf("token %s: %w", e.name, registry.ErrLastToken)
	}
	return nil
}

func (e *tokenEdit) kind() byte {
	if e.keeps {
		return kindRevoke
	}
	return kindToken
}

func (e *tokenEdit) frees() bool { return e.value == nil }

func (e *tokenEdit) append(b []byte) ([]byte, error) {
	return putText(putText(b, e.name), string(e.value)), nil
}

func (e *tokenEdit) decode(in *scan) {
	e.name = in.text()
	if v := in.bytes(); len(v) > 0 {
		e.value = v
	}
}

func (e *tokenEdit) resume(tx *bbolt.Tx) error {
	if e.check(tx) != nil {
		return errMoved
	}
	return nil
}

func (e *tokenEdit) apply(tx *bbolt.Tx) error {
	if e.value == nil {
		return tx.Bucket(bTokens).Delete([]byte(e.name))
	}
	return tx.Bucket(bTokens).Put([]byte(e.name), e.value)
}
