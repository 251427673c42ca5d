// This file stores secrets that a server makes for itself.

package store

import (
	"go.etcd.io/bbolt"
)

// secretKey is the entry of meta that has a secret.
func secretKey(name string) []byte { return []byte("secret/" + name) }

// Secret returns a secret that the server has made for itself, the same on all nodes of a cluster. The first call
// stores what fresh returns.
func (d *DB) Secret(name string, fresh func() string) (string, error) {
	stored := func(tx *bbolt.Tx) (string, error) { return string(tx.Bucket(bMeta).Get(secretKey(name))), nil }
	if value, err := fetch(d.boltFile, stored); value != "" || err != nil {
		return value, err
	}
	_, err := d.execute(func(tx *bbolt.Tx) (command, error) {
		if value, err := stored(tx); value != "" || err != nil {
			return nil, errUnchanged
		}
		return &secretEdit{Name: name, Value: fresh()}, nil
	})
	if err != nil {
		return "", err
	}
	return fetch(d.boltFile, stored)
}

// A secretEdit stores a secret once. It is a command.
type secretEdit struct{ Name, Value string }

func (e *secretEdit) kind() byte { return kindSecret }

func (e *secretEdit) frees() bool { return false }

func (e *secretEdit) touch(*Others) {}

func (e *secretEdit) Resume(tx *bbolt.Tx) error {
	if tx.Bucket(bMeta).Get(secretKey(e.Name)) != nil {
		return errMoved
	}
	return nil
}

func (e *secretEdit) Apply(tx *bbolt.Tx) error {
	return tx.Bucket(bMeta).Put(secretKey(e.Name), []byte(e.Value))
}
