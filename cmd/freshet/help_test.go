package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/registry"
)

// Every command shows examples that its own flags and arguments accept, and supports JSON
// output.
func TestExamplesAndJSON(t *testing.T) { clitest.CheckCommands(t, newRoot) }

// The demo prints its changes in the words of the API and ends with exit code 0.
func TestDemo(t *testing.T) {
	clitest.NeedEngine(t)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	p := clitest.StartTo(t, out, binary(t), "demo", "--listen", "127.0.0.1:0", "--slot", "@every 1s", "--every", "500ms", "--json")
	forms, changes := map[string]bool{}, 0
	clitest.Eventually(t, "changes of results", func() bool {
		text, err := os.ReadFile(out.Name())
		if err != nil {
			t.Fatal(err)
		}
		changes = 0
		for line := range strings.Lines(string(text)) {
			var c struct {
				Query, Form, Epoch string
				Seq                uint64
				Baseline           bool
			}
			if !strings.HasSuffix(line, "\n") {
				break // the line is incomplete so far
			}
			if err := json.Unmarshal([]byte(line), &c); err != nil || c.Query == "" || c.Epoch == "" || c.Seq == 0 {
				t.Fatalf("%v: %s", err, line)
			}
			forms[c.Form] = true
			if !c.Baseline {
				changes++
			}
		}
		return changes > 2
	})
	for _, form := range []string{"SELECT", "ASK", "CONSTRUCT", "DESCRIBE"} {
		if !forms[form] {
			t.Errorf("no sample query is a %s", form)
		}
	}
	// The pages of the demo have content: three endpoints, one of which cannot run everything, a
	// follower and a webhook that receives messages.
	read := func(path string, into any) {
		a, err := http.Get(p.Url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		if err := json.NewDecoder(a.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	clitest.Eventually(t, "a follower, a webhook and a tight budget", func() bool {
		var ways struct {
			Subscriptions []struct {
				Way        string
				Deliveries int
			}
		}
		var slots struct{ Slots []struct{ Skipped int } }
		var endpoints struct{ Endpoints []struct{ Name string } }
		read("/v1/subscriptions", &ways)
		read("/v1/endpoints/archive/slots?limit=3", &slots)
		read("/v1/endpoints", &endpoints)
		served := map[string]bool{}
		for _, s := range ways.Subscriptions {
			served[s.Way] = s.Deliveries > 0
		}
		tight := false
		for _, s := range slots.Slots {
			tight = tight || s.Skipped > 0
		}
		return len(endpoints.Endpoints) == 3 && served["websocket"] && served["webhook"] && tight
	})
	var status struct{ Results, Starting int }
	read("/v1/status", &status)
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("living data, %d queries:", status.Results); status.Starting > 0 || !strings.Contains(string(readme), want) {
		t.Errorf("README.md does not say %q, %+v", want, status)
	}
	if err := p.Stop(); err != nil {
		t.Errorf("it ended with %v\n%s", err, p.Stderr)
	}
}

// The demo of a cluster has three nodes that know each other and the same queries. It ends in
// order and leaves nothing behind.
func TestDemoNodes(t *testing.T) {
	clitest.NeedEngine(t)
	bin := binary(t) // shared by all tests: it is not built in this test's directory
	t.Setenv("TMPDIR", t.TempDir())
	p := clitest.Start(t, bin, "demo", "--nodes", "3", "--listen", "127.0.0.1:0", "--slot", "@every 1s", "--every", "500ms", "--quiet")
	var s registry.ClusterStatus
	clitest.Eventually(t, "three nodes that live", func() bool {
		code, out, stderr := runCLI(t, map[string]string{"FRESHET_SERVER": p.Url}, "", "cluster", "status", "--json")
		if code != 0 || json.Unmarshal([]byte(out), &s) != nil {
			t.Fatalf("%d %s%s", code, out, stderr)
		}
		ready := 0
		for _, n := range s.Nodes {
			if n.State == registry.NodeReady {
				ready++
			}
		}
		return ready == 3
	})
	for _, n := range s.Nodes {
		if !strings.Contains(p.Stderr.String(), n.Name+"  "+n.API) {
			t.Errorf("%s at %s is not shown:\n%s", n.Name, n.API, p.Stderr)
		}
		clitest.Eventually(t, "a result at "+n.Name, func() bool {
			a, err := http.Get(n.API + "/v1/queries/departures-central/changes/latest")
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			return a.StatusCode == http.StatusOK
		})
	}
	if err := p.Stop(); err != nil {
		t.Errorf("it ended with %v\n%s", err, p.Stderr)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "freshet-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// A terminal that is closed ends the demo like an interrupt.
func TestDemoWithoutTerminal(t *testing.T) {
	clitest.NeedEngine(t)
	bin := binary(t) // shared by all tests: it is not built in this test's directory
	t.Setenv("TMPDIR", t.TempDir())
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // a command started under nohup would ignore it
	defer signal.Stop(hangup)
	p := clitest.Start(t, bin, "demo", "--listen", "127.0.0.1:0", "--quiet")
	if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-p.Ended
	if p.Err != nil {
		t.Errorf("it ended with %v\n%s", p.Err, p.Stderr)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "freshet-demo-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// A reader that closes the pipe, such as head, ends the demo like an interrupt. No process
// remains.
func TestDemoWithoutReader(t *testing.T) {
	clitest.NeedEngine(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	bin := binary(t) // shared by all tests: it is not built in this test's directory
	t.Setenv("TMPDIR", t.TempDir())
	p := clitest.StartTo(t, w, bin, "demo", "--listen", "127.0.0.1:0", "--slot", "@every 1s", "--every", "500ms")
	w.Close()
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.Close()
	<-p.Ended
	if p.Err != nil {
		t.Errorf("it ended with %v\n%s", p.Err, p.Stderr)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "freshet-demo-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// Clients that do not wait for their answers do not end the demo.
func TestDemoOutlivesClients(t *testing.T) {
	clitest.NeedEngine(t)
	bin := binary(t) // shared by all tests: it is not built in this test's directory
	t.Setenv("TMPDIR", t.TempDir())
	p := clitest.Start(t, bin, "demo", "--listen", "127.0.0.1:0", "--quiet")
	at := strings.TrimPrefix(p.Url, "http://")
	for i := range 200 {
		c, err := net.Dial("tcp", at)
		if err == nil {
			_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+at+"\r\n\r\n")
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, p.Stderr)
		}
		time.Sleep(time.Duration(i%10) * 100 * time.Microsecond)
		c.Close() // all but the first write of the answer find the connection broken
	}
	resp, err := http.Get(p.Url)
	if err != nil {
		t.Fatalf("%v\n%s", err, p.Stderr)
	}
	resp.Body.Close()
	if err := p.Stop(); err != nil {
		t.Errorf("it ended with %v\n%s", err, p.Stderr)
	}
}
