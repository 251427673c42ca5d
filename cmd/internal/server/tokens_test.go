// Tests of tokens in a cluster.

package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// with calls the API with a token.
func (n *node) with(token, method, path, body string) (status int, answer string) {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.URL()+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+token)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		n.t.Error(err)
	}
	return a.StatusCode, string(text)
}

// A token is valid at every node once its maker has it, also at one that lags, where it can be
// removed at once, too.
func TestTokensOfAnotherNode(t *testing.T) {
	_, nodes := newNodes(t, 2)
	one, other := nodes[0], nodes[1]
	var admin struct{ Token string }
	one.call("POST", "/v1/tokens", map[string]string{"name": "boss", "role": "admin"}, &admin)
	for i, check := range []func(token, name string) string{
		func(token, _ string) string {
			if status, text := other.with(token, "GET", "/v1/queries", ""); status != 200 {
				return fmt.Sprintf("the token is answered with %d %s", status, text)
			}
			return ""
		},
		func(_, name string) string {
			if status, text := other.with(admin.Token, "DELETE", "/v1/tokens/"+name, ""); status != 204 {
				return fmt.Sprintf("the removal is answered with %d %s", status, text)
			}
			return ""
		},
	} {
		if status, text := other.with(admin.Token, "GET", "/v1/queries", ""); status != 200 { // it has applied that one
			t.Fatal(status, text)
		}
		other.lag.Lock()
		catchUp := sync.OnceFunc(other.lag.Unlock)
		defer catchUp()
		name := fmt.Sprint("t", i)
		_, secret, err := one.gate.Make(name, "read", nil)
		if err != nil {
			t.Fatal(err)
		}
		wrong := make(chan string, 1)
		go func() { wrong <- check(secret, name) }()
		time.Sleep(100 * time.Millisecond) // without the wait the node answers in the meantime
		catchUp()
		if text := receive(t, "the answer", wrong); text != "" {
			t.Error(text)
		}
	}
}
