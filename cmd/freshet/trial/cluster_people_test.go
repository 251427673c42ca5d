package trial

// Tests of agents and of people in a cluster of three processes.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/notify/notifytest"
)

// agentAt opens a session of the official SDK at a node.
func agentAt(n *processNode, updated func()) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(context.Context, *mcp.ResourceUpdatedNotificationRequest) { updated() }})
	return client.Connect(context.Background(), &mcp.StreamableClientTransport{Endpoint: n.Url + "/mcp", MaxRetries: -1}, nil)
}

// An agent that goes from node to node, of which some are killed, reads each change once, and hears of changes that another
// node has found.
func TestClusterAgentMoves(t *testing.T) {
	t.Parallel()
	e, nodes, f := startNumbers(t, "n1")
	names := []string{"n1", "n2", "n3"}
	query, at, last, told := f.from.Query, fmt.Sprintf("%s:%d", f.from.Epoch, f.from.Seq), f.from.Seq, atomic.Int32{}
	f.stop()
	read := func(n *processNode, until uint64) error {
		s, err := agentAt(n, func() { told.Add(1) })
		if err != nil {
			return err
		}
		defer s.Close()
		listening, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			_ = s.Subscribe(listening, &mcp.SubscribeParams{URI: "freshet://queries/" + query + "/changes?after=" + at})
		}()
		for deadline := time.Now().Add(time.Minute); last < until; {
			if time.Now().After(deadline) {
				return fmt.Errorf("%s has no change after %d", n.name, last)
			}
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "changes", Arguments: map[string]any{"query": query, "after": at,
				"limit": 5}})
			if err != nil {
				return err
			}
			b, err := json.Marshal(r.StructuredContent)
			if err != nil {
				return err
			}
			var page struct {
				Data []struct{ Prev, Seq uint64 }
				Next string
			}
			if err := json.Unmarshal(b, &page); err != nil || r.IsError {
				return fmt.Errorf("%s: %w: %s", n.name, err, b)
			}
			for _, c := range page.Data {
				if c.Prev != last || c.Seq != last+1 {
					t.Fatalf("%s: after %d comes %d→%d", n.name, last, c.Prev, c.Seq)
				}
				last = c.Seq
			}
			if at = page.Next; len(page.Data) == 0 {
				time.Sleep(20 * time.Millisecond)
			}
		}
		return nil
	}
	for i := range 8 {
		e.set(2 + i)
		want := last + 1
		n := nodes[names[i%3]]
		if i%4 == 3 { // the agent finds its node dead, and asks the next one
			n.Kill()
			if err := read(n, want); err == nil {
				t.Fatal("a dead node answers")
			}
			n = nodes[names[(i+1)%3]]
		}
		clitest.Eventually(t, fmt.Sprintf("change %d", want), func() bool {
			err := read(n, want)
			if err != nil {
				t.Logf("%v", err) // the majority may be choosing a leader
			}
			return err == nil
		})
		if i%4 == 3 {
			nodes[names[i%3]].start(t)
		}
	}
	if told.Load() == 0 {
		t.Error("no stream announced a change")
	}
	t.Logf("read until %d, told %d times", last, told.Load())
}

var confirmLink = regexp.MustCompile(`http://\S+/notify-me/\S+`)

