package trial

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/registry"
)

// A user without a token follows the instructions of the sign-in page literally and can sign in.
func TestSignInHintWorks(t *testing.T) {
	s := newTestServer(t, "tokens: [{name: first, role: admin, sha256: \""+registry.HashSecret("first-of-the-secrets")+"\"}]\n")
	resp, err := http.Get(s.srv.Url + "/signin")
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	found := regexp.MustCompile(`<code>freshet ([^<]*)</code>`).FindSubmatch(page)
	if err != nil || found == nil {
		t.Fatalf("the page names no command (%v):\n%s", err, page)
	}
	code, secret, says := runCLI(t, nil, "", clitest.ShellWords(html.UnescapeString(string(found[1])))...)
	line := regexp.MustCompile(`(?m)^  - (\{.*\})$`).FindStringSubmatch(says)
	if code != cli.ExitOK || line == nil {
		t.Fatalf("freshet %s: exit code %d: %s", found[1], code, says)
	}
	text := strings.Replace(s.yaml, "tokens: [", "tokens: ["+line[1]+", ", 1)
	if err := os.WriteFile(s.srv.Cmd.Args[3], []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.srv.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	clitest.Eventually(t, "reloaded", func() bool { return strings.Contains(s.srv.Stderr.String(), "is reloaded") })
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err = client.PostForm(s.srv.Url+"/signin", url.Values{"token": {strings.TrimSpace(secret)}, "next": {"/"}})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/" {
		t.Errorf("signing in with the new secret: %s to %q", resp.Status, resp.Header.Get("Location"))
	}
}
