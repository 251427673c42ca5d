// Calls of the API of the nodes during the nemesis test. Most are about what only the owner of the
// endpoint knows, so the node that is asked passes them on.

package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/scheduler"
)

// trialMark is in the text of every trial run.
const trialMark = "nemesis trial"

// A nodeCall is one call and what its answer must say.
type nodeCall struct {
	kind, method, path, body string
	refusals                 []int // statuses besides 503 that are no wrong answers
	judge                    func(body []byte) error
}

// callKinds are the calls that are made at every node.
var callKinds = []string{"explain", "trial", "hint", "slots"}

// newCall returns a call about a query. known is the slot of a change that is recorded already.
func (n *nemesis) newCall(kind string, r *rand.Rand) nodeCall {
	facts := n.oracle.facts
	i := r.IntN(len(facts) - 1)
	f := facts[i]
	switch kind {
	case "explain":
		n.mu.Lock()
		known := n.recent[f.id]
		n.mu.Unlock()
		return nodeCall{kind, http.MethodGet, "/v1/queries/" + f.id + "/explain", "", nil,
			func(b []byte) error { return judgeExplain(b, f.id, known) }}
	case "trial":
		n.trials++
		mark := fmt.Sprintf("%s %d", trialMark, n.trials)
		body, _ := json.Marshal(map[string]string{"endpoint": "truth", "query": fmt.Sprintf("SELECT (%q AS ?x) {}", mark)})
		return nodeCall{kind, http.MethodPost, "/v1/queries/validate?run=1", string(body), []int{http.StatusTooManyRequests},
			func(b []byte) error { return judgeTrial(b, mark) }}
	case "hint":
		body := fmt.Sprintf(`{"touched":["http://x/p%d"]}`, i)
		return nodeCall{kind, http.MethodPost, "/v1/endpoints/truth/hints", body, nil,
			func(b []byte) error { return judgeHint(b, 2, len(facts)) }}
	}
	return nodeCall{kind, http.MethodGet, "/v1/endpoints/truth/slots?limit=100", "", nil, judgeSlots}
}

// judgeExplain judges the explanation of a query that changed in a slot, or later.
func judgeExplain(body []byte, query string, known uint64) error {
	var x struct {
		Query, Endpoint, Policy, Code string
		Slot                          uint64
		LastRun                       struct{ Slot uint64 } `json:"last_run"`
	}
	if err := json.Unmarshal(body, &x); err != nil {
		return err
	}
	if x.Query != query || x.Endpoint != "truth" || x.Policy != "rr" {
		return fmt.Errorf("it is about the query %s of %s under %s", x.Query, x.Endpoint, x.Policy)
	}
	if x.Code == scheduler.CodePlanning { // it says that it does not know more
		return nil
	}
	if x.LastRun.Slot < known || x.Slot < x.LastRun.Slot {
		return fmt.Errorf("the last run is of slot %d before slot %d, but a change of slot %d is recorded", x.LastRun.Slot, x.Slot, known)
	}
	return nil
}

// judgeTrial judges the answer to a trial run that asks for one text.
func judgeTrial(body []byte, text string) error {
	var x struct {
		Endpoint string
		Run      *struct {
			Outcome string
			Rows    *int
			Results *struct {
				Results struct {
					Bindings []map[string]jsonTerm
				}
			}
		}
	}
	switch err := json.Unmarshal(body, &x); {
	case err != nil:
		return err
	case x.Run == nil || x.Endpoint != "truth":
		return fmt.Errorf("it did not run")
	case x.Run.Outcome != "complete" && x.Run.Rows == nil && x.Run.Results == nil: // it was cut, or the endpoint said no
		return nil
	case x.Run.Outcome != "complete" || x.Run.Rows == nil || *x.Run.Rows != 1 || x.Run.Results == nil:
		return fmt.Errorf("it is %s", x.Run.Outcome)
	}
	if b := x.Run.Results.Results.Bindings; len(b) != 1 || b[0]["x"].Value != text {
		return fmt.Errorf("it has other rows than %q", text)
	}
	return nil
}

// judgeHint judges the answer to a hint.
func judgeHint(body []byte, affected, queries int) error {
	var x struct {
		Affected, Queries int
		All               bool
	}
	if err := json.Unmarshal(body, &x); err != nil {
		return err
	}
	if x.Affected != affected || x.Queries != queries || x.All {
		return fmt.Errorf("%d of %d queries are affected, not %d of %d", x.Affected, x.Queries, affected, queries)
	}
	return nil
}

// judgeSlots judges a list of slots.
func judgeSlots(body []byte) error {
	var x struct{ Slots []slotUse }
	if err := json.Unmarshal(body, &x); err != nil {
		return err
	}
	if wrong := slotsKept(x.Slots); len(wrong) > 0 {
		return fmt.Errorf("%s", strings.Join(wrong, "; "))
	}
	return nil
}

// judgeAnswer judges an answer of a node. A node may always answer 503 if it says when to try again.
func (c *nodeCall) judgeAnswer(status int, header http.Header, body []byte) (done bool, err error) {
	switch {
	case status/100 == 2:
		err = c.judge(body)
		done = err == nil
	case status == http.StatusServiceUnavailable && header.Get("Retry-After") != "" && bytes.Contains(body, []byte("/problems/")):
	case slices.Contains(c.refusals, status):
	default:
		err = fmt.Errorf("status %d", status)
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %.600s", c.method, c.path, err, body)
	}
	return done, err
}

// call makes a call at a node. It returns whether it was answered. A node that is down, stopped or slow
// need not answer.
func (n *nemesis) call(ctx context.Context, v *victim, c nodeCall) bool {
	ctx, cancel := context.WithTimeout(ctx, n.lease) // a node that is stopped for longer has lost its leases
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, c.method, "http://"+v.addr+c.path, strings.NewReader(c.body))
	if err != nil {
		n.object("%v", err)
		return false
	}
	if c.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return false
	}
	done, err := c.judgeAnswer(resp.StatusCode, resp.Header, body)
	if err != nil {
		n.object("%s: %v", v.name, err)
	}
	key := c.kind
	if !done {
		key += " refused"
	}
	n.mu.Lock()
	n.calls[key]++
	n.mu.Unlock()
	return done
}

// callNodes makes calls at random nodes until ctx ends.
func (n *nemesis) callNodes(ctx context.Context) {
	r := rand.New(rand.NewPCG(n.seed, 4))
	for ctx.Err() == nil {
		c, v := n.newCall(callKinds[r.IntN(len(callKinds))], r), n.nodes[n.names[r.IntN(len(n.names))]]
		n.call(ctx, v, c)
		n.sleep(ctx, time.Duration(r.ExpFloat64()*float64(300*time.Millisecond)))
	}
}

// callAll makes each kind of call at each node until it is answered.
func (n *nemesis) callAll() {
	r := rand.New(rand.NewPCG(n.seed, 5))
	for _, name := range n.names {
		for _, kind := range callKinds {
			n.eventually(kind+" at "+name, func() bool { return n.call(n.ctx, n.nodes[name], n.newCall(kind, r)) })
		}
	}
}
