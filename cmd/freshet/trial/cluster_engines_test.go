// Tests of clusters of processes whose journal is kept by other servers: PostgreSQL or NATS.

package trial

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/nats-io/nats.go"

	"github.com/freshet/freshet/cmd/internal/clitest"
	natsjournal "github.com/freshet/freshet/store/journal/nats"
	"github.com/freshet/freshet/store/journal/nats/natstest"
	"github.com/freshet/freshet/store/journal/postgres/postgrestest"
)

// A serving is a cluster that asks its endpoint, with a follower that has seen all changes.
type serving struct {
	t     *testing.T
	e     *countedEndpoint
	nodes map[string]*processNode
	f     *numberFollower
	value int
}

// serve starts a cluster and follows a query at its first node.
func serve(t *testing.T, p clusterPlan, dialer *websocket.Dialer) *serving {
	s := &serving{t: t, e: newCounted(t), value: 1}
	s.e.set(1)
	p.endpoint = s.e.http.URL
	s.nodes = startNodes(t, p)
	for _, n := range s.nodes {
		n.awaitReady(t)
	}
	s.nodes["n2"].registerNumber(t)
	s.f = &numberFollower{t: t, query: "number", dialer: dialer, seen: make(chan string, 100)}
	t.Cleanup(s.f.stop)
	s.f.follow(s.nodes["n1"])
	s.f.expect(1)
	return s
}

// next changes the endpoint's data so many times, and waits for each change.
func (s *serving) next(times int) {
	s.t.Helper()
	for range times {
		s.value++
		s.e.set(s.value)
		s.f.expect(s.value)
	}
}

// killOwner kills the node that asks the endpoint. The other one goes on and loses no change. It
// returns the killed node.
func (s *serving) killOwner() *processNode {
	s.t.Helper()
	owner := ""
	clitest.Eventually(s.t, "the endpoint has an owner", func() bool { owner = s.nodes["n1"].owner(s.t); return owner != "" })
	survivor := s.nodes["n1"]
	if owner == "n1" {
		survivor = s.nodes["n2"]
	}
	s.f.follow(survivor)
	s.next(1)
	s.nodes[owner].Kill()
	s.next(2)
	if now := survivor.owner(s.t); now != survivor.name {
		s.t.Errorf("the endpoint of %s, which is gone, belongs to %q", owner, now)
	}
	return s.nodes[owner]
}

// forwards makes every node answer what only the owner of the endpoint knows.
func (s *serving) forwards() {
	s.t.Helper()
	for name, n := range s.nodes {
		for _, call := range [][2]string{{"POST", "/v1/endpoints/numbers/tick"}, {"GET", "/v1/queries/number/explain"}} {
			clitest.Eventually(s.t, name+" answers "+call[1], func() bool { return n.asks(s.t, call[0], call[1]) })
		}
	}
}

// same expects the same changes at all nodes, each value once.
func (s *serving) same() {
	s.t.Helper()
	want := s.nodes["n1"].changes(s.t, s.f, s.value)
	for name, n := range s.nodes {
		if got := n.changes(s.t, s.f, s.value); got != want || strings.Count(got, `"seq":`) != s.value {
			s.t.Errorf("%s has other changes, or not %d:\n%s\n%s", name, s.value, got, want)
		}
	}
}

func (s *serving) stop() {
	s.t.Helper()
	for _, n := range s.nodes {
		if err := n.Stop(); err != nil {
			s.t.Errorf("%s: %v\n%s", n.name, err, n.Stderr)
		}
	}
}

