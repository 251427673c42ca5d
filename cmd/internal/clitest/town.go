package clitest

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A Town is a running server over an embedded endpoint with two triples.
type Town struct {
	Env      map[string]string // environment of the command line
	Endpoint string
	Store    string // directory of the server's store
}

// NewTown starts both in processes of their own. more is appended to the configuration.
func NewTown(t *testing.T, bin, more string) Town {
	t.Helper()
	NeedEngine(t)
	data := filepath.Join(t.TempDir(), "base.nt")
	if err := os.WriteFile(data, []byte("<http://x/a> <http://x/n> \"1\" .\n<http://x/b> <http://x/n> \"2\" .\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := Start(t, bin, "sparql", "--listen", "127.0.0.1:0", "--load", data)
	dir := t.TempDir()
	srv := Serve(t, bin, FreeAddr(t), dir, "endpoints: [{name: city, url: \""+s.Url+"\", slot: never, policy: rr, budget: 2m}]\n"+more)
	return Town{Env: map[string]string{"FRESHET_SERVER": srv.Url}, Endpoint: s.Url, Store: dir}
}

// Update changes the data of the town's endpoint.
func (w Town) Update(t *testing.T, text string) {
	t.Helper()
	resp, err := http.Post(w.Endpoint, "application/sparql-update", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("update: %s %s", resp.Status, b)
	}
}
