package cli

import (
	"os"
	"regexp"
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
		{"revision", "", "v0.0.0-20261120100000-6255db7a0b1c", vcs("false"), newest + "+6255db7a0b1c", revision},
		{"revision, modified", "", "(devel)", vcs("true"), newest + "+6255db7a0b1c.dirty", "with uncommitted changes"},
		{"installed", "", "v0.0.0-20261120100000-6255db7a0b1c", nil, "v0.0.0-20261120100000-6255db7a0b1c", runtime.Version()},
		{"nothing recorded", "", "(devel)", nil, newest, runtime.GOARCH},
	} {
		b := buildOf(x.release, &debug.BuildInfo{Main: debug.Module{Version: x.module}, Settings: x.settings})
		if b.Version != x.want || !strings.Contains(b.String(), x.says) || !strings.HasPrefix(b.String(), "freshet "+x.want+" (") {
			t.Errorf("%s: version %q, line %q, want %q and %q", x.name, b.Version, b, x.want, x.says)
		}
	}
	if b := buildOf("", nil); b.Version != newest {
		t.Errorf("without build information: %q", b.Version)
	}
}

// The newest section of the changelog is about the version that builds report.
func TestNewestVersion(t *testing.T) {
	text, err := os.ReadFile("../../../CHANGELOG.md")
	section := regexp.MustCompile(`(?m)^## (\S+) \(\d{4}-\d{2}-\d{2}\)$`).FindSubmatch(text)
	if err != nil || section == nil || string(section[1]) != newest {
		t.Errorf("the first section of CHANGELOG.md is %q, want %s: %v", section, newest, err)
	}
}

func TestColor(t *testing.T) {
	for _, x := range []struct {
		terminal      bool
		noColor, term string
		want          bool
	}{{true, "", "xterm", true}, {true, "1", "xterm", false}, {true, "", "dumb", false}, {false, "", "xterm", false}} {
		env := map[string]string{"NO_COLOR": x.noColor, "TERM": x.term}
		if got := colorful(x.terminal, func(k string) string { return env[k] }); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// What a damaged file or a server says moves no cursor and hides nothing.
func TestPlainMessages(t *testing.T) {
	for in, want := range map[string]string{
		"query é: 2 × 日本\n\tnext":    "query é: 2 × 日本\n\tnext",
		"a\x1b[2Jb\r\x00\x9b\u202ec": "a\ufffd[2Jb\ufffd\ufffd\ufffd\ufffdc",
	} {
		if got := printable(in); got != want {
			t.Errorf("%q becomes %q, not %q", in, got, want)
		}
	}
}
