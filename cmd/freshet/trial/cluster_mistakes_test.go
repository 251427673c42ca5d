// Tests of clusters whose nodes are configured wrongly.

package trial

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/store"
)

// A node that cannot join says which setting to look at, in its log as long as it waits, or at its
// end. Settings that are wrong by themselves are tested with package config.
func TestClusterMistakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
		return path
	}
	write("token", "shared by the three nodes\n", 0o600)
	write("other", "of another cluster\n", 0o600)
	write("open", "shared by the three nodes\n", 0o644)
	at := map[string]string{}
	for _, name := range []string{"n1", "n2", "n3", "unused", "taken"} {
		at[name] = clitest.FreeAddr(t)
	}
	peers := fmt.Sprintf("{n1: %q, n2: %q, n3: %q}", at["n1"], at["n2"], at["n3"])
	launch := func(node, old, new string) *clitest.Process {
		t.Helper()
		text := fmt.Sprintf("listen: %s\ndata: %s\nlog: {format: text}\ncluster:\n  name: demo\n  node: %s\n  listen: %s\n  "+
			"peers: %s\n  token_file: %s/token\n",
			clitest.FreeAddr(t), t.TempDir(), node, at[node], peers, dir)
		if !strings.Contains(text, old) {
			t.Fatalf("%q is not in\n%s", old, text)
		}
		return clitest.Launch(t, binary(t), "serve", "--config", write(node+".yaml", strings.Replace(text, old, new, 1), 0o600))
	}
	says := func(p *clitest.Process, ends bool, want ...string) {
		t.Helper()
		clitest.Eventually(t, strings.Join(want, ", "), func() bool {
			ended := false
			select {
			case <-p.Ended:
				ended = true
			default:
			}
			for _, w := range want {
				if strings.Contains(p.Stderr.String(), w) {
					continue
				}
				if ended {
					t.Fatalf("it ended without %q:\n%s", w, p.Stderr)
				}
				return false
			}
			return ended == ends
		})
		if strings.Contains(p.Stderr.String(), "hush") {
			t.Errorf("it shows a password:\n%s", p.Stderr)
		}
		p.Kill()
	}
	n1 := launch("n1", "/token\n", "/open\n")
	busy := clitest.Start(t, binary(t), "sparql", "--listen", at["taken"])
	for _, x := range []struct {
		what, node, old, new string
		ends                 bool
		want                 []string
	}{
		{"n2 has another secret", "n2", "/token\n", "/other\n", false, []string{"Authorization Violation", "waiting for other members",
			"secret of cluster.token_file"}},
		{"n3 is of another cluster", "n3", "name: demo", "name: demo2", false, []string{"cluster name", "waiting for other members",
			"cluster.name and the secret"}},
		{"no server of the journal is reached", "n2", "token_file", "journal: nats://u:hush@" + at["unused"] + "\n  token_file", false,
			[]string{"waiting for the servers of the journal", "cluster.journal"}},
		{"no database is reached", "n2", "token_file", "journal: postgres://u:hush@" + at["unused"] + "/d\n  token_file", true,
			[]string{"cluster.journal", "connection refused"}},
		{"another program listens", "n2", "listen: " + at["n2"], "listen: " + at["taken"], true,
			[]string{"cluster.listen", "address already in use", "choose another address"}},
		{"a gateway without a journal", "n2", "node: n2", "node: g1\n  role: gateway", true, []string{"cluster.journal: a gateway"}},
	} {
		t.Run(strings.ReplaceAll(x.what, " ", "-"), func(t *testing.T) {
			says(launch(x.node, x.old, x.new), x.ends, x.want...)
		})
	}
	busy.Kill()
	t.Run("two-nodes-use-one-directory", func(t *testing.T) {
		data := t.TempDir()
		start := func(node string) *clitest.Process {
			api, journal := clitest.FreeAddr(t), clitest.FreeAddr(t)
			text := fmt.Sprintf("listen: %s\ndata: %s\nlog: {format: text}\ncluster:\n  name: one\n  node: %s\n  listen: %s\n  "+
				"peers: {%[3]s: %[4]q}\n  token_file: %[5]s/token\n", api, data, node, journal, dir)
			return clitest.Launch(t, binary(t), "serve", "--config", write("one-"+node+".yaml", text, 0o600))
		}
		first := start("n1")
		clitest.Eventually(t, "the first one serves", func() bool { return strings.Contains(first.Stderr.String(), "msg=started") })
		second := start("n2")
		says(second, true, store.File, store.ErrLocked.Error(), "its own data directory")
		if text := second.Stderr.String(); strings.Contains(text, "journal") { // which the first one uses
			t.Errorf("the second one opened the journal:\n%s", text)
		}
		first.Kill()
	})
	says(n1, false, "cluster.token_file", "chmod 600", "waiting for other members", "connected=0 members=3", "cluster.peers")
}
