package server

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// A node that cannot store anything when it starts applies the endpoints of its file as soon as it can.
func TestFileIsAppliedLater(t *testing.T) {
	_, nodes := startNodes(t, 1, "n")
	n := nodes[0]
	c := *n.Server.conf
	c.DefaultEndpoint = "town"
	c.Endpoints = []registry.Endpoint{{Name: "town", URL: "http://127.0.0.1:1/", Slot: "never", Budget: registry.Duration(time.Minute)}}
	n.lag.Lock()
	err := n.applyFile(&c)
	n.lag.Unlock()
	if err != nil {
		t.Fatalf("it does not start: %v", err)
	}
	n.appliesTown()
}

func (n *node) appliesTown() {
	await(n.t, "the endpoint of the file is in force", func() error {
		_, err := n.Store.Endpoints.Endpoint("town")
		return err
	})
}

// A reload that cannot store an endpoint now applies the tokens of the file at once, and the endpoint later.
func TestReloadIsAppliedLater(t *testing.T) {
	_, nodes := startNodes(t, 1, "n")
	n := nodes[0]
	c := *n.Server.conf
	c.Endpoints = []registry.Endpoint{{Name: "town", URL: "http://127.0.0.1:1/", Slot: "never", Budget: registry.Duration(time.Minute)}}
	c.Tokens = []registry.Token{{Name: "ops", Role: registry.RoleAdmin, SHA256: registry.HashSecret("a secret of the file")}}
	n.lag.Lock()
	err := n.Reload(&c)
	n.lag.Unlock()
	if err != nil {
		t.Fatalf("the tokens are not in force: %v", err)
	}
	await(t, "the token of the file is in force", func() error {
		_, err := n.gate.Authenticate("", "a secret of the file")
		return err
	})
	n.appliesTown()
}
