package nats_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/journaltest"
	"github.com/freshet/freshet/store/journal/nats"
	"github.com/freshet/freshet/store/journal/nats/natstest"
	client "github.com/nats-io/nats.go"
)

// certificate returns the TLS configuration of members with an authority of their own.
func certificate(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "freshet"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, RootCAs: pool, ClientCAs: pool}
}

// TestTLS runs members with TLS, with and without a port for clients, and keeps strangers out.
func TestTLS(t *testing.T) {
	configs := natstest.Configs(t, "tls", 3)
	ours := certificate(t)
	var servers []*nats.Server
	for i := range configs {
		configs[i].TLS = ours
		if i > 0 {
			configs[i].Clients = ""
		}
	}
	for _, c := range configs {
		servers = append(servers, natstest.Start(t, c))
	}
	c := nats.Config{Name: "tls"}
	for _, s := range servers[:2] {
		j := open(t, s, c)
		defer j.Close()
		if _, err := j.Append(t.Context(), "id", nil); err != nil {
			t.Fatal(err)
		}
	}
	outside := "nats://" + configs[0].Clients
	if _, err := client.Connect(outside, client.Token(natstest.Token), client.Timeout(time.Minute)); err == nil {
		t.Error("a client without TLS is let in")
	}
	gateway, err := nats.Dial(t.Context(), outside, nats.Config{Name: "tls"}, client.Token(natstest.Token), client.Secure(ours),
		client.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer gateway.Close()
	journaltest.Take(t, gateway, journal.Position{}, 1)

	for name, alter := range map[string]func(c *nats.ServerConfig){
		"another token":       func(c *nats.ServerConfig) { c.Token = "other" },
		"another cluster":     func(c *nats.ServerConfig) { c.Cluster = "other" },
		"another certificate": func(c *nats.ServerConfig) { c.TLS = certificate(t) },
		"no TLS":              func(c *nats.ServerConfig) { c.TLS = nil },
	} {
		stranger := natstest.Configs(t, "tls", 1)[0]
		stranger.Node, stranger.TLS = "stranger", ours
		stranger.Peers = map[string]string{"stranger": stranger.Listen, "n0": configs[0].Listen, "n1": configs[1].Listen}
		alter(&stranger)
		s, err := nats.Start(stranger)
		if err != nil {
			t.Fatal(err)
		}
		nc, err := s.Connect()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if _, err := nats.Open(ctx, nc, c); err == nil {
			t.Errorf("%s: a stranger has the journal", name)
		}
		cancel()
		nc.Close()
		// A member counts for the stranger until it has refused the stranger, which tries each second.
		for end := time.Now().Add(time.Minute); s.Members() > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: a stranger is connected %d times", name, s.Members())
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRestart stops a single server and starts it again: ids and positions remain.
func TestRestart(t *testing.T) {
	config := natstest.Configs(t, "one", 1)[0]
	config.Clients = ""
	var last journal.Entry
	for run := range 3 {
		s, err := nats.Start(config)
		if err != nil {
			t.Fatal(err)
		}
		j := open(t, s, nats.Config{Name: "one"})
		if seq, err := j.Append(t.Context(), "same", []byte{byte(run)}); err != nil || seq != 1 {
			t.Errorf("run %d: the same id is entry %d, %v", run, seq, err)
		}
		if seq, err := j.Append(t.Context(), string(rune('a'+run)), nil); err != nil || seq != uint64(run+2) {
			t.Errorf("run %d: entry %d, %v", run, seq, err)
		}
		list := journaltest.Take(t, j, last.Position, 1)
		last = list[0]
		if run > 0 {
			journaltest.CheckChain(t, journal.Position{Seq: last.Seq - 1, Hash: last.Prev}, list)
		} else {
			last = journaltest.Take(t, j, last.Position, 1)[0]
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDamagedSnapshot damages the snapshot of a member. Its server then keeps no entries, and still
// answers with those of the others, so the node must not go on as if it were a full member.
func TestDamagedSnapshot(t *testing.T) {
	configs := natstest.Configs(t, "snap", 3)
	var servers []*nats.Server
	for _, c := range configs[:2] {
		servers = append(servers, natstest.Start(t, c))
	}
	member, err := nats.Start(configs[2])
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := nats.Config{Name: "snap", Own: member, Patience: time.Second}, nats.Config{Name: "snap"}
	j := open(t, member, ours)
	if _, err := j.Append(t.Context(), "first", []byte("x")); err != nil {
		t.Fatal(err)
	}
	journaltest.Take(t, j, journal.Position{}, 1)
	snapshots := func() []string {
		files, err := filepath.Glob(filepath.Join(configs[2].Dir, "jetstream", "*", "_js_", "S-*", "snapshots", "snap.*"))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	for end := time.Now().Add(time.Minute); len(snapshots()) == 0; time.Sleep(50 * time.Millisecond) {
		if err := member.Snapshot("snap"); time.Now().After(end) { // it works once the entry is applied
			t.Fatalf("no snapshot: %v", err)
		}
	}
	if err := errors.Join(j.Close(), member.Close()); err != nil {
		t.Fatal(err)
	}
	for _, file := range snapshots() {
		if err := os.Truncate(file, 20); err != nil {
			t.Fatal(err)
		}
	}
	other := open(t, servers[0], theirs)
	defer other.Close()
	if _, err := other.Append(t.Context(), "second", []byte("y")); err != nil {
		t.Errorf("the others do not go on: %v", err)
	}
	if member, err = nats.Start(configs[2]); err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	ours.Own = member
	if j, err = tryOpen(t, member, ours); err == nil { // the damage may be known already
		defer j.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = j.Read(ctx, journal.Position{}, func(journal.Entry) error { return nil })
	}
	if !errors.Is(err, journal.ErrUnreadable) || !strings.Contains(err.Error(), "freshet cluster rebuild") {
		t.Errorf("the damaged member reads on: %v", err)
	}
}

// TestFiveMembers stops two of five members that keep a journal, which was begun by a member or by a client that keeps three
// copies. The others go on.
func TestFiveMembers(t *testing.T) {
	for name, first := range map[string]int{"begun by a member": 0, "begun with three copies": 3} {
		t.Run(name, func(t *testing.T) {
			configs := natstest.Configs(t, "five", 5)
			var servers []*nats.Server
			for _, c := range configs {
				s, err := nats.Start(c)
				if err != nil {
					t.Fatal(err)
				}
				servers = append(servers, s)
			}
			if first > 0 {
				if err := dial(t, "nats://"+configs[0].Clients, nats.Config{Name: "five", Replicas: first}).Close(); err != nil {
					t.Error(err)
				}
			}
			var last *nats.Journal
			for _, s := range servers {
				j := open(t, s, nats.Config{Name: "five", Own: s})
				defer j.Close()
				last = j
			}
			if _, err := last.Append(t.Context(), "before", nil); err != nil {
				t.Fatal(err)
			}
			// The copies on members that begin later are complete after a moment.
			complete := func(s *nats.Server) bool { return s.Copy("five").LastSeq > 0 }
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				if !slices.ContainsFunc(servers, func(s *nats.Server) bool { return !complete(s) }) {
					break
				}
			}
			stopped := 0
			for _, s := range servers[:4] {
				if stopped == 2 || !complete(s) {
					defer s.Close()
				} else if err := s.Close(); err != nil {
					t.Error(err)
				} else {
					stopped++
				}
			}
			defer servers[4].Close()
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			defer cancel()
			if _, err := last.Append(ctx, "after", nil); err != nil {
				t.Errorf("without %d members: %v", stopped, err)
			}
		})
	}
}

// TestFewCopies starts a member of five that does not keep the journal, because three do, while the others have not heard from the
// fifth one since their start. The journal cannot be extended then, and the member goes on.
func TestFewCopies(t *testing.T) {
	var log lockedBuffer
	configs := natstest.Configs(t, "few", 5)
	var servers []*nats.Server
	urls := ""
	for _, c := range configs {
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		s, err := nats.Start(c)
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, s)
		urls += ",nats://" + c.Clients
	}
	gateway := dial(t, urls[1:], nats.Config{Name: "few"})
	_, err := gateway.Append(t.Context(), "first", nil)
	if err := errors.Join(err, gateway.Close()); err != nil {
		t.Fatal(err)
	}
	var keepers, others []nats.ServerConfig
	for end := time.Now().Add(time.Minute); len(keepers) < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d members keep the journal", len(keepers))
		}
		keepers, others = nil, nil
		for i, s := range servers {
			if s.Copy("few").LastSeq > 0 {
				keepers = append(keepers, configs[i])
			} else {
				others = append(others, configs[i])
			}
		}
	}
	for _, s := range servers {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range keepers {
		natstest.Start(t, c)
	}
	log.take()
	others[0].Log = slog.New(slog.NewTextHandler(&log, nil))
	member := natstest.Start(t, others[0])
	j := open(t, member, nats.Config{Name: "few", Own: member, Patience: time.Millisecond})
	defer j.Close()
	journaltest.Take(t, j, journal.Position{}, 1)
	for range 100 {
		if err := j.Look(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := j.Append(t.Context(), "second", nil); err != nil {
		t.Error(err)
	}
	if text := log.take(); !strings.Contains(text, "too few members keep the journal") {
		t.Errorf("no warning:\n%s", text)
	}
}

// TestUnknownStream asks servers that do not know the stream, as a member does that begins with an
// empty directory. It counts as missing entries only after the patience.
func TestUnknownStream(t *testing.T) {
	config := natstest.Configs(t, "none", 1)[0]
	config.Clients = ""
	s := natstest.Start(t, config)
	patient, hasty := open(t, s, nats.Config{Name: "none", Patience: time.Hour}), open(t, s, nats.Config{Name: "none", Patience: 1})
	defer patient.Close()
	defer hasty.Close()
	for range 3 {
		if err := patient.Forget(t.Context()); err == nil || errors.Is(err, journal.ErrDamaged) {
			t.Fatalf("at once: %v", err)
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		err := hasty.Forget(t.Context())
		if errors.Is(err, journal.ErrShortened) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after the patience: %v", err)
		}
	}
}

// TestAddressInUse checks that an address in use is reported with its setting.
func TestAddressInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for setting, alter := range map[string]func(c *nats.ServerConfig){
		"cluster.listen":  func(c *nats.ServerConfig) { c.Listen = l.Addr().String() },
		"cluster.clients": func(c *nats.ServerConfig) { c.Clients = l.Addr().String() },
	} {
		c := natstest.Configs(t, "used", 3)[0]
		alter(&c)
		s, err := nats.Start(c)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.HasPrefix(err.Error(), setting+": ") || !strings.Contains(err.Error(), "in use") {
			t.Errorf("%s: %v", setting, err)
		}
	}
}

// TestReplicas asks servers for more copies than they can keep. The error names the setting.
func TestReplicas(t *testing.T) {
	for name, x := range map[string]struct{ servers, replicas int }{
		"a server alone": {1, 3},
		"a cluster":      {3, 5},
	} {
		t.Run(name, func(t *testing.T) {
			configs := natstest.Configs(t, "replicas", x.servers)
			for _, c := range configs {
				natstest.Start(t, c)
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			last := errors.New("none")
			waits := func(err error) {
				if last = err; strings.Contains(err.Error(), "cluster.replicas") {
					stop()
				}
			}
			j, err := nats.Dial(ctx, "nats://"+configs[0].Clients, nats.Config{Name: "replicas", Replicas: x.replicas, Waits: waits},
				client.Token(natstest.Token))
			if err == nil {
				defer j.Close()
			}
			if err == nil || !strings.Contains(err.Error(), "cluster.replicas") || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, and the last one while it waited was: %v", err, last)
			}
		})
	}
}

// TestServerConfig checks that errors name the setting.
func TestServerConfig(t *testing.T) {
	good := natstest.Configs(t, "config", 3)[0]
	for want, alter := range map[string]func(c *nats.ServerConfig){
		"cluster.listen":  func(c *nats.ServerConfig) { c.Listen = "127.0.0.1" },
		"cluster.clients": func(c *nats.ServerConfig) { c.Clients = "7" },
	} {
		c := good
		alter(&c)
		s, err := nats.Start(c)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, name := range []string{"", "a.b"} {
		if _, err := nats.Open(t.Context(), nil, nats.Config{Name: name}); err == nil || !strings.Contains(err.Error(), "cluster.name") {
			t.Errorf("name %q: %v", name, err)
		}
	}
}

// What a server says about other members is a warning, once in a while for each of them.
func TestLog(t *testing.T) {
	var started, text lockedBuffer
	config := natstest.Configs(t, "alone", 3)[0]
	config.Log = slog.New(slog.NewTextHandler(&started, nil))
	natstest.Start(t, config)
	seen := ""
	for end := time.Now().Add(time.Minute); !strings.Contains(seen, "connect: connection refused"); time.Sleep(time.Millisecond) {
		if seen += started.take(); time.Now().After(end) {
			t.Fatalf("the server does not say that it reaches no other member:\n%s", seen)
		}
	}
	l := nats.NewLogger(slog.New(slog.NewTextHandler(&text, nil)))
	say := func(want int, what string) {
		t.Helper()
		for i := range 9 {
			l.Errorf("%s - Route Error %s", fmt.Sprint(what, " - rid:", i), "'Authorization Violation'")
			l.Warnf("JetStream cluster stream '%s > %s' has NO quorum, stalled", what, "b")
		}
		if got := text.take(); strings.Count(got, "level=WARN") != want || strings.Count(got, "level=") != want {
			t.Errorf("%s, and that repeated, is logged as\n%s", what, got)
		}
	}
	say(2, "member")
	say(0, "member")
	say(2, "another")
	nats.Later(l)
	say(2, "member")
}

// What a server says while it stops is for debugging.
func TestStopIsQuiet(t *testing.T) {
	var text lockedBuffer
	configs := natstest.Configs(t, "quiet", 3)
	configs[2].Log = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, c := range configs[:2] {
		natstest.Start(t, c)
	}
	s, err := nats.Start(configs[2])
	if err != nil {
		t.Fatal(err)
	}
	j := open(t, s, nats.Config{Name: "quiet"})
	text.take()
	if err := errors.Join(j.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if got := text.take(); strings.Contains(got, "level=WARN") || !strings.Contains(got, "level=DEBUG") {
		t.Errorf("a stop is logged as\n%s", got)
	}
}

// A node that starts while the stream gets another leader asks again, whichever answer is lost.
func TestLostAnswersAtTheStart(t *testing.T) {
	member := natstest.Start(t, natstest.Configs(t, "start", 1)[0])
	j, err := tryOpen(t, member, nats.Config{Name: "start", Own: member})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for number := 1; number <= 3; number++ { // the third one is lost after the start
		if err := j.CreateWithLoss(t.Context(), number); err != nil {
			t.Errorf("the answer to request %d is lost: %v", number, err)
		}
	}
}
