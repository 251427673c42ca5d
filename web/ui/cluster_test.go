package ui

// Tests of the page about the nodes of a cluster.

import (
	"net/http"
	"sync"
	"testing"

	"github.com/freshet/freshet/registry"
)

// A fixedCluster is a cluster whose state a test sets. Clusters with leases and a journal are
// tested with the program.
type fixedCluster struct {
	mu    sync.Mutex
	state registry.ClusterStatus
}

func newFixedCluster() *fixedCluster {
	return &fixedCluster{state: registry.ClusterStatus{Name: "river", Node: "n1", Applied: 1207, Head: 1209, Takeovers: 3, Fenced: 2,
		Nodes: []registry.NodeStatus{
			{Name: "n1", State: registry.NodeReady, Role: "worker", API: "http://10.0.0.1:8080", Applied: 1207, Lag: 2, Leases: 3},
			{Name: "n2", State: registry.NodeReady, Role: "worker", API: "http://10.0.0.2:8080", Applied: 1209, Leases: 2},
			{Name: "n3", State: registry.NodeReady, Role: "gateway", API: "http://10.0.0.3:8080", Applied: 1209}},
		Leases: []registry.LeaseStatus{{Key: "alerts", Node: "n1", Token: 4}, {Key: "delivery/0", Node: "n1", Token: 1},
			{Key: "delivery/1", Node: "n2", Token: 2},
			{Key: "endpoint/city", Node: "n2", Token: 5}, {Key: "journal", Node: "n1", Token: 3}}}}
}

func (c *fixedCluster) Status() (registry.ClusterStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state, nil
}

func (c *fixedCluster) Owner(endpoint string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.state.Leases {
		if l.Key == "endpoint/"+endpoint {
			return l.Node
		}
	}
	return ""
}

func (c *fixedCluster) Drain(node string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.state.Nodes {
		if c.state.Nodes[i].Name == node {
			c.state.Nodes[i].State = registry.NodeDraining
			return nil
		}
	}
	return &registry.Problem{Kind: registry.KindNotFound, Detail: "no node has the name " + node}
}

// Admins see the nodes and who asks which endpoint, and drain nodes. Readers see who asks an
// endpoint. A server that is alone has no such page.
func TestClusterPage(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	c := r.pages.Cluster.(*fixedCluster)
	r.endpoint("city")
	r.endpoint("town")
	r.get("/cluster").status(200).has(`aria-current="page"`, "river", "All 3 nodes are ready.",
		"1 endpoint is asked by no node now.", "this node", "http://10.0.0.2:8080",
		"2 entries", "1,209", "1,207", "1 of 2 shares of the callbacks, alert rules, old entries of the journal", "gateway",
		`action="/cluster/nodes/n1/drain"`, `action="/cluster/nodes/n2/drain"`).lacks(`action="/cluster/nodes/n3/drain"`)
	r.get("/endpoints/city").has("asked by the node", ">n2<")
	r.get("/endpoints/town").lacks("asked by the node")
	r.get("/endpoints").has("asked by", ">n2<")
	r.follow(r.post("/cluster/nodes/n2/drain").status(303)).has("n2 gives away what it owns.", "2 of 3 nodes are ready.",
		"draining").lacks("/drain\"")
	r.post("/cluster/nodes/n9/drain").status(404)
	c.mu.Lock()
	c.state.Nodes[1].State, c.state.Nodes[2].State = registry.NodeSilent, registry.NodeLeft
	c.state.Nodes[2].Differs = []string{"endpoints.city", "limits.queries"}
	c.mu.Unlock()
	r.get("/cluster").has("1 of 2 nodes is ready.", "n2 sends no heartbeats.", "stopped",
		"The settings of n3 differ from those of n1: <b>endpoints.city</b>, <b>limits.queries</b>.")
	c.mu.Lock()
	c.state.Nodes[0].State = registry.NodeSilent
	c.mu.Unlock()
	r.get("/cluster").has("This node is cut off from the journal, or lags behind it.", "What follows may be out of date.")

	reader := signedIn(t, registry.RoleRead)
	reader.get("/endpoints").status(200).lacks(`href="/cluster"`)
	alone := newRig(t)
	alone.endpoint("city")
	if a := alone.get("/cluster"); a.StatusCode != http.StatusNotFound {
		t.Errorf("a server that is alone answers %d", a.StatusCode)
	}
	alone.get("/endpoints/city").lacks("asked by", "node")
}
