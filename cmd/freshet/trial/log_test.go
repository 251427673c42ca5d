package trial

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// A logLine is one line of the log in JSON.
type logLine map[string]any

func logLines(t *testing.T, text string) (lines []logLine) {
	t.Helper()
	for _, l := range strings.Split(text, "\n") {
		var x logLine
		if !strings.HasPrefix(l, "{") {
			continue
		}
		if err := json.Unmarshal([]byte(l), &x); err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		lines = append(lines, x)
	}
	return lines
}

// first returns the first line with a message and an endpoint, nil if there is none.
func first(lines []logLine, message string) logLine {
	for _, l := range lines {
		if l["msg"] == message {
			return l
		}
	}
	return nil
}

// The log records what a server does: what started, an endpoint that begins to fail, with its
// error, and recovers, slots with their executions, and why and how the server stopped. Empty
// slots have level debug. Durations are numbers of seconds.
func TestLogTellsWhatHappened(t *testing.T) {
	var broken atomic.Bool
	ep := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<title>Maintenance</title>")
			return
		}
		w.Header().Set("Content-Type", "application/sparql-results+json")
		io.WriteString(w, `{"head":{},"boolean":true}`)
	}))
	t.Cleanup(ep.Close)
	e := toEdit(t, ep.URL)
	e.Kill()
	e.yaml = strings.Replace(e.yaml, "slot: never", "budget: 1s, slot: '@every 1s'", 1) + "log: {level: debug, format: json}\n"
	e.begin(t)
	wait := func(message string) logLine {
		t.Helper()
		var l logLine
		clitest.Eventually(t, message, func() bool { l = first(logLines(t, e.Stderr.String()), message); return l != nil })
		return l
	}
	started := wait("started")
	version, err := exec.Command(binary(t), "version").Output()
	if err != nil || !strings.HasPrefix(string(version), fmt.Sprintf("freshet %s (", started["version"])) ||
		started["endpoints"] != 1.0 || started["queries"] != 0.0 ||
		started["data"] != e.data || started["listen"] != e.addr ||
		!strings.HasSuffix(started["config"].(string), "freshet.yaml") {
		t.Errorf("at the start: %v, %v, %s", started, err, version)
	}
	if slot := wait("slot"); slot["level"] != "DEBUG" || slot["run"] != 0.0 {
		t.Errorf("an empty slot: %v", slot)
	}
	broken.Store(true)
	for _, text := range []string{"ASK { ?s ?p 1 }", "ASK { ?s ?p 2 }", "ASK { ?s ?p 3 }", "ASK { ?s ?p 4 }", "ASK { ?s ?p 5 }",
		"ASK { ?s ?p 6 }"} {
		e.add(t, text)
	}
	if l := wait("the endpoint fails"); l["level"] != "WARN" || l["endpoint"] != "city" || !strings.Contains(l["error"].(string),
		"text/html") {
		t.Errorf("it begins to fail: %v", l)
	}
	broken.Store(false)
	e.add(t, "ASK { ?s ?p 7 }") // the other queries do not run for a while
	if l := wait("the endpoint has recovered"); l["level"] != "INFO" || l["down_seconds"].(float64) <= 0 {
		t.Errorf("it recovers: %v", l)
	}
	answer, err := http.Post("http://"+e.addr+"/v1/endpoints", "application/json",
		strings.NewReader(`{"name": "twin", "slot": "never", "url": "`+ep.URL+`"}`))
	if err != nil || answer.StatusCode != http.StatusCreated {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	const same = "endpoints have the same URL: each has a budget of its own, so their service is asked for the sum"
	if l := wait(same); l["level"] != "WARN" || l["endpoints"] != "city twin" {
		t.Errorf("a second endpoint with the URL: %v", l)
	}
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
	lines := logLines(t, e.Stderr.String())
	if l := first(lines, "stopping"); l == nil || !strings.Contains(l["reason"].(string), "terminated") {
		t.Errorf("it stops: %v", l)
	}
	if l := first(lines, "stopped"); l == nil || l["took_seconds"].(float64) < 0 {
		t.Errorf("it has stopped: %v", l)
	}
	for _, l := range lines {
		for key, v := range l {
			if text, ok := v.(string); ok && isDuration(text) || regexp.MustCompile(`^(took|elapsed|used|after|down|wait)$`).MatchString(key) {
				t.Errorf("%s is %v: durations are numbers of seconds under a key that says so: %v", key, v, l)
			}
		}
		if l["msg"] == "slot" && l["level"] == "INFO" && l["run"] == 0.0 && l["skipped"] == 0.0 && l["tick"] == false {
			t.Errorf("an empty slot: %v", l)
		}
	}
}

func isDuration(text string) bool {
	_, err := time.ParseDuration(text)
	return err == nil && text != "0"
}
