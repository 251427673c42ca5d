// Package natstest starts embedded servers for tests of journals.
package natstest

import (
	"fmt"
	"testing"

	"github.com/freshet/freshet/endpoint/loopbacktest"
	"github.com/freshet/freshet/store/journal/nats"
)

// Token is the token of all servers.
const Token = "test-token"

// Configs returns the configurations of the members n0, n1 … of a cluster, on reserved ports of
// the loopback interface and with directories of the test. Each also listens for clients.
func Configs(t testing.TB, cluster string, members int) []nats.ServerConfig {
	t.Helper()
	peers := map[string]string{}
	for i := range members {
		peers[fmt.Sprint("n", i)] = loopbacktest.Reserve(t)
	}
	list := make([]nats.ServerConfig, members)
	for i := range list {
		node := fmt.Sprint("n", i)
		list[i] = nats.ServerConfig{
			Cluster: cluster, Node: node, Listen: peers[node], Peers: peers, Clients: loopbacktest.Reserve(t),
			Dir: t.TempDir(), Token: Token,
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
