package main

import (
	"net/http"
	"testing"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// A server without tokens refuses requests that a proxy forwarded, unless it runs with
// --insecure.
func TestInsecureTakesForwardedRequests(t *testing.T) {
	for _, c := range []struct {
		flags  []string
		status int
	}{
		{nil, http.StatusForbidden},
		{[]string{"--insecure"}, http.StatusOK},
	} {
		args := append([]string{"serve", "--listen", clitest.FreeAddr(t), "--data", t.TempDir()}, c.flags...)
		srv := clitest.Start(t, binary(t), args...)
		req, err := http.NewRequest("GET", srv.Url+"/v1/queries", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Forwarded-For", "192.0.2.1")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("flags %v: a forwarded request gets %s, want %d", c.flags, resp.Status, c.status)
		}
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	}
}
