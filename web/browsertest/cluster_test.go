package browsertest

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// newCluster starts three nodes. Another program may take the address that was found for a member
// before the member listens on it, so that a start that fails is repeated with other addresses.
func newCluster(t testing.TB, endpoint string) (nodes []*process) {
	t.Helper()
	var err error
	for range 5 {
		nodes, err = tryCluster(t, endpoint, addresses(t))
		end := func() {
			for _, p := range nodes {
				p.end()
			}
		}
		if err == nil {
			t.Cleanup(end)
			return nodes
		}
		end()
		t.Log(err)
	}
	t.Fatal(err)
	return nil
}

// addresses returns addresses of the loopback interface that are free.
func addresses(t testing.TB) (list []string) {
	t.Helper()
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		list = append(list, l.Addr().String())
	}
	return list
}

func tryCluster(t testing.TB, endpoint string, at []string) (nodes []*process, err error) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), strings.Repeat("secret", 4))
	for i := range at {
		file := filepath.Join(dir, fmt.Sprintf("n%d.yaml", i+1))
		write(t, file, fmt.Sprintf(`endpoints: [{name: city, url: %q, slot: never, budget: 1s}]
cluster: {name: demo, node: n%d, lease: 3s, listen: %q, peers: {n1: %q, n2: %q, n3: %q}, token_file: %s}
`, endpoint, i+1, at[i], at[0], at[1], at[2], filepath.Join(dir, "token")))
		nodes = append(nodes, launch(t, "serve", "--config", file, "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, fmt.Sprint(i+1))))
	}
	up := make(chan error, len(nodes))
	for _, p := range nodes {
		go func() { up <- p.await() }()
	}
	for range nodes {
		if err := <-up; err != nil { // the others would wait for this one
			return nodes, err
		}
	}
	return nodes, nil
}

// The page Cluster shows which nodes are ready, and at once which one is gone.
func TestClusterOnThePage(t *testing.T) {
	needBrowser(t)
	checker := axe(t)
	nodes := newCluster(t, "http://127.0.0.1:9/sparql")
	x := open(t, nodes[0].url)
	x.visit("/cluster") // before the endpoint has an owner
	x.waitText("All 3 nodes are ready. Each endpoint is asked by one node.")
	x.look(look{name: "cluster", path: "/cluster", shows: "All 3 nodes are ready."}, laptop, checker)
	if err := nodes[2].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	x.waitText("2 of 3 nodes are ready. n3 sends no heartbeats.") // without a reload
	x.waitText("Each endpoint is asked by one node.")
	x.look(look{name: "cluster-silent", path: "/cluster", shows: "n3 sends no heartbeats."}, phone, checker)
}
