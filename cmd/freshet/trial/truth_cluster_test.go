// The truth test of a cluster: one node executes, and followers move between three.

package trial

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal/postgres/postgrestest"
)

func TestTruthCluster(t *testing.T) {
	clitest.NeedEngine(t)
	t.Parallel()
	seed := truthSeed(t)
	truthTest{seed: seed, history: cityHistory(t, seed, 60, 12), journal: "embedded"}.run(t)
}

func TestTruthClusterOnPostgreSQL(t *testing.T) {
	clitest.NeedEngine(t)
	t.Parallel()
	seed := truthSeed(t)
	truthTest{seed: seed, history: cityHistory(t, seed, 40, 12), journal: postgrestest.Start(t).URL}.run(t)
}

// startCluster starts the server as the only worker of a cluster, and two gateways.
func (r *truthRun) startCluster() {
	secret := filepath.Join(r.t.TempDir(), "token")
	r.must(os.WriteFile(secret, []byte("shared by the three nodes\n"), 0o600))
	var peers, listen []string
	for n := range 3 {
		listen = append(listen, clitest.FreeAddr(r.t))
		peers = append(peers, fmt.Sprintf("n%d: %q", n, listen[n]))
	}
	settings := func(n int, role string) string {
		return fmt.Sprintf("cluster: {name: truth, node: n%d, role: %s, journal: %q, listen: %q, peers: {%s}, token_file: %q}\n", n,
			role, r.journal, listen[n], strings.Join(peers, ", "), secret)
	}
	var starting sync.WaitGroup // each waits for a majority
	for n := 1; n < 3; n++ {
		g := &restartingServer{t: r.t, bin: r.server.bin, addr: clitest.FreeAddr(r.t), data: r.t.TempDir(),
			yaml: r.server.yaml + settings(n, "gateway")}
		r.gateways = append(r.gateways, g)
		starting.Go(g.start)
	}
	r.server.yaml += settings(0, "worker")
	starting.Go(r.server.start)
	starting.Wait()
	if r.t.Failed() {
		r.t.FailNow()
	}
	ctx := r.t.Context()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var s registry.ClusterStatus
		err := r.server.get(ctx, "/v1/cluster", &s)
		for _, l := range s.Leases {
			if l.Key == "endpoint/truth" && l.Node == "n0" {
				return
			}
		}
		if time.Now().After(end) {
			r.must(errors.Join(err, fmt.Errorf("the worker has not taken the endpoint: %+v", s)))
		}
	}
}
