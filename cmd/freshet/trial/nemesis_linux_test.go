// Full disks in a cluster.

package trial

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// A node whose disk was full keeps the journal again once there is room. Otherwise the cluster
// would have no majority after the disks of two nodes have been full.
func TestClusterAfterFullDisks(t *testing.T) {
	t.Parallel()
	nodes := startCluster(t, newCounted(t).http.URL, "")
	add := func(name string) bool {
		code, _, _ := runCLI(t, map[string]string{"FRESHET_SERVER": nodes["n3"].Url}, fmt.Sprintf("SELECT ?n { ?s ?%s ?n }", name),
			"query", "add", "--endpoint", "numbers", "--name", name, "-")
		return code == 0
	}
	clitest.Eventually(t, "a write", func() bool { return add("first") })
	for _, name := range []string{"n1", "n2"} {
		n := nodes[name]
		fill(t, n.Cmd.Process.Pid, 1)
		clitest.Eventually(t, "a write while the disk of "+name+" is full", func() bool { return add("full_" + name) })
		clitest.Eventually(t, name+" cannot write", func() bool { return strings.Contains(n.Stderr.String(), "Critical write error") })
		fill(t, n.Cmd.Process.Pid, math.MaxUint64)
		clitest.Eventually(t, name+" is ready", func() bool { code, _ := n.get(t, "/readyz"); return code == 200 })
	}
	clitest.Eventually(t, "a write after that", func() bool { return add("last") })
	for name, n := range nodes {
		clitest.Eventually(t, name+" has the last write", func() bool { code, _ := n.get(t, "/v1/queries/last"); return code == 200 })
	}
}

func init() {
	nemesisFaults = append(nemesisFaults, fault{kind: "full disk", weight: 1, do: (*nemesis).full, long: true})
}

// full lets a process write no files for a while.
func (n *nemesis) full(v *victim, lasts time.Duration) {
	v.Lock()
	pid := v.p.Cmd.Process.Pid
	up := n.changes.hinder(v.name)
	fill(n.t, pid, 1)
	n.last(v, lasts)
	fill(n.t, pid, math.MaxUint64)
	up()
	for end := time.Now().Add(time.Minute); n.get(v, "/readyz", nil) != nil; n.sleep(n.ctx, 500*time.Millisecond) {
		if time.Now().After(end) {
			n.object("%s is not ready a minute after its disk has room again: %v\n%s", v.name, n.get(v, "/readyz", nil), v.p.Stderr)
			v.p.Kill()
			n.start(v)
			break
		}
	}
	v.Unlock()
}
