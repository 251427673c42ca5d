package trial

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
)

// Messages to people are listed and managed as the other ways are: a paused receiver gets
// nothing, is counted, and then gets what waited.
func TestPeopleAreManaged(t *testing.T) {
	s := newTestServer(t, allowLoopback)
	query := strings.TrimSpace(s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-"))
	s.must(t, "", "endpoint", "tick", "city")
	phone := newCallback(t)
	s.must(t, "", "notify", "add", "text+"+phone.http.URL+"/secret-topic", "--query", "rows")
	s.step(1)
	clitest.Eventually(t, "the first message", func() bool { return len(phone.all("/secret-topic")) == 1 })
	x := s.subscriptions(t)["notify"]
	if x.Query != query || x.Caller != "anonymous" || x.State != "active" {
		t.Errorf("listed as %+v", x)
	}
	if out := s.must(t, "", "subscription", "show", x.ID); strings.Contains(out, "secret-topic") {
		t.Errorf("the address is shown: %s", out)
	}

	s.must(t, "", "subscription", "pause", x.ID)
	s.step(2)
	s.step(3)
	time.Sleep(200 * time.Millisecond)
	m := s.metrics()
	if n := len(phone.all("/secret-topic")); n != 1 || m[`freshet_waiting_changes{way="notify"}`] != 2 ||
		m[`freshet_subscriptions{state="paused",way="notify"}`] != 1 {
		t.Errorf("paused: %d messages, %v changes wait", n, m[`freshet_waiting_changes{way="notify"}`])
	}
	s.must(t, "", "subscription", "resume", x.ID)
	clitest.Eventually(t, "what waited", func() bool {
		text := ""
		for _, got := range phone.all("/secret-topic")[1:] {
			text += got.body
		}
		return strings.Contains(text, "2 ") && strings.Contains(text, "3 ")
	})
	clitest.Eventually(t, "deliveries that are counted", func() bool {
		m = s.metrics()
		n := float64(len(phone.all("/secret-topic")))
		return m[`freshet_waiting_changes{way="notify"}`] == 0 && m[`freshet_deliveries_total{result="delivered",way="notify"}`] == n &&
			m[`freshet_notify_messages_total{result="delivered",service="text"}`] == n
	})
	s.must(t, "", "subscription", "drop", x.ID)
	clitest.Eventually(t, "no subscription is left", func() bool { return len(s.subscriptions(t)) == 0 })
	if code, _, _ := runCLI(t, s.Env, "", "subscription", "show", x.ID); code != cli.ExitNotFound {
		t.Errorf("one that is dropped is shown: %d", code)
	}
}
