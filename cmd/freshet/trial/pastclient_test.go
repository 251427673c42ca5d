// This file tests what the clients for JavaScript and Python read of the past, and the notebook.

package trial

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// Past states that the clients read are those that the results had, also after a crash, and
// differences lead from each to each.
func TestPastClients(t *testing.T) {
	t.Parallel()
	const last = 5
	s := newTestServer(t, "")
	queries := map[string]string{
		"select":    "SELECT ?s ?n { ?s <http://x/n> ?n }",
		"ordered":   "SELECT ?s ?n { ?s <http://x/n> ?n } ORDER BY DESC(?n)",
		"construct": "CONSTRUCT { ?s <http://x/m> [ <http://x/k> ?n ] } WHERE { ?s <http://x/n> ?n }",
	}
	for name, text := range queries {
		s.must(t, text, "query", "add", "--name", name, "-")
	}
	s.must(t, "", "endpoint", "tick", "city")
	was := map[string][]string{} // the documents of each query, by seq − 1
	for n := 1; ; n++ {
		for name := range queries {
			was[name] = append(was[name], s.results(name))
		}
		if n == last {
			break
		}
		if n == 3 {
			s.Update(t, "DELETE WHERE { <http://x/1> ?p ?o }")
			s.crash()
		}
		s.step(n)
	}
	for client, command := range map[string]func(query string) *exec.Cmd{
		"JavaScript": func(query string) *exec.Cmd {
			clitest.NeedNode(t, jsClient)
			cmd := exec.Command("node", append(websocketFlag(t), "driver/past.js", s.srv.Url, query, strconv.Itoa(last))...)
			cmd.Dir, cmd.Stderr = jsClient, os.Stderr
			return cmd
		},
		"Python": func(query string) *exec.Cmd {
			clitest.NeedPython(t)
			return inPython("past.py", s.srv.Url, query, strconv.Itoa(last))
		},
	} {
		t.Run(client, func(t *testing.T) {
			for query, documents := range was {
				out, err := command(query).Output()
				if err != nil {
					t.Fatalf("%s: %v\n%s", query, err, out)
				}
				pairs, refusals := 0, ""
				for line := range strings.Lines(string(out)) {
					var l struct {
						From, To, At, Status int
						Before, After, Kind  string
					}
					if err := json.Unmarshal([]byte(line), &l); err != nil {
						t.Fatalf("%s: %v", line, err)
					}
					if l.Status != 0 {
						refusals += fmt.Sprintf("%d %s ", l.Status, l.Kind)
						continue
					}
					pairs++
					if l.Before != documents[l.From-1] || l.After != documents[l.To-1] || l.At != l.To {
						t.Errorf("%s from %d to %d (at %d):\n%s\n%s\nwant\n%s\n%s", query, l.From, l.To, l.At, l.Before, l.After,
							documents[l.From-1], documents[l.To-1])
					}
				}
				if pairs != last*(last+1)/2 || refusals != "404 not-found 404 no-result " {
					t.Errorf("%s: %d pairs of states, refusals %q", query, pairs, refusals)
				}
			}
		})
	}
}

// The cells of the notebook run one after another, and the follower sees a change that comes
// meanwhile. The notebook is stored without outputs.
func TestNotebook(t *testing.T) {
	clitest.NeedPython(t)
	text, err := os.ReadFile(filepath.Join(jsClient, "python", "example.ipynb"))
	if err != nil {
		t.Fatal(err)
	}
	var book struct {
		Nbformat int
		Cells    []struct {
			Type    string `json:"cell_type"`
			Count   *int   `json:"execution_count"`
			Outputs []any
			Source  []string
		}
	}
	if err := json.Unmarshal(text, &book); err != nil || book.Nbformat != 4 {
		t.Fatalf("nbformat %d: %v", book.Nbformat, err)
	}
	cells := 0
	for i, c := range book.Cells {
		if len(c.Outputs) > 0 || c.Count != nil {
			t.Errorf("cell %d was stored with its output", i)
		}
		if c.Type == "code" {
			cells++
		}
	}
	s := newTestServer(t, "")
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	s.step(1)
	s.step(2)
	cmd := inPython("-u", "-c", `import json
names = {}
with open("example.ipynb") as f:
    book = json.load(f)
for cell in book["cells"]:
    if cell["cell_type"] == "code":
        exec("".join(cell["source"]), names)
        print("%%% end of a cell")`)
	cmd.Env = append(os.Environ(), "FRESHET_SERVER="+s.srv.Url, "FRESHET_QUERY=rows")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() }) // a cell that waits for ever
	defer limit.Stop()
	var out strings.Builder
	ended := 0
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		out.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "%%%") {
			ended++
		}
		if lines.Text() == "3 +3 −0" { // the follower has the result
			s.step(3)
		}
	}
	if err := cmd.Wait(); err != nil || ended != cells {
		t.Fatalf("%d of %d cells ran: %v\n%s", ended, cells, err, out.String())
	}
	for _, want := range []string{"3 rows: s, n\n", "\n2 ", "2 rows are new since change 1, 0 are gone\n", "4 +1 −0\n",
		"['document', 'epoch', 'form', 'ordered', 'seq']\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the cells do not print %q:\n%s", want, out.String())
		}
	}
}

// needModules skips a test if npm packages of the client are missing.
func needModules(t *testing.T, modules ...string) {
	t.Helper()
	clitest.NeedNode(t, jsClient)
	for _, module := range modules {
		if _, err := os.Stat(filepath.Join(jsClient, "node_modules", module)); err != nil {
			clitest.SkipPart(t, "npm", `run "npm ci --prefix web/client"`)
		}
	}
}