// move lets a node use another journal from its next start on.
func (n *processNode) move(t *testing.T, from, to string) {
	t.Helper()
	config, err := os.ReadFile(n.config)
	if err == nil {
		err = os.WriteFile(n.config, []byte(strings.ReplaceAll(string(config), from, to)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Two nodes share a journal in PostgreSQL, and call each other over TLS with a private authority.
// The owner of the endpoint is killed, and the other one takes over. A dump of the database that
// is older than the nodes is refused; one that was made after they had stopped continues the cluster.
func TestLongClusterOnPostgreSQL(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	at := addresses(t, "n1", "n2")
	files, trust := privateAuthority(t)
	cert, key, ca := files[0], files[1], files[2]
	s := serve(t, clusterPlan{at: at, more: fmt.Sprintf("tls: {cert: %s, key: %s}\n", cert, key),
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: trust}},
		cluster: func(string) string {
			return fmt.Sprintf("  journal: %q\n  api: {n1: %q, n2: %q}\n  tls: {cert: %s, key: %s, ca: %s}\n", server.URL, "https://"+
				at["n1"], "https://"+at["n2"], cert, key, ca)
		}}, &websocket.Dialer{TLSClientConfig: trust})
	s.next(1)
	s.forwards()
	old := server.Dump(t)
	killed := s.killOwner()
	killed.start(t)
	s.next(1)
	s.same()
	s.stop()

	n1 := s.nodes["n1"]
	outdated := server.Restore(t, "outdated", old)
	n1.move(t, server.URL, outdated)
	if p, err := clitest.TryStart(t, nil, binary(t), "serve", "--config", n1.config); err == nil {
		p.Kill()
		t.Error("a node starts on a journal that lacks what it has applied")
	} else if !strings.Contains(err.Error(), "entries are missing at its end") {
		t.Error(err)
	}
	moved := server.Restore(t, "moved", server.Dump(t))
	n1.move(t, outdated, moved)
	s.nodes["n2"].move(t, server.URL, moved)
	startAll(t, s.nodes)
	for _, n := range s.nodes {
		n.awaitReady(t)
	}
	s.f.follow(s.nodes["n2"]) // from its position
	s.next(1)
	s.same()
	s.stop()
}

// Two nodes are clients of three NATS servers. The owner of the endpoint is killed, then a server,
// and no change is lost. The journal has three replicas.
func TestLongClusterOnNATS(t *testing.T) {
	t.Parallel()
	configs := natstest.Configs(t, "outside", 3)
	var urls []string
	var servers []*natsjournal.Server
	for _, c := range configs {
		c.Token = nodesSecret
		servers = append(servers, natstest.Start(t, c))
		urls = append(urls, "nats://"+c.Clients)
	}
	journal := strings.Join(urls, ",")
	s := serve(t, clusterPlan{at: addresses(t, "n1", "n2"), cluster: func(string) string {
		return fmt.Sprintf("  journal: %q\n  replicas: 3\n", journal)
	}}, nil)
	s.next(1)
	s.forwards()
	killed := s.killOwner()
	if err := servers[0].Close(); err != nil {
		t.Fatal(err)
	}
	s.next(1)
	killed.start(t)
	s.next(1)
	s.same()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j, err := natsjournal.Dial(ctx, strings.Join(urls[1:], ","), natsjournal.Config{Name: "test", Replicas: 3}, nats.Token(nodesSecret))
	if err != nil {
		t.Fatal(err) // such as that it has fewer replicas
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	s.stop()
}

// privateAuthority writes a certificate for 127.0.0.1, its key, and the certificate of the
// authority that signed it. It also returns what a client that trusts the authority uses.
func privateAuthority(t *testing.T) (files []string, trust *tls.Config) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, kind string, der []byte) {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	sign := func(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if parent == nil {
			parent, by = template, key
		}
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		template.BasicConstraintsValid = true
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c, key
	}
	ca, authority := sign(&x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "private authority"},
		IsCA: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	leaf, key := sign(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth}}, ca, authority)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write("cert.pem", "CERTIFICATE", leaf.Raw)
	write("key.pem", "PRIVATE KEY", secret)
	write("ca.pem", "CERTIFICATE", ca.Raw)
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	return slices.Clip(files), &tls.Config{RootCAs: roots}
}
