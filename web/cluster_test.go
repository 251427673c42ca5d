package web

// Tests of the routes of a cluster.

import (
	"encoding/json"
	"testing"

	"github.com/freshet/freshet/registry"
)

// twoNodes is a cluster of two nodes in memory.
type twoNodes struct{ registry.ClusterStatus }

func (c *twoNodes) Status() (registry.ClusterStatus, error) { return c.ClusterStatus, nil }

func (c *twoNodes) Owner(endpoint string) string {
	for _, l := range c.Leases {
		if l.Key == "endpoint/"+endpoint {
			return l.Node
		}
	}
	return ""
}

func (c *twoNodes) Drain(node string) error {
	for i := range c.Nodes {
		if c.Nodes[i].Name == node {
			c.Nodes[i].State = registry.NodeDraining
			return nil
		}
	}
	return &registry.Problem{Kind: registry.KindNotFound, Detail: "no node has the name " + node}
}

func newTwoNodes() *twoNodes {
	return &twoNodes{registry.ClusterStatus{Name: "c", Node: "n1", Applied: 7, Head: 9,
		Nodes: []registry.NodeStatus{{Name: "n1", State: registry.NodeReady, Role: "worker"}, {Name: "n2", State: registry.NodeReady,
			Role: "gateway"}},
		Leases: []registry.LeaseStatus{{Key: "endpoint/city", Node: "n1", Token: 3}}}}
}

// Admins see the nodes and drain them. A server that is alone has no such routes.
func TestCluster(t *testing.T) {
	w := newWorld(t)
	decoded := func(a *answer) (s registry.ClusterStatus) {
		t.Helper()
		if err := json.Unmarshal(a.body, &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := decoded(w.get("/v1/cluster").status(200)); len(s.Nodes) != 2 || s.Head != 9 || s.Leases[0].Token != 3 {
		t.Errorf("%+v", s)
	}
	if s := decoded(w.post("/v1/cluster/nodes/n2/drain", "").status(202)); s.Nodes[1].State != registry.NodeDraining ||
		s.Nodes[0].State != registry.NodeReady {
		t.Errorf("%+v", s)
	}
	w.post("/v1/cluster/nodes/n3/drain", "").problem(404, "not-found")
	newWorld(t, func(c *Config) { c.Cluster = nil }).get("/v1/cluster").problem(404, "not-found")
}
