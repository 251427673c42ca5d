package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// A restartingServer is a server that is killed at times and restarts on the same data and address.
type restartingServer struct {
	t               testing.TB
	bin, addr, data string
	yaml            string
	p               *clitest.Process
	kills           int
	ran, asked      int // executions and requests in all slots
}

func (u *restartingServer) start() {
	u.t.Helper()
	u.p = clitest.Serve(u.t, u.bin, u.addr, u.data, u.yaml)
}

// kill ends the server like a power failure and restarts it.
func (u *restartingServer) kill() {
	u.t.Helper()
	u.p.Kill()
	u.kills++
	u.start()
}

// call sends a request to the API and returns the body of a successful answer.
func (u *restartingServer) call(ctx context.Context, method, path string, in any) ([]byte, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+u.addr+path, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, resp.Status, b)
	}
	return b, err
}

func (u *restartingServer) get(ctx context.Context, path string, out any) error {
	b, err := u.call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, out)
}

type slotSummary struct {
	Slot                                uint64
	Run, Complete, Failed, Cut, Skipped int
	Asks                                int // requests
	Changed                             int
	Error                               string
	UsedSeconds                         float64 `json:"used_seconds"`
}

// tick runs a slot that must execute all n queries.
func (u *restartingServer) tick(ctx context.Context, n int) (s slotSummary, err error) {
	b, err := u.call(ctx, http.MethodPost, "/v1/endpoints/truth/tick", nil)
	if err != nil {
		return s, err
	}
	if err = json.Unmarshal(b, &s); err == nil {
		u.ran, u.asked = u.ran+s.Run, u.asked+s.Asks
	}
	if err == nil && (s.Run != n || s.Complete != n) {
		err = fmt.Errorf("%w: %s instead of %d complete executions", errIncomplete, b, n)
	}
	return s, err
}

var errIncomplete = fmt.Errorf("the slot is not complete")

// register registers a question and records its id and epoch.
func (u *restartingServer) register(ctx context.Context, f *fact) error {
	b, err := u.call(ctx, http.MethodPost, "/v1/queries", map[string]any{"endpoint": "truth", "query": f.Text})
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	var q struct {
		ID, Epoch, Form string
		Ordered         bool
	}
	if err := json.Unmarshal(b, &q); err != nil {
		return err
	}
	if q.Form != f.form || q.Ordered != f.ordered {
		return fmt.Errorf("%s: is a %s, ordered %t, for the server, and %s, %t for the test", f.Name, q.Form, q.Ordered, f.form, f.ordered)
	}
	f.id, f.epoch = q.ID, q.Epoch
	return nil
}

// results returns the canonical bytes of the last result.
func (u *restartingServer) results(ctx context.Context, f *fact) ([]byte, error) {
	suffix := "srj"
	if f.graph() {
		suffix = "nt"
	}
	return u.call(ctx, http.MethodGet, "/v1/queries/"+f.id+"/results."+suffix, nil)
}

// log reads the whole change log of a query page by page as a transcript.
func (u *restartingServer) log(ctx context.Context, f *fact) (*transcript, error) {
	s := &transcript{fact: f, by: "log"}
	next := ""
	for {
		var page struct {
			Changes []json.RawMessage
			Next    string
		}
		path := "/v1/queries/" + f.id + "/changes?limit=50"
		if next != "" {
			path += "&after=" + url.QueryEscape(next)
		}
		if err := u.get(ctx, path, &page); err != nil || len(page.Changes) == 0 {
			return s, err
		}
		for _, raw := range page.Changes {
			var n notice
			if err := json.Unmarshal(raw, &n); err != nil {
				return s, err
			}
			if n.Seq != n.Prev+1 {
				s.object("the log has a change (%d, %d]", n.Prev, n.Seq)
			}
			s.change(n, raw)
		}
		next = page.Next
	}
}

// A plannedKill is one kill: the revision before whose tick it happens, and its kind.
type plannedKill struct {
	how   string
	after float64 // random point in the operation that it interrupts
}

// killKinds are the kinds of kills. "tick" interrupts a slot, "connect" happens while followers
// reconnect after the previous kill, "idle" when nothing runs.
var killKinds = []string{"tick", "tick", "tick", "connect", "idle"}

// planKills distributes n kills over the registration (revision −1) and the revisions.
func planKills(r *rand.Rand, n, revisions int) map[int][]plannedKill {
	list := map[int][]plannedKill{}
	for i := range n {
		at, how := r.IntN(revisions+1), killKinds[r.IntN(len(killKinds))]
		switch i {
		case 0:
			at, how = -1, "idle"
		case 1:
			at, how = 0, "tick" // during the baseline
		}
		list[at] = append(list[at], plannedKill{how, r.Float64()})
	}
	return list
}

func checkStore(t testing.TB, bin, data string) {
	t.Helper()
	if out, err := command(t, bin, "store", "check", "--data", data); err != nil {
		t.Errorf("store check: %v\n%s", err, out)
	}
}

// comeback is the approximate time in which all followers reconnect after a kill.
const comeback = 300 * time.Millisecond
