package store

import (
	"testing"

	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/registry"
)

func testSubscriptions(t *testing.T, options func(dir string) Options) {
	notifytest.TestSubscriptions(t, func(t *testing.T) deliver.Store {
		dir := t.TempDir()
		return open(t, dir, options(dir)).Subscriptions
	})
}

func active(s *registry.Subscription, _ bool) error {
	s.State, s.Callback = registry.Active, "http://127.0.0.1/"
	return nil
}

func TestCheckReadsSubscriptions(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	if _, err := d.Subscriptions.EditSubscription("a", active); err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]string{"broken": "{", "misplaced": `{"id":"b"}`} {
		err := d.update(func(tx *bbolt.Tx) error { return tx.Bucket(bSubscriptions).Put([]byte("a"), []byte(v)) })
		if err != nil {
			t.Fatal(err)
		}
		if d.Check() == nil {
			t.Errorf("%s: Check finds nothing", name)
		}
	}
}
