// Tests of a node that is cut off from its cluster and does not know it yet.

package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/notify/client"
	"github.com/freshet/freshet/registry"
)

// cutLasts is longer than a member takes to notice that it is alone, and than the others take to elect a
// leader and to accept writes.
const cutLasts = 15 * time.Second

// A cutRun cuts nodes off and asks them for what the others have.
type cutRun struct {
	t      *testing.T
	e      *countedEndpoint
	links  *linkSet
	nodes  map[string]*processNode
	client http.Client

	mu       sync.Mutex
	value    int               // of the endpoint
	shown    int               // the result at the position at
	newest   string            // the id of a query that another node has stored
	at       registry.Position // of a change that another node has
	answers  map[string]int    // by kind and status
	wrong    int
	followed int
}

// A node that is cut off, or was stopped, says that it does not know: it answers no 404 and no 410, and begins
// no subscription with a result that is older than the follower's. Nodes are silenced in turn;
// FRESHET_NEMESIS_FAULTS adds connections that are cut, and stopped processes.
func TestClusterCutNode(t *testing.T) {
	t.Parallel()
	r := &cutRun{t: t, e: newCounted(t), links: newLinks(t), answers: map[string]int{}, client: http.Client{Timeout: time.Minute}}
	r.e.set(0)
	at, listen := addresses(t, "n1", "n2", "n3"), addresses(t, "n1", "n2", "n3")
	var peers []string
	for n := range at {
		peers = append(peers, fmt.Sprintf("%s: %q", n, r.links.proxy("journal", n, listen[n])))
	}
	r.nodes = startNodes(t, clusterPlan{at: at, endpoint: r.e.http.URL, cluster: func(n string) string {
		return fmt.Sprintf("  listen: %s\n  peers: {%s}\n", listen[n], strings.Join(peers, ", "))
	}})
	for _, n := range r.nodes {
		n.awaitReady(t)
	}
	r.nodes["n1"].registerNumber(t)
	clitest.Eventually(t, "the first result", func() bool { return r.look(r.nodes["n1"]) })
	faults := []string{"silence", "cut", "freeze"}
	for i := range int(nemesisNumber(t, "FRESHET_NEMESIS_FAULTS", 3)) {
		r.attack(faults[i/3%3], []string{"n1", "n2", "n3"}[i%3])
	}
	t.Logf("%d false answers; %d followers; answers %v", r.wrong, r.followed, r.answers)
}

