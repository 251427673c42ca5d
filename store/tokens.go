package store

import (
	"encoding/json"
	"fmt"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// A TokenStore stores the tokens of callers. It implements web.TokenStore.
type TokenStore struct{ *boltFile }

// Tokens returns all tokens, sorted by name.
func (d *TokenStore) Tokens() (list []registry.Token, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		return tx.Bucket(bTokens).ForEach(func(name, v []byte) error {
			var t registry.Token
			if err := json.Unmarshal(v, &t); err != nil {
				return fmt.Errorf("token %s: %w: %w", name, ErrDamaged, err)
			}
			list = append(list, t)
			return nil
		})
	})
	return list, err
}

// PutToken adds a token. It returns registry.ErrExists if the name is taken.
func (d *TokenStore) PutToken(t registry.Token) error {
	v, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("token %s: %w", t.Name, err)
	}
	return d.update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bTokens)
		if t.Name == "" {
			return fmt.Errorf("a token needs a name")
		}
		if b.Get([]byte(t.Name)) != nil {
			return fmt.Errorf("token %s: %w", t.Name, registry.ErrExists)
		}
		return b.Put([]byte(t.Name), v)
	})
}

// DeleteToken removes a token. It wraps registry.ErrNotFound.
func (d *TokenStore) DeleteToken(name string) error {
	return d.edit(func(tx *bbolt.Tx) (frees bool, err error) {
		b := tx.Bucket(bTokens)
		if name == "" || b.Get([]byte(name)) == nil {
			return false, fmt.Errorf("token %s: %w", name, registry.ErrNotFound)
		}
		return true, b.Delete([]byte(name))
	})
}
