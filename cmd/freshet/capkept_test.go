package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A cap that was told of again after an edit that made it forgotten outlives a
// crash as the first one did.
func TestCapToldAgainIsKept(t *testing.T) {
	ep := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/sparql-results+json")
		w.Header().Set("X-SPARQL-MaxRows", "2")
		row := `{"s":{"type":"uri","value":"http://x/1"}}`
		io.WriteString(w, `{"head":{"vars":["s"]},"results":{"bindings":[`+row+`,`+row+`]}}`)
	}))
	defer ep.Close()
	data, addr := t.TempDir(), freeAddr(t)
	yaml := fmt.Sprintf("endpoints: [{name: city, url: %q, slot: never, policy: rr}]\n", ep.URL)
	srv := serve(t, binary(t), addr, data, yaml)
	w := town{env: map[string]string{"FRESHET_SERVER": srv.url}, endpoint: ep.URL}
	w.add(t, "SELECT ?s { ?s ?p ?o }")
	w.must(t, "", "endpoint", "tick", "city", "--json")
	w.must(t, "", "endpoint", "set", "city", "max_rows=100")
	for range 3 {
		w.must(t, "", "endpoint", "tick", "city", "--json")
	}
	srv.kill()
	serve(t, binary(t), addr, data, yaml)
	if out := w.must(t, "", "endpoint", "show", "city", "--json"); !strings.Contains(strings.ReplaceAll(out, " ", ""), `"max_rows":2`) {
		t.Errorf("after a crash the cap is forgotten: %s", out)
	}
}

// A wait that the server of before asks for after the endpoint was moved is no
// concern of the one in its place, after a restart either.
func TestMovingInASlotEndsTheWait(t *testing.T) {
	asked, moved := make(chan struct{}, 9), make(chan struct{})
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-moved
		w.Header().Set("Retry-After", "3600")
		http.Error(w, "later", http.StatusTooManyRequests)
	}))
	defer old.Close()
	next := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/sparql-results+json")
		io.WriteString(w, `{"head":{},"boolean":true}`)
	}))
	defer next.Close()
	data, addr := t.TempDir(), freeAddr(t)
	yaml := fmt.Sprintf("endpoints: [{name: city, url: %q, slot: never, policy: rr}]\n", old.URL)
	srv := serve(t, binary(t), addr, data, yaml)
	w := town{env: map[string]string{"FRESHET_SERVER": srv.url}, endpoint: old.URL}
	w.add(t, "ASK { <http://x/1> ?p ?o }")
	first := make(chan int)
	go func() {
		code, _, _ := cli(t, w.env, "", "endpoint", "tick", "city", "--json")
		first <- code
	}()
	<-asked
	w.must(t, "", "endpoint", "set", "city", "url="+next.URL)
	close(moved)
	<-first
	srv.kill()
	serve(t, binary(t), addr, data, yaml)
	if out := w.must(t, "", "endpoint", "tick", "city", "--json"); !strings.Contains(out, `"complete":1`) {
		t.Errorf("the new server was not asked: %s", out)
	}
}