// attack hinders a node for a while, asks it all the time, and waits until it is ready again.
func (r *cutRun) attack(fault, victim string) {
	v, others := r.nodes[victim], []*processNode{}
	var links []link
	for name, n := range r.nodes {
		if name != victim {
			others = append(others, n)
			links = append(links, link{victim, name}, link{name, victim})
		}
	}
	before := r.wrong
	ctx, cancel := context.WithCancel(r.t.Context())
	var writing, asking sync.WaitGroup
	writing.Go(func() { r.write(ctx, others) })
	began := time.Now()
	var heal func()
	switch fault {
	case "freeze":
		if err := v.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			r.t.Fatal(err)
		}
		heal = func() { _ = v.Cmd.Process.Signal(syscall.SIGCONT) }
	case "cut":
		heal = r.links.hold(links...)
		r.links.cut()
	default:
		heal = r.links.hold(links...)
	}
	for i := 0; time.Since(began) < cutLasts+3*time.Second; i++ {
		asking.Go(func() { r.ask(v, i) })
		if i%5 == 0 {
			asking.Go(func() { r.follow(v, i/5%3) })
		}
		if heal != nil && time.Since(began) > cutLasts {
			heal()
			heal = nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	asking.Wait()
	cancel()
	writing.Wait()
	v.awaitReady(r.t)
	r.t.Logf("%s %s: %d false answers", fault, victim, r.wrong-before)
}

// write changes the result and registers queries at the others, and remembers what they have stored.
func (r *cutRun) write(ctx context.Context, others []*processNode) {
	for i := 0; ctx.Err() == nil; i++ {
		n := others[i%len(others)]
		name := fmt.Sprint("new", time.Now().UnixNano())
		body := fmt.Sprintf(`{"name": %q, "endpoint": "numbers", "query": "SELECT ?n { ?s <http://example.org/%s> ?n }"}`, name, name)
		if resp, err := r.client.Post(n.Url+"/v1/queries", "application/json", strings.NewReader(body)); err == nil {
			var q struct{ ID string }
			if json.NewDecoder(resp.Body).Decode(&q) == nil && resp.StatusCode/100 == 2 {
				r.mu.Lock()
				r.newest = q.ID
				r.mu.Unlock()
			}
			resp.Body.Close()
		}
		r.mu.Lock()
		r.value++
		r.e.set(r.value)
		r.mu.Unlock()
		r.look(n)
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// look reads the result and its position at a node.
func (r *cutRun) look(n *processNode) bool {
	resp, err := r.client.Get(n.Url + "/v1/queries/number/results.srj")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	parts := strings.FieldsFunc(strings.TrimPrefix(resp.Header.Get("ETag"), "W/"), func(r rune) bool { return r == '"' || r == '.' })
	if err != nil || resp.StatusCode != http.StatusOK || len(parts) < 2 {
		return false
	}
	p, err := registry.ParsePosition(parts[0] + ":" + parts[1])
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && p.Seq > r.at.Seq {
		r.at, r.shown = p, numberIn(string(body))
	}
	return r.at.Seq > 0
}

// numberIn returns the value of the only row in a document, -1 if there is none.
func numberIn(document string) int {
	_, text, _ := strings.Cut(document, `"value":"`)
	n, err := strconv.Atoi(text[:max(0, strings.IndexByte(text, '"'))])
	if err != nil {
		return -1
	}
	return n
}

// ask asks a node for what another one has.
func (r *cutRun) ask(v *processNode, i int) {
	r.mu.Lock()
	id, at := r.newest, r.at
	r.mu.Unlock()
	paths := []string{
		"/v1/queries/number/changes?after=" + at.String(),
		fmt.Sprint("/v1/queries/number/results.srj?seq=", at.Seq),
	}
	if id != "" {
		paths = append(paths, "/v1/queries/"+id, "/v1/queries/"+id+"/changes", "/queries/"+id)
	}
	path := paths[i%len(paths)]
	resp, err := r.client.Get(v.Url + path)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
	r.mu.Lock()
	r.answers[fmt.Sprint(i%len(paths), " ", resp.StatusCode)]++
	r.mu.Unlock()
	if resp.StatusCode != http.StatusOK && (resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "") {
		r.object("%s: GET %s: %s %s", v.name, path, resp.Status, body)
	}
}

func (r *cutRun) object(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong++
	r.t.Errorf(format, args...)
}

// follow moves a follower to a node: of the WebSocket, of an event stream, or of SEPA.
func (r *cutRun) follow(v *processNode, way int) {
	r.mu.Lock()
	at, shown := r.at, r.shown
	r.followed++
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.t.Context(), 15*time.Second)
	defer cancel()
	switch way {
	case 0:
		from := &client.State{Query: "number", Epoch: at.Epoch, Seq: at.Seq, Form: "SELECT", Document: []byte(`{"head":{"vars":["n"]},"results":{"bindings":[]}}`)}
		_ = client.Follow(ctx, client.Options{Server: v.Url, Query: "number", From: from}, func(e client.Event) error {
			if e.Kind == client.Subscribed && !e.Resumed {
				r.object("%s: a follower with the position %s is not resumed: %s", v.name, at, e.Reason)
			}
			cancel()
			return nil
		})
	case 1:
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, v.Url+"/v1/queries/number/changes", nil)
		if err != nil {
			r.t.Error(err)
			return
		}
		q.Header.Set("Accept", "text/event-stream")
		q.Header.Set("Last-Event-ID", at.String())
		resp, err := r.client.Do(q)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		if time.AfterFunc(5*time.Second, cancel); resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
			r.object("%s: an event stream: %s", v.name, resp.Status)
		}
		if body, _ := io.ReadAll(resp.Body); strings.Contains(string(body), "event: gap") || strings.Contains(string(body), "event: snapshot") {
			r.object("%s: an event stream after %s: %s", v.name, at, body)
		}
	default:
		c, _, err := websocket.DefaultDialer.DialContext(ctx, strings.Replace(v.Url, "http", "ws", 1)+"/sepa/subscribe", nil)
		if err != nil {
			return
		}
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		if err := readSEPA(c, `SELECT ?n { ?s <http://example.org/number> ?n }`, func(n *sepaNotification) bool {
			if first := numberIn(fmt.Sprint(n.AddedResults.rows())); first < shown {
				r.object("%s: a subscription begins with %d, and another node had %d before", v.name, first, shown)
			}
			return false
		}); err != nil {
			r.object("%s: SEPA: %v", v.name, err)
		}
	}
}
