// Tests of alert rules with Debian's Alertmanager.

package alert_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/loopbacktest"
	"github.com/freshet/freshet/registry"
)

// skipPart skips a test whose part is missing, unless FRESHET_REQUIRE names the part.
func skipPart(t *testing.T, part, remedy string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("FRESHET_REQUIRE"), ","), part) {
		t.Fatalf("%s is required: %s", part, remedy)
	}
	t.Skipf("SKIP-PART %s: %s", part, remedy)
}

// alertmanager starts Alertmanager with a route to a webhook and returns its URL.
func alertmanager(t *testing.T, hook string) string {
	t.Helper()
	program, err := exec.LookPath("prometheus-alertmanager")
	if err != nil {
		if program, err = exec.LookPath("alertmanager"); err != nil {
			skipPart(t, "alertmanager", "apt-get install --no-install-recommends prometheus-alertmanager")
		}
	}
	dir := t.TempDir()
	config := fmt.Sprintf("route: {receiver: hook, group_by: ['...'], group_wait: 10ms, group_interval: 100ms, "+
		"repeat_interval: 1h}\nreceivers: [{name: hook, webhook_configs: [{url: '%s', send_resolved: true}]}]\n", hook)
	if err := os.WriteFile(filepath.Join(dir, "alertmanager.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := loopbacktest.Reserve(t)
	cmd := exec.Command(program, "--config.file", filepath.Join(dir, "alertmanager.yml"), "--storage.path", dir,
		"--web.listen-address", addr, "--cluster.listen-address", "")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s", out.String())
		}
	})
	url := "http://" + addr
	until(t, "Alertmanager", func() bool {
		resp, err := http.Get(url + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return url
}

// An alertmanagerAlert is an alert as Alertmanager lists it.
type alertmanagerAlert struct {
	Labels, Annotations map[string]string
	StartsAt, EndsAt    time.Time
	GeneratorURL        string
}

func listAlerts(t *testing.T, url string) (list []alertmanagerAlert) {
	t.Helper()
	resp, err := http.Get(url + "/api/v2/alerts")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	return list
}

// Alertmanager accepts the alerts, notifies its own receiver once of each, and of its end.
func TestAlertmanager(t *testing.T) {
	var got atomic.Pointer[[]string]
	got.Store(&[]string{})
	hook := newServer(t, func(r *http.Request) int {
		var m struct {
			Status string
			Alerts []struct{ Labels map[string]string }
		}
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			t.Error(err)
		}
		list := slices.Clone(*got.Load())
		for _, a := range m.Alerts {
			list = append(list, m.Status+" "+a.Labels["s"])
		}
		got.Store(&list)
		return http.StatusOK
	})
	url := alertmanager(t, hook)
	r := newRig(t)
	r.stop()
	r.options.Resend = 5 * time.Second // alerts that are not repeated for four times as long end
	r.start()
	q := r.log.Add("late", diff.Select, false)
	r.tick = int(time.Since(time.Unix(1_790_000_000, 0))/time.Minute) - 10 // Alertmanager drops what has ended long ago
	r.record(q, "a=5", "b=11")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", Summary: "?s is ?value late",
		Labels: map[string]string{"s": "?s", "severity": "page"}, To: []registry.Receiver{{Kind: "alertmanager", Address: url + "/"}}})
	until(t, "the alert", func() bool { return len(*got.Load()) == 1 })
	list := listAlerts(t, url)
	if len(list) != 1 || list[0].Annotations["summary"] != "b is 11 late" || list[0].GeneratorURL != "http://fresh.example/queries/"+q {
		t.Fatalf("%+v", list)
	}
	if d := cmp.Diff(map[string]string{"alertname": "late", "s": "b", "severity": "page"}, list[0].Labels); d != "" {
		t.Error(d)
	}
	first := list[0]
	until(t, "a repetition with a later end", func() bool {
		list := listAlerts(t, url)
		return len(list) == 1 && list[0].EndsAt.After(first.EndsAt)
	})
	r.record(q, "a=5", "b=12") // another summary, and no message
	until(t, "the new summary", func() bool {
		list := listAlerts(t, url)
		return len(list) == 1 && list[0].Annotations["summary"] == "b is 12 late"
	})
	r.stop()
	r.start()
	r.record(q, "a=50")
	until(t, "an end and another alert", func() bool { return len(*got.Load()) == 3 })
	seen := slices.Clone(*got.Load())
	slices.Sort(seen)
	if d := cmp.Diff([]string{"firing a", "firing b", "resolved b"}, seen); d != "" {
		t.Error(d)
	}
}

// Many alerts go in few requests.
func TestAlertmanagerBatches(t *testing.T) {
	requests, alerts := atomic.Int32{}, atomic.Int32{}
	url := newServer(t, func(r *http.Request) int {
		var list []map[string]any
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil || r.URL.Path != "/api/v2/alerts" {
			t.Errorf("%s: %v", r.URL, err)
		}
		requests.Add(1)
		alerts.Add(int32(len(list)))
		return http.StatusOK
	})
	r := newRig(t)
	r.stop()
	r.options.Resend = time.Hour
	r.start()
	q := r.log.Add("late", diff.Select, false)
	var rows []string
	for i := range 950 {
		rows = append(rows, fmt.Sprintf("r%d=11", i))
	}
	r.record(q, rows...)
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "alertmanager", Address: url}}})
	until(t, "all alerts", func() bool { return r.rule("late").Receivers[0].Waiting() == 0 })
	if n := requests.Load(); n > 20 || alerts.Load() < 950 {
		t.Errorf("%d alerts in %d requests", alerts.Load(), n)
	}
}
