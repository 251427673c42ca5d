package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// SIGHUP does not end a node that waits for its journal.
func TestHangupWhileANodeOpens(t *testing.T) {
	dir := t.TempDir()
	token, file := filepath.Join(dir, "token"), filepath.Join(dir, "freshet.yaml")
	conf := fmt.Sprintf("listen: %s\ndata: %s\n"+
		"cluster: {name: c, node: n1, listen: %s, token_file: %s, peers: {n1: %[3]s, n2: %[5]s, n3: %[6]s}}\n",
		clitest.FreeAddr(t), dir, clitest.FreeAddr(t), token, clitest.FreeAddr(t), clitest.FreeAddr(t))
	for name, text := range map[string]string{token: "a-secret-of-the-test", file: conf} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := clitest.Launch(t, binary(t), "serve", "--config", file)
	clitest.Eventually(t, "the node waits", func() bool {
		select {
		case <-p.Ended:
			t.Fatalf("the node ended: %v\n%s", p.Err, p.Stderr)
		default:
		}
		return strings.Contains(p.Stderr.String(), "waiting for the journal")
	})
	if err := p.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if err := p.Stop(); err != nil {
		t.Errorf("after SIGHUP and SIGTERM the node ended with %v\n%s", err, p.Stderr)
	}
}
