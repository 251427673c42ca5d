package store

import (
	"fmt"
	"sync"
	"testing"
)

// All nodes that ask for a secret at the same time get the same one, which a restart and a backup keep.
func TestSecretIsOne(t *testing.T) {
	c := newCluster(t, 3, 3)
	got := make([]string, 30)
	var group sync.WaitGroup
	for i := range got {
		group.Go(func() {
			var err error
			if got[i], err = c.stores[i%3].Secret("push", func() string { return fmt.Sprint("made by ", i) }); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, s := range got {
		if s == "" || s != got[0] {
			t.Fatalf("%q", got)
		}
	}
	c.restart(1)
	if s, err := c.stores[1].Secret("push", func() string { return "another" }); err != nil || s != got[0] {
		t.Errorf("after a restart it is %q, %v", s, err)
	}
	if s, err := c.stores[2].Secret("other", func() string { return "another" }); err != nil || s != "another" {
		t.Errorf("another secret is %q, %v", s, err)
	}
}
