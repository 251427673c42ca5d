package trial

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// inPython is a command of the Python client's folder.
func inPython(args ...string) *exec.Cmd {
	cmd := exec.Command("python3", append([]string{"-B", "-X", "dev", "-W", "error"}, args...)...)
	cmd.Dir, cmd.Stderr = "../../../web/client/python", os.Stderr
	return cmd
}

// The Python client follows queries over crashes of the server: plain, with asyncio, and from
// a saved state after each update. Its result has the server's bytes and hashes, and the
// differences that it reports add up to it.
func TestPythonClient(t *testing.T) {
	clitest.NeedPython(t)
	t.Parallel()
	foreign(t, "", "py-plain", "py-async", "py-saved")
}

// If results and changes are too large to send, it reads the whole result and computes the
// differences.
func TestPythonClientLarge(t *testing.T) {
	clitest.NeedPython(t)
	t.Parallel()
	foreign(t, "limits: {change: 100B}\n", "py-plain", "py-async")
}

// The tests of the Python client pass, also against a server with tokens.
func TestPythonUnits(t *testing.T) {
	clitest.NeedPython(t)
	const app, read = "app-secret-0123456789", "read-secret-0123456789"
	s := newTestServer(t, fmt.Sprintf("tokens: [{name: app, role: app, sha256: %x}, {name: reader, role: read, sha256: %x}]\n",
		sha256.Sum256([]byte(app)), sha256.Sum256([]byte(read))))
	cmd := inPython("-m", "unittest")
	cmd.Stderr = nil
	cmd.Env = append(os.Environ(), "FRESHET_URL="+s.srv.Url, "FRESHET_TOKEN="+app, "FRESHET_READ_TOKEN="+read)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
