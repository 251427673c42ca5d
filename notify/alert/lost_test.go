package alert_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A message whose answer is lost is sent again with the same id, for services that know ids, although other alerts have come.
func TestLostAnswerKeepsTheID(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	var paths []string
	lose := true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if lose {
			lose = len(paths) < 3
			paths = append(paths, q.URL.Path)
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			c.Close()
			return
		}
		paths = append(paths, q.URL.Path)
	}))
	t.Cleanup(s.Close)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=1")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "matrix", Address: strings.Replace(s.URL, "http://", "matrix+http://tok@", 1) + "/!room:example.org"}}})
	r.record(q, "a=11")
	until(t, "a lost answer", func() bool { return r.rule("late").Receivers[0].Failures > 0 })
	r.record(q, "a=11", "b=12")
	until(t, "all are delivered", func() bool { return r.rule("late").Receivers[0].Waiting() == 0 })
	mu.Lock()
	defer mu.Unlock()
	ids := map[string]bool{}
	for _, p := range paths {
		ids[p] = true
	}
	if len(ids) != 2 || len(paths) != 6 || paths[0] != paths[4] || paths[5] == paths[4] {
		t.Errorf("%q", paths)
	}
}
