package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/store/journal/postgres/postgrestest"
	"github.com/freshet/freshet/web/docs/docstest"
)

const docsDir = "../../web/docs"

// The commands of all pages, which are their blocks "sh", are typed as they are written.
// What they print is what the page shows.
func TestHowTo(t *testing.T) {
	clitest.NeedEngine(t)
	ran, pages := 0, commandPages(t)
	for _, page := range slices.Sorted(maps.Keys(pages)) { // the longest, cluster.md, is among the first
		text := pages[page]
		ran++
		t.Run(page, func(t *testing.T) {
			t.Parallel() // readers wait most of the time
			needParts(t, text)
			typePage(t, page)
		})
	}
	if ran < 6 {
		t.Errorf("%d pages have commands", ran)
	}
}

// commandPages returns the texts of the pages that have commands, by file.
func commandPages(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(docsDir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		page := filepath.Base(file)
		// The studies take minutes, a policy of one's own needs a checkout, and TestAPIExamples makes the reference.
		if strings.Contains(string(text), "\n```sh\n") && !slices.Contains([]string{"results.md", "policies.md", "reference-api.md"}, page) {
			pages[page] = string(text)
		}
	}
	return pages
}

// needParts skips a page whose programs are missing.
func needParts(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, "python3") {
		clitest.NeedPython(t)
	}
	for _, proxy := range []string{"nginx", "caddy"} {
		if _, err := exec.LookPath(proxy); err != nil && strings.Contains(text, "\n"+proxy+" ") {
			clitest.SkipPart(t, proxy, "apt-get install "+proxy)
		}
	}
	if strings.Contains(text, "\nnode ") {
		clitest.NeedNode(t, "../../web/client")
	}
}

// A block is a part of a page that a test acts on.
type block struct {
	kind  string // "sh", "text", "file", or "test" for commands that readers do not see
	name  string // of the file or the terminal, "" for the terminal at which readers begin
	text  string
	start int // of text in the page
}

var fence = regexp.MustCompile("(?ms)^(?:<!-- (terminal|file): (\\S+) -->\n)?```(\\w+)\n(.*?)^```$|^<!-- test: (.*?) -->$")

// blocksOf returns what a page has its readers type and shows them. A comment "terminal"
// names the terminal of the block below it, and a comment "file" the file that readers put
// it into.
func blocksOf(source string) (blocks []block) {
	for _, m := range fence.FindAllStringSubmatchIndex(source, -1) {
		group := func(n int) string {
			if m[2*n] < 0 {
				return ""
			}
			return source[m[2*n]:m[2*n+1]]
		}
		switch language := group(3); {
		case group(1) == "file":
			blocks = append(blocks, block{"file", group(2), group(4), m[8]})
		case language == "sh", language == "text":
			blocks = append(blocks, block{language, group(2), group(4), m[8]})
		case language == "":
			blocks = append(blocks, block{"test", "", group(5) + "\n", m[10]})
		}
	}
	return blocks
}

var (
	killed   = regexp.MustCompile(`(?m)^bash: line [0-9]+: +[0-9]+ Killed .*\r?\n`)
	listens  = regexp.MustCompile(`(?m)^.*--listen 127\.0\.0\.1:([0-9]+).* &$`)
	backdrop = regexp.MustCompile(`(127\.0\.0\.1(?::|", |', port: ))(3030|5432|808[0-2]|500[1-3]|900[1-3]|844[34])\b`)
)

// An attempt keeps the failures of a test to itself until it is over.
type attempt struct {
	*testing.T
	failures []string
	over     bool
}

func (a *attempt) Errorf(format string, args ...any) {
	if a.over {
		a.T.Errorf(format, args...)
	}
	a.failures = append(a.failures, fmt.Sprintf(format, args...))
}

func (a *attempt) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	runtime.Goexit()
}

func (a *attempt) Fatal(args ...any) {
	a.Fatalf("%s", fmt.Sprint(args...))
}

// typePage types a page. An endpoint has a slot at each minute, which may begin between the commands of a page and differs
// from what the page shows, so a page that fails over the end of a minute is typed again.
func typePage(t *testing.T, page string) {
	t.Helper()
	for again := 2; ; again-- {
		began := time.Now()
		a := &attempt{T: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			runPage(a, page)
		}()
		<-done
		a.over = true
		minute := began.Truncate(time.Minute)
		if len(a.failures) == 0 || again == 0 || time.Now().Truncate(time.Minute).Equal(minute) {
			for _, failure := range a.failures {
				t.Error(failure)
			}
			return
		}
		t.Logf("a minute ended while this page was typed: it is typed again, because of\n%s", strings.Join(a.failures, "\n"))
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + time.Second)))
	}
}

// A reader types the blocks of a page, with free addresses instead of the page's own.
type reader struct {
	t         testing.TB
	ctx       context.Context
	dir       string
	env       []string
	terminals map[string]*terminal
	ports     map[string]string // free ones, by those of the page
	edits     []block           // the outputs that differ from the page
}

