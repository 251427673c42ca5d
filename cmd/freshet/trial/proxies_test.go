package trial

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
)

// Followers behind a proxy of a listed network count by the address that the proxy names, each for itself.
func TestFollowersBehindProxy(t *testing.T) {
	const secret = "of-the-one-who-follows"
	w := newTown(t, fmt.Sprintf("tokens: [{name: ops, role: admin, sha256: %q}]\n", registry.HashSecret(secret))+
		"proxies: {networks: [192.0.2.0/24], header: Forwarded}\nlimits: {address_connections: 1}\n")
	w.Env["FRESHET_TOKEN"] = secret
	w.must(t, "ASK {}", "query", "add", "--endpoint", "city", "--name", "asked", "-")
	follow := func(sent string) int {
		t.Helper()
		req, err := http.NewRequest("GET", w.Env["FRESHET_SERVER"]+"/v1/queries/asked/changes", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Accept": {"text/event-stream"}, "Forwarded": {sent}, "X-Forwarded-For": {"203.0.113.9"},
			"Authorization": {"Bearer " + secret}}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp.StatusCode
	}
	for i := range 3 { // the second proxy is on this machine
		if got := follow(fmt.Sprintf("for=198.51.100.%d, for=192.0.2.7", i)); got != http.StatusOK {
			t.Errorf("client %d gets %d", i, got)
		}
	}
	if got := follow("for=198.51.100.77, for=198.51.100.1, for=192.0.2.7"); got != http.StatusTooManyRequests {
		t.Errorf("the second follower of an address gets %d", got)
	}
	if list := w.must(t, "", "subscription", "list", "--json"); !strings.Contains(list, `"remote":"198.51.100.2"`) ||
		strings.Contains(list, "203.0.113.9") {
		t.Errorf("%s", list)
	}
}
