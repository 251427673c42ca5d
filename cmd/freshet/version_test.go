package main

import (
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// The version comes from the release, the tag or the revision, in this order.
func TestBuildOf(t *testing.T) {
	const revision = "6255db7a0b1c2d3e4f5061728394a5b6c7d8e9f0"
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: revision},
			{Key: "vcs.time", Value: "2026-11-20T10:00:00Z"}, {Key: "vcs.modified", Value: modified}}
	}
	for _, x := range []struct {
		name, release, module string
		settings              []debug.BuildSetting
		want, says            string
	}{
		{"release", "v1.2.3", "v0.0.0-20261120100000-6255db7a0b1c", vcs("false"), "v1.2.3", revision},
		{"tag", "", "v1.2.3", vcs("false"), "v1.2.3", "of 2026-11-20T10:00:00Z"},
		{"tag, modified", "", "v1.2.3+dirty", vcs("true"), "v1.2.3+dirty", "with uncommitted changes"},
		{"revision", "", "v0.0.0-20261120100000-6255db7a0b1c", vcs("false"), "devel-6255db7a0b1c", revision},
		{"revision, modified", "", "(devel)", vcs("true"), "devel-6255db7a0b1c+dirty", "with uncommitted changes"},
		{"installed", "", "v0.0.0-20261120100000-6255db7a0b1c", nil, "v0.0.0-20261120100000-6255db7a0b1c", runtime.Version()},
		{"nothing recorded", "", "(devel)", nil, "devel", runtime.GOARCH},
	} {
		b := buildOf(x.release, &debug.BuildInfo{Main: debug.Module{Version: x.module}, Settings: x.settings})
		if b.Version != x.want || !strings.Contains(b.String(), x.says) || !strings.HasPrefix(b.String(), "freshet "+x.want+" (") {
			t.Errorf("%s: version %q, line %q, want %q and %q", x.name, b.Version, b, x.want, x.says)
		}
	}
	if b := buildOf("", nil); b.Version != "devel" {
		t.Errorf("without build information: %q", b.Version)
	}
}

// A release sets its version when it is linked.
func TestVersionOfARelease(t *testing.T) {
	out, err := exec.Command(binary(t, "-ldflags", "-X main.version=v9.8.7"), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "freshet v9.8.7 (") {
		t.Errorf("prints %q, %v", out, err)
	}
}

// The flag says what the command says.
func TestVersionFlag(t *testing.T) {
	_, want, _ := cli(t, nil, "", "version")
	for _, args := range [][]string{{"--version"}, {"-v"}} {
		if code, got, stderr := cli(t, nil, "", args...); code != exitOK || got != want || stderr != "" || got == "" {
			t.Errorf("%s: exit code %d, prints %q and %q, want %q", args, code, got, stderr, want)
		}
	}
}