func newReader(t testing.TB) *reader {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	return &reader{t: t, ctx: ctx, dir: t.TempDir(), terminals: map[string]*terminal{}, ports: map[string]string{}}
}

// move replaces the addresses of a page by free ones.
func (r *reader) move(source string) string {
	return backdrop.ReplaceAllStringFunc(source, func(address string) string {
		m := backdrop.FindStringSubmatch(address)
		if r.ports[m[2]] == "" {
			_, r.ports[m[2]], _ = strings.Cut(clitest.FreeAddr(r.t), ":")
		}
		return m[1] + r.ports[m[2]]
	})
}

func runPage(t testing.TB, page string) {
	t.Helper()
	path := filepath.Join(docsDir, page)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t)
	r.env = r.environment(strings.Contains(string(text), "freshet bench"))
	if strings.Contains(string(text), "127.0.0.1:5432") {
		server, err := url.Parse(postgrestest.Start(t).URL)
		if err != nil {
			t.Fatal(err)
		}
		r.ports["5432"], r.env = server.Port(), append(r.env, "PGUSER=freshet", "PGPASSWORD=freshet")
	}
	blocks := blocksOf(string(text))
	for i, b := range blocks {
		b.text = r.move(b.text)
		switch b.kind {
		case "file":
			if err := os.WriteFile(filepath.Join(r.dir, b.name), []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
		case "text":
			r.compare(b)
		default:
			out := r.enter(b)
			if shown := i+1 < len(blocks) && blocks[i+1].kind == "text"; out != "" && !shown {
				r.t.Errorf("the page does not show what this prints:\n%s\n%s", b.text, out)
			}
		}
	}
	if *update {
		r.write(path, string(text))
	}
}

// enter types a block. At the first terminal, the reader waits until its commands have
// ended, and sees what they print.
func (r *reader) enter(b block) (output string) {
	text := listens.ReplaceAllString(b.text, "$0\nuntil (: < /dev/tcp/127.0.0.1/$1) 2> /dev/null; do sleep 0.1; done")
	if b.kind == "test" {
		text = "{\n" + text + "} > /dev/null 2>&1\n"
	}
	if b.name != "" {
		r.terminal(b.name).enter(text)
		return ""
	}
	if !r.terminal("").finish(r.ctx, text) {
		r.t.Fatalf("this failed:\n%s\n%s", b.text, r.outputs())
	}
	t := r.terminal("")
	t.last = killed.ReplaceAllString(t.last, "")
	return t.last
}

// outputs returns the end of what each terminal has printed.
func (r *reader) outputs() string {
	var all strings.Builder
	for name, term := range r.terminals {
		text, err := os.ReadFile(term.file)
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&all, "terminal %q:\n%s\n", name, text[max(0, len(text)-4000):])
	}
	return all.String()
}

// compare holds an output of the page against that of its terminal.
func (r *reader) compare(b block) {
	got := r.terminal("").last
	if b.name != "" {
		got = r.terminal(b.name).next(r.ctx, b.text)
	}
	if docstest.Shows(b.text, got) {
		return
	}
	if *update {
		b.text = got
		r.edits = append(r.edits, b)
		return
	}
	r.t.Errorf("an output differs from the page (-page +output); the flag -update writes it there\n%s\n%s",
		cmp.Diff(docstest.Mask(b.text), docstest.Mask(got)), r.outputs())
}

// write puts the outputs that differ into the page.
func (r *reader) write(path, text string) {
	for _, b := range slices.Backward(r.edits) {
		end := b.start + strings.Index(text[b.start:], "```")
		for page, free := range r.ports {
			b.text = strings.ReplaceAll(b.text, "127.0.0.1:"+free, "127.0.0.1:"+page)
		}
		text = text[:b.start] + strings.ReplaceAll(b.text, "\r\n", "\n") + text[end:]
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

var redirected = regexp.MustCompile(`> *([\w.-]+\.(?:txt|json|csv|out))\b`)

// No page hides an output in a file that it does not use.
func TestHowToHidesNothing(t *testing.T) {
	for page, text := range commandPages(t) {
		for _, b := range blocksOf(text) {
			if b.kind != "sh" {
				continue
			}
			for _, m := range redirected.FindAllStringSubmatch(b.text, -1) {
				if file := m[1]; strings.Count(text, file) == strings.Count(text, m[0]) {
					t.Errorf("%s hides an output in %s, which nothing reads:\n%s", page, file, b.text)
				}
			}
		}
	}
}

// When bash says that a process was killed depends on when it looks, so no block has it among its outputs.
func TestReaderLeavesOutKilledProcesses(t *testing.T) {
	r := newReader(t)
	r.env = r.environment(false)
	for _, text := range []string{"sleep 60 &\n", "kill -9 $!\n", "sleep 0.3\n", "sleep 0.1\n"} {
		if out := r.enter(block{kind: "sh", text: text}); out != "" {
			t.Errorf("%q prints %q", text, out)
		}
	}
}
