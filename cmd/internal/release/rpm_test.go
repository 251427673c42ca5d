package main

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// The package is installed by rpm, which finds nothing wrong with it; its service runs as its user; an upgrade keeps an edited
// configuration, and a removal the data.
func TestLongRPM(t *testing.T) {
	if _, err := exec.LookPath("rpm"); err != nil {
		clitest.SkipPart(t, "rpm", "apt-get install rpm")
	}
	pkg := one(t, dist(t), "freshet-[0-9]*.rpm")
	info, err := exec.Command("rpm", "-qip", "--requires", "--recommends", "--scripts", pkg).CombinedOutput()
	for _, want := range []string{"Version     : 9.8.7~rc.1\n", "License     : Apache-2.0\n", "Build Date",
		"tells applications what changed", "/usr/sbin/useradd", "ca-certificates", "systemctl"} {
		if err != nil || !strings.Contains(string(info), want) {
			t.Errorf("%v: no %q in %s", err, want, info)
		}
	}
	if out, err := exec.Command("rpm", "--checksig", pkg).CombinedOutput(); err != nil || !strings.Contains(string(out), "digests OK") {
		t.Errorf("%v: %s", err, out)
	}
	m := newMachine(t)
	install := func(path string) {
		t.Helper()
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		// On Debian its own packages have what this one requires.
		if out, err := m.try(f, "cat > /var/tmp/x.rpm; rpm --force-debian --nodeps -U /var/tmp/x.rpm; rm /var/tmp/x.rpm"); err != nil {
			t.Fatalf("rpm: %v\n%s", err, out)
		}
	}
	install(pkg)
	if got := m.run("freshet version"); !strings.HasPrefix(got, "freshet "+testVersion+" (") {
		t.Errorf("the package has %s", got)
	}
	if out := m.run("rpm -V --nodeps freshet"); out != "" {
		t.Errorf("rpm finds: %s", out)
	}
	if got, want := m.run("stat -c '%n %U:%G %a' /var/lib/freshet /etc/freshet /etc/freshet/freshet.yaml"),
		"/var/lib/freshet freshet:freshet 750\n/etc/freshet root:freshet 750\n/etc/freshet/freshet.yaml root:freshet 640\n"; got != want {
		t.Errorf("there is\n%s, not\n%s", got, want)
	}
	m.run("for f in /usr/share/man/man1/freshet.1.gz /usr/share/bash-completion/completions/freshet " +
		"/usr/share/zsh/site-functions/_freshet /usr/share/licenses/freshet/LICENSE; do test -s $f; done")
	m.run("test ! -e /usr/bin/freshet-bench && gzip -t /usr/share/man/man1/freshet.1.gz")
	m.run("echo FRESHET_LISTEN=127.0.0.1:0 > /etc/freshet/environment")
	p := m.service()
	get(t, p.Url+"/healthz")
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	m.run("echo '# edited' >> /etc/freshet/freshet.yaml; ls /var/lib/freshet/* >/dev/null")

	next := &release{version: "v9.8.8", time: time.Unix(1700000001, 0), out: t.TempDir(), fast: true}
	t.Chdir("../../..")
	if err := next.rpm(debPackages[0], runtime.GOARCH, "/bin/true"); err != nil {
		t.Fatal(err)
	}
	install(one(t, next.out, "*.rpm"))
	got := m.run("rpm -q freshet; grep -c edited /etc/freshet/freshet.yaml; ls /var/lib/freshet | wc -l")
	if !strings.HasPrefix(got, "freshet-9.8.8-1."+rpmArchs[runtime.GOARCH]+"\n1\n") || strings.HasSuffix(got, "\n0\n") {
		t.Errorf("after the upgrade there is %s", got)
	}
	m.run("rpm --nodeps -e freshet; test ! -e /usr/bin/freshet && ls /var/lib/freshet/*")
	install(one(t, dist(t), "freshet-bench-*.rpm"))
	m.run("freshet-bench --help >/dev/null && rpm -V --nodeps freshet-bench")
}

func TestRPMVersion(t *testing.T) {
	for version, want := range map[string]string{"v1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3~rc.1",
		"v0.1.0+6255db7a0b1c.dirty": "0.1.0+6255db7a0b1c.dirty"} {
		if got := rpmVersion(version); got != want {
			t.Errorf("%s becomes %s, not %s", version, got, want)
		}
	}
}
