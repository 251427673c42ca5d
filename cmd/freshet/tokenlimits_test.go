package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// The limits of a token come from the configuration. Their refusals are problems that name the
// setting and say when to try again.
func TestTokenLimitsOverHTTP(t *testing.T) {
	const app, ops = "the-secret-of-an-application", "the-secret-of-an-operator"
	sum := func(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) }
	p := clitest.Serve(t, binary(t), clitest.FreeAddr(t), t.TempDir(), fmt.Sprintf(`
tokens: [{name: app, role: app, sha256: %s}, {name: ops, role: admin, sha256: %s}]
limits: {token_queries: 15, token_rate: 1}
endpoints: [{name: city, url: "http://127.0.0.1:1/sparql", slot: never}]
`, sum(app), sum(ops)))
	post := func(token string, n int) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequest("POST", p.Url+"/v1/queries?endpoint=city", strings.NewReader(fmt.Sprintf("ASK { <http://x/%d> ?p ?o }", n)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/sparql-query")
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return resp, string(b)
	}
	held, refused, slowed := 0, 0, 0
	for n := range 40 {
		switch resp, body := post(app, n); {
		case resp.StatusCode == http.StatusCreated:
			held++
		case resp.StatusCode == http.StatusForbidden && strings.Contains(body, "/problems/quota") && strings.Contains(body,
			"limits.token_queries"):
			refused++
		case resp.StatusCode == http.StatusTooManyRequests && strings.Contains(body, "/problems/rate") && resp.Header.Get("Retry-After") == "1":
			slowed++
		default:
			t.Errorf("registration %d: %s %s", n, resp.Status, body)
		}
	}
	if held != 15 || refused < 5 || slowed == 0 {
		t.Errorf("%d were registered, %d were too many, %d too fast", held, refused, slowed)
	}
	for n := range 40 {
		if resp, body := post(ops, n); resp.StatusCode/100 != 2 {
			t.Fatalf("an admin's: %s %s", resp.Status, body)
		}
	}
}
