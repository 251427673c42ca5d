package trial

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/web/api"
)

// A driver is a third-party client that runs in node.
type driver struct {
	t     *testing.T
	in    io.WriteCloser
	lines chan driverLine
}

type driverLine struct {
	Event, Topic, Hub, Type, Body, Message, URL, ID string

	Data struct {
		Seq     int
		Results json.RawMessage
	}
}

func newDriver(t *testing.T, pack string, args ...string) *driver {
	t.Helper()
	clitest.NeedNode(t, jsClient)
	if _, err := os.Stat(filepath.Join(jsClient, "node_modules", pack)); err != nil {
		clitest.SkipPart(t, "npm", `run "npm ci --prefix web/client"`)
	}
	cmd := exec.Command("node", args...)
	cmd.Dir, cmd.Stderr = jsClient, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()         // killed
	})
	d := &driver{t: t, in: in, lines: make(chan driverLine, 1000)}
	go func() {
		defer close(d.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			var l driverLine
			if json.Unmarshal(s.Bytes(), &l) == nil {
				d.lines <- l
			}
		}
	}()
	return d
}

// next waits for an event and skips others, except errors.
func (d *driver) next(event string) driverLine {
	d.t.Helper()
	for {
		select {
		case l, ok := <-d.lines:
			switch {
			case !ok:
				d.t.Fatalf("the client ended before %s", event)
			case l.Event == event:
				return l
			case l.Event == "error" || l.Event == "denied":
				d.t.Fatalf("%s: %s", l.Event, l.Message)
			}
		case <-time.After(time.Minute):
			d.t.Fatalf("the client did not report %s", event)
		}
	}
}

func (d *driver) say(line string) {
	d.t.Helper()
	if _, err := io.WriteString(d.in, line+"\n"); err != nil {
		d.t.Fatal(err)
	}
}

// npm pubsubhubbub subscribes, gets every version byte for byte despite a crash of the server,
// and unsubscribes.
func TestForeignWebSubSubscriber(t *testing.T) {
	clitest.NeedNode(t, jsClient)
	s := newTestServer(t, allowLoopback)
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	resp, _ := s.get("HEAD", "/v1/queries/rows/results")
	l := links(resp)
	d := newDriver(t, "pubsubhubbub", "driver/websub.js", l["hub"][0], l["self"][0])
	if got := d.next("subscribe").Topic; got != l["self"][0] {
		t.Errorf("asked about %s", got)
	}
	clitest.Eventually(t, "active", func() bool {
		_, b := s.get("GET", "/v1/subscriptions?state=active")
		return strings.Contains(b, "websub")
	})
	before := ""
	for n := 1; n <= 4; n++ {
		s.step(n)
		f := d.next("feed")
		for f.Body == before { // a delivery that was not recorded before the crash is repeated
			f = d.next("feed")
		}
		_, want := s.get("GET", l["self"][0])
		before = want
		if f.Body != want || f.Type != "application/sparql-results+json" {
			t.Errorf("change %d: got %s %s, want %s", n, f.Type, f.Body, want)
		}
		if n == 2 {
			s.crash()
		}
	}
	d.say("enough")
	d.next("unsubscribe")
	clitest.Eventually(t, "the end", func() bool { _, b := s.get("GET", "/v1/subscriptions"); return !strings.Contains(b, "websub") })
}

// npm standardwebhooks verifies every message. Before the endpoint knows the secret it gets
// only questions. After a rotation both the new and the old secret verify.
func TestForeignWebhookReceiver(t *testing.T) {
	clitest.NeedNode(t, jsClient)
	t.Parallel()
	s := newTestServer(t, allowLoopback)
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	d := newDriver(t, "standardwebhooks", "driver/webhook.js")
	url := d.next("listening").URL
	var made api.Webhook
	if err := json.Unmarshal([]byte(s.must(t, "", "webhook", "add", "--json", "--query", "rows", url)), &made); err != nil {
		t.Fatal(err)
	}
	d.say(made.Secret)
	d.next("webhook.verify") // retried within 5 s if the first came before the secret
	if got := d.next("query.snapshot"); got.Data.Seq != 1 {
		t.Errorf("the first result has seq %d", got.Data.Seq)
	}
	s.step(1)
	if got := d.next("query.changed"); got.Data.Seq != 2 {
		t.Errorf("the change has seq %d", got.Data.Seq)
	}
	secret := strings.TrimSpace(s.must(t, "", "webhook", "rotate", made.ID))
	s.step(2)
	d.next("query.changed") // verified with the old secret
	d.say(secret)
	d.next("secret")
	s.step(3)
	if got := d.next("query.changed"); got.Data.Seq != 4 {
		t.Errorf("the change has seq %d", got.Data.Seq)
	}
	if list := s.must(t, "", "webhook", "list"); !strings.Contains(list, made.ID) || !strings.Contains(list, "active") {
		t.Errorf("webhook list prints\n%s", list)
	}
	s.must(t, "", "subscription", "pause", made.ID)
	s.must(t, "", "subscription", "resume", made.ID)
	s.must(t, "", "webhook", "rm", made.ID)
	if code, _, _ := runCLI(t, s.Env, "", "webhook", "replay", made.ID); code != cli.ExitNotFound {
		t.Errorf("replay of a webhook that is no more: exit code %d", code)
	}
}
