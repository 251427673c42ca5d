package nats_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/journaltest"
	"github.com/freshet/freshet/store/journal/nats"
	"github.com/freshet/freshet/store/journal/nats/natstest"
	client "github.com/nats-io/nats.go"
)

// childConfig has the configuration of the server that the test binary runs as a child process.
const childConfig = "FRESHET_JOURNAL_CHILD"

func TestMain(m *testing.M) {
	if text := os.Getenv(childConfig); text != "" {
		var c nats.ServerConfig
		err := json.Unmarshal([]byte(text), &c)
		if err == nil {
			_, err = nats.Start(c)
		}
		fmt.Println("started:", err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent ends
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func open(t testing.TB, s *nats.Server, c nats.Config) *nats.Journal {
	t.Helper()
	j, err := tryOpen(t, s, c)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func tryOpen(t testing.TB, s *nats.Server, c nats.Config) (*nats.Journal, error) {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c.Replicas = s.Replicas()
	return nats.Open(ctx, nc, c)
}

func dial(t testing.TB, url string, c nats.Config, options ...client.Option) *nats.Journal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j, err := nats.Dial(ctx, url, c, append(options, client.Token(natstest.Token))...)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// TestContract runs the contract on three servers in this process.
func TestContract(t *testing.T) {
	configs := natstest.Configs(t, "test", 3)
	var servers []*nats.Server
	for _, c := range configs {
		servers = append(servers, natstest.Start(t, c))
	}
	journals := 0
	journaltest.Run(t, func(*testing.T) journaltest.Rig {
		journals++
		c := nats.Config{Name: fmt.Sprint("test-", journals), Patience: 2 * time.Second}
		return journaltest.Rig{
			Name: c.Name,
			Open: func(t testing.TB, node int) journal.Journal {
				if node == 1 { // as a gateway, which is a client of the members
					return dial(t, "nats://"+configs[1].Clients, c)
				}
				return open(t, servers[node], c)
			},
			Stall: func(t testing.TB) (j journal.Journal, stall, resume func()) {
				p := journaltest.NewProxy(t, configs[1].Clients)
				return dial(t, "nats://"+p.Addr, c), p.Stall, p.Resume
			},
			Rewrite: func(t testing.TB, f func([]journal.Entry) []journal.Entry) {
				j := open(t, servers[0], c)
				defer j.Close()
				// Without a deadline, each request of the client has 5 s.
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := j.Rewrite(ctx, f); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
	t.Run("LostAnswers", func(t *testing.T) {
		p := journaltest.NewProxy(t, configs[0].Clients)
		c := nats.Config{Name: "lost"}
		j := open(t, servers[1], c)
		defer j.Close()
		proxied := dial(t, "nats://"+p.Addr, c)
		defer proxied.Close()
		journaltest.LostAnswers(t, c.Name, proxied, j, p)
	})
	t.Run("Hang", func(t *testing.T) { // the first server of two stops without an end of its connections
		p := journaltest.NewProxy(t, configs[0].Clients)
		j := dial(t, "nats://"+p.Addr+",nats://"+configs[1].Clients, nats.Config{Name: "hangs"}, client.DontRandomize())
		defer j.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // ten seconds would do on a machine that is idle
		defer cancel()
		for _, id := range []string{"before", "after"} {
			if _, err := j.Append(ctx, id, nil); err != nil {
				t.Fatalf("append %s: %v", id, err)
			}
			p.Hang()
		}
	})
	t.Run("WriterDies", func(t *testing.T) {
		c := nats.Config{Name: "dies"}
		j := open(t, servers[0], c)
		defer j.Close()
		dying := dial(t, "nats://"+configs[1].Clients, c)
		defer dying.Close()
		if err := dying.BeginLarge(t.Context(), "half", 3<<20); err != nil {
			t.Fatal(err)
		}
		for i, id := range []string{"one", "half", "two"} {
			if seq, err := j.Append(t.Context(), id, []byte(id)); err != nil || seq != uint64(i+1) {
				t.Errorf("append %s: %d, %v", id, seq, err)
			}
		}
		for _, e := range journaltest.Take(t, j, journal.Position{}, 3) {
			if string(e.Command) != e.ID {
				t.Errorf("entry %d is %s with %d bytes", e.Seq, e.ID, len(e.Command))
			}
		}
	})
	t.Run("Elections", func(t *testing.T) { elections(t, servers) })
	t.Run("Strangers", func(t *testing.T) {
		_, err := client.Connect("nats://"+configs[0].Clients, client.Token("wrong"), client.Timeout(time.Minute))
		if !errors.Is(err, client.ErrAuthorization) {
			t.Errorf("a client with another token: %v", err)
		}
	})
}

// elections expects that no command is lost, and none is two entries, while the journal gets other leaders.
func elections(t *testing.T, servers []*nats.Server) {
	c := nats.Config{Name: "elects"}
	writer, reader := open(t, servers[0], c), open(t, servers[1], c)
	defer writer.Close()
	defer reader.Close()
	const entries = 60
	read := make(chan []journal.Entry)
	go func() { read <- journaltest.Take(t, reader, journal.Position{}, entries) }()
	for i := range entries {
		if i%10 == 9 {
			_ = reader.Lead(t.Context(), []string{"n0", "n1", "n2"}[i/10%3]) // its error says who leads
		}
		if seq, err := writer.Append(t.Context(), fmt.Sprint("e-", i), nil); err != nil || seq != uint64(i+1) {
			t.Fatalf("command %d: %d, %v", i, seq, err)
		}
	}
	journaltest.CheckChain(t, journal.Genesis(c.Name), <-read)
}

// What is missing is looked for again and again before it counts. The time in which a process is stopped
// does not count.
func TestAbsence(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const patience = 20 * time.Second
		for what, test := range map[string]struct{ pause, stop, want time.Duration }{
			"looks in a second":       {time.Second, 0, patience},
			"looks in ten seconds":    {10 * time.Second, 0, 200 * time.Second},
			"looks in 100 ms":         {100 * time.Millisecond, 0, patience},
			"stopped after each look": {time.Second, time.Hour, patience + 20*time.Hour},
		} {
			var a nats.Absence
			began := time.Now()
			for !a.Outlasts(patience) {
				time.Sleep(test.pause + test.stop)
			}
			if took := time.Since(began); took != test.want {
				t.Errorf("%s: it counts after %v, want %v", what, took, test.want)
			}
		}
	})
}

// A member is a server as a process.
type member struct {
	config nats.ServerConfig
	cmd    *exec.Cmd
}

func (m *member) start(t *testing.T) {
	t.Helper()
	text, err := json.Marshal(m.config)
	if err != nil {
		t.Fatal(err)
	}
	m.cmd = exec.Command(os.Args[0])
	m.cmd.Env = append(os.Environ(), childConfig+"="+string(text))
	m.cmd.Stderr = os.Stderr
	_, err = m.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := m.cmd.StdoutPipe()
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); !strings.HasPrefix(line, "started: <nil>") {
		t.Fatalf("%s %v", line, err)
	}
}

// kill ends the process as kill -9 does.
func (m *member) kill(t *testing.T) {
	t.Helper()
	if err := m.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = m.cmd.Wait() // returns the error of the kill
}

// TestKill kills members that are processes. With two of three the journal goes on; with one it
// refuses commands, which are entries once a majority is back.
func TestKill(t *testing.T) {
	configs := natstest.Configs(t, "kill", 3)
	var members []*member
	urls := ""
	for _, c := range configs {
		m := &member{config: c}
		m.start(t)
		members = append(members, m)
		urls += ",nats://" + c.Clients
	}
	t.Cleanup(func() {
		for _, m := range members {
			m.kill(t)
		}
	})
	j := dial(t, urls[1:], nats.Config{Name: "kill"})
	defer j.Close()
	next := 0
	add := func(n int) {
		t.Helper()
		for range n {
			next++
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			seq, err := j.Append(ctx, fmt.Sprint("kill-", next), nil)
			cancel()
			if err != nil || seq != uint64(next) {
				t.Fatalf("command %d: %d, %v", next, seq, err)
			}
		}
	}
	read := make(chan []journal.Entry)
	go func() { read <- journaltest.Take(t, j, journal.Position{}, 32) }()
	add(10)
	members[0].kill(t)
	add(10)
	members[1].kill(t)
	next++
	for tried := false; !tried; {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		seq, err := j.Append(ctx, fmt.Sprint("kill-", next), nil)
		cancel()
		if tried = errors.Is(err, journal.ErrUnknown); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a command without a majority: %d, %v", seq, err)
		}
	}
	members[0].start(t)
	next-- // the same id again
	add(6)
	members[1].start(t)
	add(6)
	list := <-read
	journaltest.CheckChain(t, journal.Genesis("kill"), list)
	for i, e := range list {
		if e.ID != fmt.Sprint("kill-", i+1) {
			t.Errorf("entry %d is %s", e.Seq, e.ID)
		}
	}
}
