// Package natstest starts embedded servers for tests of journals.
package natstest

import (
	"fmt"
	"net"
	"testing"

	"github.com/freshet/freshet/store/journal/nats"
)

// Token is the token of all servers.
const Token = "test-token"

// Configs returns the configurations of the members n0, n1 … of a cluster, on free ports of the
// loopback interface and with directories of the test. Each also listens for clients.
func Configs(t testing.TB, cluster string, members int) []nats.ServerConfig {
	t.Helper()
	addresses := Free(t, 2*members)
	peers := map[string]string{}
	for i := range members {
		peers[fmt.Sprint("n", i)] = addresses[i]
	}
	list := make([]nats.ServerConfig, members)
	for i := range list {
		list[i] = nats.ServerConfig{
			Cluster: cluster, Node: fmt.Sprint("n", i), Listen: addresses[i], Peers: peers, Clients: addresses[members+i],
			Dir: t.TempDir(), Token: Token, MaxSize: 1 << 30,
		}
	}
	return list
}

// Start starts a server until the end of the test.
func Start(t testing.TB, c nats.ServerConfig) *nats.Server {
	t.Helper()
	s, err := nats.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Free returns addresses with free ports of the loopback interface.
func Free(t testing.TB, n int) (list []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // at the end, so that the ports differ
		list = append(list, l.Addr().String())
	}
	return list
}
