package web

import (
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
)

// /readyz and the metrics report the state of the disk, and reading still works.
func TestStorageState(t *testing.T) {
	now := registry.Storage{Free: 5000, Reserve: 1000}
	starting := 0
	w := newWorld(t, func(c *Config) { c.Health = condition{disk: &now, starting: &starting} })
	q := w.register(selectText)
	look := func(ready string, metrics ...string) {
		t.Helper()
		if got := string(w.get("/readyz").status(200).body); got != ready {
			t.Errorf("/readyz says %q, want %q", got, ready)
		}
		s := string(w.get("/metrics").status(200).body)
		for _, m := range metrics {
			if !strings.Contains(s, "\n"+m+"\n") {
				t.Errorf("the metrics lack %q", m)
			}
		}
	}
	look("ready\n", "freshet_store_read_only 0", "freshet_store_free_bytes 5000", "freshet_store_reserve_bytes 1000")
	now = registry.Storage{Free: 10, Reserve: 1000, Short: true, Reason: "nearly full"}
	look("ready, short of storage: nearly full\n", "freshet_store_read_only 0")
	now = registry.Storage{Free: 0, Reserve: 1000, Short: true, ReadOnly: true, Reason: "full"}
	starting = 2
	look("ready, read-only: full, endpoints that still read their queries: 2\n", "freshet_store_read_only 1", "freshet_store_free_bytes 0")
	w.get("/v1/queries/" + q).status(200)
}
