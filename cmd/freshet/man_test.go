package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
)

// A manual page exists for each command, and contains its help as a reader of the page sees it.
func TestManualPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	dir := t.TempDir()
	code, out, stderr := runCLI(t, nil, "", "man", dir, "--json")
	if code != cli.ExitOK || !strings.Contains(out, `"pages":`) {
		t.Fatalf("exit code %d, %s%s", code, out, stderr)
	}
	seen := 0
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				check(sub)
			}
		}
		seen++
		name := strings.ReplaceAll(c.CommandPath(), " ", "-")
		page, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		if !bytes.Contains(page, []byte(`"Sep 2001" "freshet `)) || bytes.Contains(page, []byte("cobra")) {
			t.Errorf("%s names another time or program\n%s", name, page[:200])
		}
		text := words(plain(string(page)))
		want := []string{c.Short, c.Long, c.UseLine(), c.Example}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				want = append(want, "--"+f.Name, f.Usage)
			}
		})
		for _, w := range want {
			// A page shows "# Title" as a title.
			if w = words(regexp.MustCompile("(?m)^#+ ").ReplaceAllString(w, "")); !strings.Contains(text, w) {
				t.Errorf("%s does not contain %q\n%s", name, w, text)
			}
		}
	}
	check(newRoot(&cli.Env{Getenv: func(string) string { return "" }}))
	if seen < 50 {
		t.Errorf("%d commands", seen)
	}
	t.Run("reader", func(t *testing.T) {
		reader, err := exec.LookPath("man")
		if err != nil {
			clitest.SkipPart(t, "man", "install man-db")
		}
		for _, name := range []string{"freshet", "freshet-rule-add"} {
			file := filepath.Join(dir, name+".1")
			page, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, body, _ := strings.Cut(string(page), ".SH DESCRIPTION")
			got := words(readPage(t, reader, file))
			for line := range strings.Lines(plain(body)) {
				if !strings.Contains(got, words(line)) {
					t.Errorf("%s does not show %q\n%s", name, line, got)
				}
			}
		}
	})
}

var (
	macro  = regexp.MustCompile(`(?m)^\.(\w+ ?|\\".*$)`)
	escape = regexp.MustCompile(`\\(?:f[BIRP]|&)`)
)

// plain returns the text of a page without macros, fonts and escapes.
func plain(page string) string {
	page = escape.ReplaceAllString(macro.ReplaceAllString(page, ""), "")
	return strings.NewReplacer(`\-`, "-", `\(cq`, "'", `\(rs`, `\`, `\\`, `\`, `\~`, "~").Replace(page)
}

// readPage returns what a reader sees of a page, in lines so long that no word is split.
func readPage(t *testing.T, reader, page string) string {
	t.Helper()
	cmd := exec.Command(reader, "-l", page)
	cmd.Env = append(os.Environ(), "MANWIDTH=2000", "MANPAGER=cat", "LC_ALL=C.UTF-8", "MAN_KEEP_FORMATTING=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", page, err, out)
	}
	return string(out)
}

// words returns a text with single spaces and the characters of a terminal.
func words(text string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("‐", "-", "−", "-", "’", "'", "‘", "`").Replace(text)), " ")
}

// The completions are valid in the shells that are there, and know the commands and flags.
func TestCompletions(t *testing.T) {
	for shell, marks := range map[string]string{"bash": "__start_freshet", "zsh": "#compdef freshet", "fish": "complete -c freshet"} {
		script, err := exec.Command(binary(t), "completion", shell).Output()
		if err != nil || !bytes.Contains(script, []byte(marks)) {
			t.Fatalf("%s: %v", shell, err)
		}
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				clitest.SkipPart(t, shell, "install "+shell)
			}
			file := filepath.Join(t.TempDir(), "completion")
			if err := os.WriteFile(file, script, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command(path, "-n", file).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	for line, want := range map[string]string{"query sh": "show\t", "endpoint add --pa": "--pack\t", "heal": "health\t"} {
		_, out, _ := runCLI(t, nil, "", append([]string{cobra.ShellCompRequestCmd}, strings.Fields(line)...)...)
		if !strings.HasPrefix(out, want) {
			t.Errorf("%s is completed with %q, not %q", line, out, want)
		}
	}
}

// `freshet health` reports the answer of /readyz by its text and its exit code.
func TestHealth(t *testing.T) {
	p := clitest.Serve(t, binary(t), "127.0.0.1:0", t.TempDir(), "")
	clitest.Eventually(t, "a server that is ready", func() bool {
		code, out, _ := runCLI(t, nil, "", "health", "--server", p.Url)
		return code == cli.ExitOK && out == "ready\n"
	})
	if code, out, _ := runCLI(t, nil, "", "health", "--server", p.Url, "--json"); code != cli.ExitOK ||
		out != `{"ready":true,"state":"ready"}`+"\n" {
		t.Errorf("exit code %d, %s", code, out)
	}
	p.Kill()
	if code, _, stderr := runCLI(t, nil, "", "health", "--server", p.Url); code != cli.ExitUnreachable || !strings.Contains(stderr,
		"freshet serve") {
		t.Errorf("without a server: exit code %d, %s", code, stderr)
	}
}
