package server

import (
	"slices"
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
	n.applyLater(t.Context())
	all, err := n.Store.Endpoints.Endpoints()
	if err != nil || !slices.ContainsFunc(all, func(e registry.Endpoint) bool { return e.Name == "town" }) {
		t.Errorf("the endpoint of the file is not in force: %v, %v", all, err)
	}
}