// A visitor asks at one node, confirms at another and stops at the third, and gets nothing afterwards. Somebody with
// a token gets each change once by e-mail, although nodes are killed.
func TestClusterVisitor(t *testing.T) {
	t.Parallel()
	box := notifytest.NewMailbox(t, nil)
	e := newCounted(t)
	e.set(1)
	nodes := startCluster(t, e.http.URL, fmt.Sprintf("mail: {server: %q, from: freshet@example.org, security: none, "+
		"recipients: [team.example], visitors: 10}\n", box.Addr))
	for _, n := range nodes {
		n.awaitReady(t)
	}
	keys := map[string]bool{} // which browsers subscribe with
	for _, n := range nodes {
		status, key := n.get(t, "/push-key")
		if keys[key] = true; status != http.StatusOK || len(key) != 87 || len(keys) != 1 {
			t.Errorf("%s: %d, %v", n.name, status, keys)
		}
	}
	post := func(n *processNode, path, kind, body string) (int, string) {
		t.Helper()
		r, err := http.Post(n.Url+path, kind, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	const form, asJSON = "application/x-www-form-urlencoded", "application/json"
	sent := func(to string) (list []notifytest.Letter) {
		for _, l := range box.Letters() {
			if l.To == to {
				list = append(list, l)
			}
		}
		return list
	}
	clitest.Eventually(t, "the query is registered", func() bool {
		status, _ := post(nodes["n1"], "/v1/queries", asJSON,
			`{"name":"number","endpoint":"numbers","public":true,"query":"SELECT ?n { ?s ?p ?n }"}`)
		return status/100 == 2
	})
	clitest.Eventually(t, "it has a result", func() bool {
		_, text := nodes["n2"].get(t, "/v1/queries/number")
		return strings.Contains(text, `"seq":1`)
	})

	ask := url.Values{"query": {"number"}, "email": {"ada@home.example"}}.Encode()
	for _, n := range []string{"n1", "n3"} { // who does not see an answer at once asks again
		if status, text := post(nodes[n], "/notify-me", form, ask); status != http.StatusOK || !strings.Contains(text, "mailbox") {
			t.Fatalf("%s: %d %s", n, status, text)
		}
	}
	clitest.Eventually(t, "the question", func() bool { return len(sent("ada@home.example")) > 0 })
	link, err := url.Parse(confirmLink.FindString(sent("ada@home.example")[0].Body))
	if err != nil || link.Path == "" {
		t.Fatal(err, sent("ada@home.example")[0].Body)
	}
	at := link.RequestURI()
	clitest.Eventually(t, "the link works at another node", func() bool {
		_, text := nodes["n2"].get(t, at)
		return strings.Contains(text, "Yes, tell me")
	})
	if status, text := post(nodes["n2"], at, form, "do=confirm"); status != http.StatusOK || !strings.Contains(text, "Thank you") {
		t.Fatalf("%d %s", status, text)
	}
	clitest.Eventually(t, "the third node knows it", func() bool {
		_, text := nodes["n3"].get(t, at)
		return strings.Contains(text, "Stop these")
	})
	if status, text := post(nodes["n3"], at, form, "List-Unsubscribe=One-Click"); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	clitest.Eventually(t, "the first node knows that it is stopped", func() bool {
		_, text := nodes["n1"].get(t, at)
		return strings.Contains(text, "are stopped")
	})
	if status, text := post(nodes["n1"], "/notify-me", form, ask); status != http.StatusOK {
		t.Errorf("%d %s", status, text)
	}

	asked := len(sent("ada@home.example")) // twice if the second request came after the first letter
	if asked > 2 {
		t.Errorf("the visitor was asked %d times", asked)
	}

	if status, text := post(nodes["n3"], "/v1/receivers", asJSON,
		`{"notify":"mailto:ops@team.example","query":"number"}`); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	texts := func() (all string) {
		for _, l := range sent("ops@team.example") {
			all += l.Body
		}
		return all
	}
	for i := range 4 {
		e.set(2 + i)
		told := fmt.Sprintf("− %d\r\n+ %d\r\n", 1+i, 2+i)
		clitest.Eventually(t, "the letter of "+told, func() bool { return strings.Contains(texts(), told) })
		if i == 1 { // it may be the one that sends
			nodes["n2"].Kill()
		}
	}
	ids := map[string]bool{}
	for _, l := range sent("ops@team.example") {
		ids[l.Header.Get("Message-Id")] = true
	}
	if len(ids) != 4 {
		t.Errorf("%d messages with %d ids:\n%s", len(sent("ops@team.example")), len(ids), texts())
	}
	if list := sent("ada@home.example"); len(list) != asked {
		t.Errorf("the visitor who has stopped it got %d letters more", len(list)-asked)
	}
}
