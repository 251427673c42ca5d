//go:build virtuoso

package virtuosotest

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A server that has crashed is started again with the data that it had.
func TestRevive(t *testing.T) {
	s := Start(t, Options{})
	s.Insert("http://x/g", "<http://x/s> <http://x/p> <http://x/o> .")
	if err := s.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !s.Revive() {
		t.Fatal("it is not started again")
	}
	r, err := http.PostForm(s.URL, url.Values{"query": {"ASK { GRAPH <http://x/g> { ?s ?p ?o } }"}, "format": {"text/csv"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(b), "1") && !strings.Contains(string(b), "true") {
		t.Errorf("the data is gone: %s, %v", b, err)
	}
	s.Insert("http://x/g", "<http://x/s> <http://x/p> <http://x/o2> .") // the right to update stays
}
