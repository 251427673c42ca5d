package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// A machine has the files of this one below a layer of its own. What happens in it changes
// nothing here. It shares the network.
type machine struct {
	t     *testing.T
	enter []string // the words before a command
}

// newMachine skips the test where this process may not mount.
func newMachine(t *testing.T) machine {
	t.Helper()
	for _, tool := range []string{"dpkg-deb", "adduser", "deb-systemd-helper", "unshare", "nsenter", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			clitest.SkipPart(t, "debian", "installing the package needs a Debian system with "+tool)
		}
	}
	dir := t.TempDir()
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", `
		mount -t tmpfs tmpfs "$1" && cd "$1" && mkdir upper work root &&
		mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" root &&
		mount -t proc proc root/proc && mount --bind /dev root/dev && echo ready && exec cat`, "sh", dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	if line != "ready\n" {
		err := cmd.Wait()
		clitest.SkipPart(t, "debian", fmt.Sprintf("installing the package needs root and the right to mount: %v, %s", err, stderr.String()))
	}
	t.Cleanup(func() {
		in.Close() // ends cat, and with the last process its mounts
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return machine{t, []string{"nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", cmd.Process.Pid), "chroot", filepath.Join(dir, "root"),
		"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=/nonexistent", "DEBIAN_FRONTEND=noninteractive"}}
}

// try runs a command of a shell in the machine.
func (m machine) try(stdin io.Reader, script string) (string, error) {
	args := append(m.enter[1:len(m.enter):len(m.enter)], "sh", "-ec", script)
	cmd := exec.Command(m.enter[0], args...)
	cmd.Stdin = stdin
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run is try for commands that must work.
func (m machine) run(script string) string {
	m.t.Helper()
	out, err := m.try(nil, script)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

// install installs a package of this machine in the other.
func (m machine) install(deb string) {
	m.t.Helper()
	f, err := os.Open(deb)
	if err != nil {
		m.t.Fatal(err)
	}
	defer f.Close()
	if out, err := m.try(f, "cat > /var/tmp/freshet.deb; dpkg -i /var/tmp/freshet.deb; rm /var/tmp/freshet.deb"); err != nil {
		m.t.Fatalf("dpkg: %v\n%s", err, out)
	}
}

// as starts a program of the machine as a user and waits until it serves.
func (m machine) as(user string, env []string, line string) *clitest.Process {
	m.t.Helper()
	args := append(m.enter[1:len(m.enter):len(m.enter)], env...)
	args = append(args, "setpriv", "--reuid="+user, "--regid="+strings.TrimSpace(m.run("id -g "+user)), "--clear-groups",
		"--no-new-privs", "sh", "-c", "umask 077; exec "+line)
	return clitest.Start(m.t, m.enter[0], args...)
}

// service starts the service as its unit says, and waits until it reports that it is ready.
func (m machine) service() *clitest.Process {
	m.t.Helper()
	unit := m.run("cat /lib/systemd/system/freshet.service")
	setting := func(key string) string {
		value := regexp.MustCompile(`(?m)^` + key + `=-?(.*)$`).FindStringSubmatch(unit)
		if value == nil {
			m.t.Fatalf("the unit has no %s", key)
		}
		return value[1]
	}
	if setting("Type") != "notify" || setting("User") != setting("Group") || "/var/lib/"+setting("StateDirectory") != "/var/lib/freshet" {
		m.t.Errorf("the unit is\n%s", unit)
	}
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: fmt.Sprintf("@freshet-test-%d-%d", os.Getpid(),
		time.Now().UnixNano()), Net: "unixgram"})
	if err != nil {
		m.t.Fatal(err)
	}
	defer l.Close()
	env := append(strings.Fields(m.run("cat "+setting("EnvironmentFile"))), "NOTIFY_SOCKET="+l.LocalAddr().String())
	p := m.as(setting("User"), env, setting("ExecStart"))
	b := make([]byte, 100)
	if err := l.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		m.t.Fatal(err)
	}
	if n, err := l.Read(b); err != nil || string(b[:n]) != "READY=1" {
		m.t.Fatalf("the service reports %q, %v", b[:n], err)
	}
	return p
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", url, resp.Status, err, b)
	}
	return string(b)
}

// nextVersion repacks a package as a later version.
func nextVersion(t *testing.T, deb, version string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	next := filepath.Join(t.TempDir(), "next.deb")
	if out, err := exec.Command("dpkg-deb", "-R", deb, dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	control := filepath.Join(dir, "DEBIAN", "control")
	text, err := os.ReadFile(control)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(control, regexp.MustCompile(`(?m)^Version: .*$`).ReplaceAll(text, []byte("Version: "+version)), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", dir, next).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return next
}

// The package is installed, its service runs as its user, keeps its data and an edited
// configuration over an upgrade and a removal, and leaves nothing once it is purged.
func TestLongDebianPackage(t *testing.T) {
	m := newMachine(t)
	deb := one(t, dist(t), "freshet_*.deb")
	m.install(deb)
	if got := m.run("freshet version"); !strings.HasPrefix(got, "freshet "+testVersion+" (") {
		t.Errorf("the package has %s", got)
	}
	if got, want := m.run("stat -c '%n %U:%G %a' /var/lib/freshet /etc/freshet"),
		"/var/lib/freshet freshet:freshet 750\n/etc/freshet root:freshet 750\n"; got != want {
		t.Errorf("the directories are\n%s, not\n%s", got, want)
	}
	m.run("test -L /etc/systemd/system/multi-user.target.wants/freshet.service")
	m.run("freshet config check --config /etc/freshet/freshet.yaml")
	m.run("for p in freshet freshet-serve; do test -s /usr/share/man/man1/$p.1.gz; done; test -s " +
		"/usr/share/bash-completion/completions/freshet")
	m.run("test ! -e /usr/bin/freshet-bench && test ! -e /usr/share/man/man1/freshet-bench-study.1.gz")
	m.install(one(t, dist(t), "freshet-bench_*.deb"))
	m.run("freshet-bench --help && freshet bench study --help && test -s /usr/share/man/man1/freshet-bench-study.1.gz && dpkg " +
		"-P freshet-bench && test ! -e /usr/share/doc/freshet-bench")

	// The embedded engine is the one of the package: this user has no other.
	source := m.as("daemon", nil, "/usr/bin/freshet sparql --listen 127.0.0.1:0")
	resp, err := http.PostForm(source.Url, url.Values{"update": {`INSERT DATA { <http://example.org/a> ` +
		`<http://www.w3.org/2000/01/rdf-schema#label> "A" }`}})
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("update: %v, %v", resp, err)
	}
	resp.Body.Close()
	// An administrator edits the configuration.
	m.run(`printf 'FRESHET_LISTEN=127.0.0.1:0\n' > /etc/freshet/environment
		sed -i 's|^contact: .*|contact: mailto:edited@example.org|' /etc/freshet/freshet.yaml`)
	p := m.service()
	m.run(fmt.Sprintf(`export FRESHET_SERVER=%s
		freshet health
		freshet endpoint add things %s --set slot=never
		echo 'SELECT ?s ?l { ?s <http://www.w3.org/2000/01/rdf-schema#label> ?l }' | freshet query add --endpoint things --name labels -
		freshet endpoint tick things`, p.Url, source.Url))
	var results, history string
	clitest.Eventually(t, "a result", func() bool {
		results, history = get(t, p.Url+"/v1/queries/labels/results.csv"), get(t, p.Url+"/v1/queries/labels/changes")
		return strings.Contains(results, "http://example.org/a,A")
	})
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if got := m.run("find /var/lib/freshet ! -user freshet; find /var/lib/freshet -type f -perm /077"); got != "" {
		t.Errorf("others than the service have %s", got)
	}

	m.install(nextVersion(t, deb, "10.0.0-1"))
	if got := m.run("dpkg-query -W -f '${Version} ${Status}' freshet"); got != "10.0.0-1 install ok installed" {
		t.Errorf("after the upgrade: %s", got)
	}
	m.run("grep -q edited@example.org /etc/freshet/freshet.yaml")
	p = m.service()
	if got := get(t, p.Url+"/v1/queries/labels/results.csv"); got != results {
		t.Errorf("after the upgrade the result is %q, before %q", got, results)
	}
	if got := get(t, p.Url+"/v1/queries/labels/changes"); got != history {
		t.Errorf("after the upgrade the changes are %s, before %s", got, history)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}

	m.run("dpkg -r freshet")
	m.run("test ! -e /usr/bin/freshet && test ! -e /lib/systemd/system/freshet.service && test -s /var/lib/freshet/freshet.db " +
		"&& grep -q edited /etc/freshet/freshet.yaml")
	m.run("dpkg -P freshet")
	m.run(`for f in /var/lib/freshet /etc/freshet /usr/share/freshet /usr/share/doc/freshet ` +
		`/etc/systemd/system/multi-user.target.wants/freshet.service; do
		if test -e $f || test -L $f; then echo $f is left; exit 1; fi; done
		if getent passwd freshet; then echo the user is left; exit 1; fi`)
}

// Debian's checker has no complaint about the package.
func TestLongLintian(t *testing.T) {
	tool, err := exec.LookPath("lintian")
	if err != nil {
		clitest.SkipPart(t, "lintian", "install lintian")
	}
	out, err := exec.Command(tool, "--fail-on", "error,warning", "--allow-root", one(t, dist(t), "freshet_*.deb"),
		one(t, dist(t), "freshet-bench_*.deb")).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
