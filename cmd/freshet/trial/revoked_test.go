package trial

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/registry"
)

// Removing a token, by the API or from the file that SIGHUP reads, ends everything that it
// follows before the next change is sent, in every protocol.
func TestRevokedTokenFollowsNoMore(t *testing.T) {
	token := func(name string) string {
		return "{name: " + name + ", role: app, sha256: \"" + registry.HashSecret(name+"-has-a-secret") + "\"}"
	}
	admin := "tokens: [{name: boss, role: admin, sha256: \"" + registry.HashSecret("boss-of-all-the-rest") + "\"}, " + token("keeps")
	s := newTestServer(t, admin+", "+token("filed")+"]\n")
	s.Env["FRESHET_TOKEN"] = "boss-of-all-the-rest"
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	made := strings.TrimSpace(s.must(t, "", "token", "add", "made", "--role", "app"))

	received := map[string]<-chan string{} // all messages up to the end
	for name, secret := range map[string]string{"keeps": "keeps-has-a-secret", "filed": "filed-has-a-secret", "made": made} {
		for way, follow := range map[string]func(*testing.T, *testServer, string) <-chan string{"WebSocket": linesOfWebSocket,
			"SSE": linesOfEvents, "SEPA": linesOfSEPA} {
			lines := follow(t, s, secret)
			for l := range lines {
				if strings.Contains(l, "bindings") { // the current result
					break
				}
			}
			received[name+" by "+way] = lines
		}
	}

	s.must(t, "", "token", "rm", "made")
	if err := os.WriteFile(s.srv.Cmd.Args[3], []byte(strings.Replace(s.yaml, ", "+token("filed"), "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.srv.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	clitest.Eventually(t, "reloaded", func() bool { return strings.Contains(s.srv.Stderr.String(), "is reloaded") })
	s.step(7)

	for _, name := range slices.Sorted(maps.Keys(received)) {
		notified, last := false, ""
		for l := range received[name] {
			if notified = strings.Contains(l, `"http://x/7"`); notified {
				break
			}
			last = l
		}
		if keeps := strings.HasPrefix(name, "keeps"); notified != keeps {
			t.Errorf("%s: notified of the change: %t, want %t", name, notified, keeps)
		}
		if how := map[string]string{"made by WebSocket": "4401", "made by SEPA": "unsubscribed"}[name]; !strings.Contains(last, how) {
			t.Errorf("%s ended with %s, want %s", name, last, how)
		}
	}
}

// A follower without a token gets no further change of a query that is no longer public.
func TestHiddenQueryIsFollowedNoMore(t *testing.T) {
	const text = "SELECT ?s ?n { ?s <http://x/n> ?n }"
	s := newTestServer(t, "tokens: [{name: boss, role: admin, sha256: \""+registry.HashSecret("boss-of-all-the-rest")+"\"}]\n")
	s.Env["FRESHET_TOKEN"] = "boss-of-all-the-rest"
	hide := []func(){
		func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, s.srv.Url+"/v1/queries/rows", strings.NewReader(`{"public":false}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer boss-of-all-the-rest")
			r.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(r)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatal(resp, err)
			}
			resp.Body.Close()
		},
		func() { s.must(t, text, "query", "add", "--name", "rows", "-") }, // replaces the earlier registration
	}
	for i, hide := range hide {
		s.must(t, text, "query", "add", "--name", "rows", "--public", "-")
		s.must(t, "", "endpoint", "tick", "city")
		ways := []<-chan string{linesOfEvents(t, s, ""), linesOfWebSocket(t, s, "")}
		for _, lines := range ways {
			for l := range lines {
				if strings.Contains(l, "bindings") {
					break
				}
			}
		}
		hide()
		s.step(7 + i)
		for way, lines := range ways {
			for l := range lines {
				if strings.Contains(l, fmt.Sprintf("http://x/%d", 7+i)) {
					t.Errorf("hidden %d: notified of a change by way %d: %s", i, way, l)
					break
				}
				if strings.Contains(l, "not_allowed") { // the connection stays
					break
				}
			}
		}
	}
}

// linesOfWebSocket follows the query rows and returns its messages as they arrive, with the
// reason of the end as the last one.
func linesOfWebSocket(t *testing.T, s *testServer, token string) <-chan string {
	c := dial(t, s.srv.Url, token)
	if err := c.WriteMessage(websocket.TextMessage, []byte(`{"type":"subscribe","id":"w","query":"rows"}`)); err != nil {
		t.Fatal(err)
	}
	return frames(c)
}

func linesOfSEPA(t *testing.T, s *testServer, token string) <-chan string {
	c, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.srv.Url, "http")+"/sepa/subscribe",
		http.Header{"Authorization": {"Bearer " + token}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.WriteJSON(map[string]any{"subscribe": map[string]string{"sparql": "SELECT ?s ?n { ?s <http://x/n> ?n }",
		"alias": "a"}}); err != nil {
		t.Fatal(err)
	}
	lines := frames(c)
	ended := make(chan string, 100)
	go func() {
		defer close(ended)
		for l := range lines {
			ended <- l
			if strings.Contains(l, "unsubscribed") {
				return // the connection may continue without it
			}
		}
	}()
	return ended
}

func frames(c *websocket.Conn) <-chan string {
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for {
			_, b, err := c.ReadMessage()
			if err != nil {
				lines <- err.Error()
				return
			}
			lines <- string(b)
		}
	}()
	return lines
}

func linesOfEvents(t *testing.T, s *testServer, token string) <-chan string {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.srv.Url+"/v1/queries/rows/changes", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp, err)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		defer resp.Body.Close()
		for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
			lines <- sc.Text()
		}
	}()
	return lines
}
