package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// The JSON results of workloads agree with results computed by hand.
func TestBenchWorkloads(t *testing.T) {
	for _, c := range []struct {
		name, bench, workload, policies string
		want                            []string
	}{
		// Chronon 1: resource 2 has one chronon left, 0 has two. 2: 0 has one, 1 two.
		// 3: 1 has one left, 0 two. wic: 0 and 2 have one update each, ties go to 0; then
		// 1; resource 2's update of chronon 1 is too old from chronon 3 on.
		{"cei", "cei", `{"n":3,"K":4,"C":1,"ceis":[
			{"profile":0,"eis":[{"resource":0,"start":1,"finish":2},{"resource":1,"start":2,"finish":3}]},
			{"profile":1,"eis":[{"resource":2,"start":1,"finish":1}]},
			{"profile":1,"eis":[{"resource":0,"start":3,"finish":4}]}],
			"life":"window","W":1,"updates":[[1,3],[2],[1]]}`, "sedf:np,mrsf:p,wic", []string{
			`{"policy":"sedf:np","captured":3,"completeness":1,"probes":[[2],[0],[1],[0]]}`,
			`{"policy":"mrsf:p","captured":3,"completeness":1,"probes":[[2],[0],[1],[0]]}`,
			`{"policy":"wic","captured":2,"completeness":0.6666666666666666,"probes":[[0],[1],[0],[]]}`,
		}},
		// In the first chronon all three CEIs have an EI of the same value and finish: the
		// first two CEIs go first. A CEI of rank 1 in a profile of rank 2 counts as 2.
		{"cei of two probes", "cei", `{"n":4,"K":2,"C":2,"ceis":[
			{"profile":7,"eis":[{"resource":3,"start":1,"finish":1}]},
			{"profile":8,"eis":[{"resource":1,"start":1,"finish":1}]},
			{"profile":9,"eis":[{"resource":0,"start":1,"finish":1}]},
			{"profile":7,"eis":[{"resource":2,"start":2,"finish":2},{"resource":1,"start":2,"finish":2}]},
			{"profile":8,"eis":[{"resource":0,"start":2,"finish":2}]}]}`, "sedf:p,mrsf:p", []string{
			`{"policy":"sedf:p","captured":3,"completeness":0.6,"probes":[[3,1],[2,1]]}`,
			`{"policy":"mrsf:p","captured":3,"completeness":0.6,"probes":[[1,0],[0,2]]}`,
		}},
		{"budgets by chronon", "cei", `{"n":2,"K":3,"C":[0,2,0],"ceis":[
			{"profile":0,"eis":[{"resource":0,"start":1,"finish":3},{"resource":1,"start":2,"finish":2}]}]}`, "medf:np", []string{
			`{"policy":"medf:np","captured":1,"completeness":1,"probes":[[],[1,0],[]]}`,
		}},
		// The true second update lives in [9,14], the model's in [4,7] and its fourth in
		// [12,20]. The probe at 7 finds one update: the next after it in the model is at
		// 8, until 11.
		{"sup", "sup", `{"N":20,"X":2,"life":"overwrite","Y":0,"updates":[3,9,15],"model":[2,4,8,12]}`, "optimal,sup,fbsup", []string{
			`{"policy":"optimal","probes":[14],"utility":1}`,
			`{"policy":"sup","probes":[7,20],"utility":0}`,
			`{"policy":"fbsup","probes":[7,11,20],"utility":1}`,
		}},
		{"sup with windows", "sup", `{"N":20,"X":1,"life":"window","Y":4,"updates":[3,5,18],"model":[]}`, "optimal,sup", []string{
			`{"policy":"optimal","probes":[7,20],"utility":3}`,
			`{"policy":"sup","probes":[],"utility":0}`,
		}},
		// Gains: 0.5, 0.25; then 0, 0.75; then 0.5, 0.
		{"wic", "wic", `{"n":2,"N":3,"C":1,"life":{"kind":"append"},"urgency":{"kind":"uniform"},"pi":[[0.5,0,0.5],[0.25,0.5,0]]}`,
			"wic", []string{
				`{"policy":"wic","schedule":[[0],[1],[0]],"utility":1.75}`,
			}},
		// Weighed, and decaying by half: 0.25, 0.25 (ties to the smaller page); then 0.25,
		// 0.5 + 0.25/2; then 0.25·0.5/2 and nothing; pages without gain are not monitored.
		{"wic with weights", "wic", `{"n":2,"N":3,"C":1,"life":{"kind":"overwrite"},"urgency":{"kind":"exp","param":0.5},` +
			`"weights":[0.5,1],"pi":[[0.5,0.5,0],[0.25,0.5,0]]}`, "wic", []string{
			`{"policy":"wic","schedule":[[0],[1],[0]],"utility":0.9375}`,
		}},
		{"allocation", "allocation", `{"rates":[4,9,1],"weights":[1,1,4],"N":14}`, "sqrt", []string{
			`{"policy":"sqrt","m":[4,6,4],"delay":1.75}`, // 4/8 + 9/12 + 4/8
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			in, again := filepath.Join(dir, "in.json"), filepath.Join(dir, "again.json")
			if err := os.WriteFile(in, []byte(c.workload), 0o600); err != nil {
				t.Fatal(err)
			}
			code, out, stderr := runCLI(t, nil, "", "bench", c.bench, "--workload", in, "--policy", c.policies, "--json", "--out", again)
			if code != cli.ExitOK || stderr != "" {
				t.Fatalf("code %d, %s", code, stderr)
			}
			if want := strings.Join(c.want, "\n") + "\n"; out != want {
				t.Errorf("printed\n%s\nwant\n%s", out, want)
			}
			if code, twice, _ := runCLI(t, nil, "", "bench", c.bench, "--workload", again, "--policy", c.policies,
				"--json"); code != cli.ExitOK || twice != out {
				t.Errorf("what was written back gives\n%s", twice)
			}
			if code, table, _ := runCLI(t, nil, "", "bench", c.bench, "--workload", in); code != cli.ExitOK || !strings.HasPrefix(table, "policy ") {
				t.Errorf("the table of all policies: code %d\n%s", code, table)
			}
		})
	}
}

// Two retrievals of a source that posts in the first quarter of the day alone. The
// delay of one at 1/8 and one at 1/4 is (1/8)²/2 for each half, 4 postings a day.
func TestBenchRetrieval(t *testing.T) {
	in := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(in, []byte(`{"daily":[4,0,0,0],"m":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := runCLI(t, nil, "", "bench", "allocation", "--workload", in, "--policy", "retrieval", "--json")
	var r struct {
		Policy string    `json:"policy"`
		Tau    []float64 `json:"tau"`
		Delay  float64   `json:"delay"`
	}
	if err := json.Unmarshal([]byte(out), &r); code != cli.ExitOK || err != nil {
		t.Fatalf("code %d, %v, %s", code, err, stderr)
	}
	near := func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }
	if r.Policy != "retrieval" || len(r.Tau) != 2 || !near(r.Tau[0], 0.125) || !near(r.Tau[1], 0.25) || !near(r.Delay, 4.0/64) {
		t.Errorf("%+v", r)
	}
}

// The same flags give the same workload, and a written workload gives the same results
// when it is read. Another seed gives another workload.
func TestBenchGenerated(t *testing.T) {
	for bench, flags := range map[string][]string{
		"cei": {"--resources", "50", "--profiles", "20", "--chronons", "200", "--lambda", "9", "--alpha", "1", "--life",
			"overwrite", "--budget", "1,0,2"},
		"sup":        {"--data", "rss", "--x", "3", "--life", "window,5", "--model", "learned"},
		"wic":        {"--pages", "9", "--instants", "90", "--urgency", "sliding,3", "--life", "changes,2", "--budget", "2"},
		"allocation": {"--sources", "30", "--days", "3", "--per-day", "2"},
	} {
		t.Run(bench, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "w.json")
			run := func(args ...string) string {
				t.Helper()
				code, out, stderr := runCLI(t, nil, "", append([]string{"bench", bench, "--json"}, args...)...)
				if code != cli.ExitOK || out == "" {
					t.Fatalf("%v: code %d, %s", args, code, stderr)
				}
				return out
			}
			made := run(append(flags, "--seed", "3", "--out", file)...)
			if again := run(append(flags, "--seed", "3")...); again != made {
				t.Error("the same seed made another workload")
			}
			if read := run("--workload", file); read != made {
				t.Error("the workload gives other results when it is read again")
			}
			if other := run(append(flags, "--seed", "4")...); other == made {
				t.Error("another seed made the same workload")
			}
		})
	}
}

// A written workload has every field of the format, with empty lists instead of null.
func TestBenchWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.json")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"cei", "--lambda", "0", "--resources", "2", "--rank", "2", "--chronons", "3"},
			`{"n":2,"K":3,"C":1,"ceis":[],"life":"window","W":10,"updates":[[],[]]}`},
		{[]string{"sup", "--data", "week", "--model", "poisson"}, `"updates":[]`},
		{[]string{"sup", "--data", "week", "--model", "learned"}, `"model":[`},
		{[]string{"wic", "--urgency", "exp,0", "--life", "window,0"}, `"life":{"kind":"window","W":0},"urgency":{"kind":"exp","param":0}`},
	} {
		code, _, stderr := runCLI(t, nil, "", append(append([]string{"bench"}, c.args...), "--out", file)...)
		text, err := os.ReadFile(file)
		if code != cli.ExitOK || err != nil {
			t.Fatalf("%v: code %d, %v, %s", c.args, code, err, stderr)
		}
		if !strings.Contains(string(text), c.want) || strings.Contains(string(text), "null") {
			t.Errorf("%v: no %s, or null, in %.300s", c.args, c.want, text)
		}
	}
}

func TestBenchWorkloadMistakes(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) string {
		path := filepath.Join(dir, "w.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, args := range [][]string{
		{"cei", "--policy", "nonsense"}, {"cei", "--policy", "sedf:x"}, {"cei", "--workload", filepath.Join(dir, "none")}, {"cei", "--rank", "0"},
		{"cei", "--budget", "x"}, {"cei", "--life", "window"}, {"sup", "--life", "append"}, {"sup", "--data", "other"},
		{"sup", "--x", "0"}, {"wic", "--urgency", "exp,3"},
		{"wic", "--policy", "sedf:p"}, {"allocation", "--policy", "sqrt"}, {"cei", "--figures", dir, "--seeds", "0"},
		{"cei", "--figures", dir, "--seed", "3"},
		{"cei", "--seeds", "3"}, {"cei", "--workload", write(`{}`), "--seeds", "3"}, {"wic", "--figures", dir, "--json"},
		{"sup", "--figures", dir, "--workload", write(`{}`)},
		{"cei", "--workload", write(`{}`), "--seed", "2"},
	} {
		if code, out, stderr := runCLI(t, nil, "", append([]string{"bench"}, args...)...); code != cli.ExitUsage || stderr == "" || out != "" {
			t.Errorf("%v: code %d, %q, %q; want a usage error", args, code, out, stderr)
		}
	}
	for bench, text := range map[string]string{
		"cei": `{"n":1,"K":3,"C":1,"ceis":[{"profile":0,"eis":[{"resource":1,"start":1,"finish":1}]}]}`,
		"sup": `{"N":3,"X":1,"life":"overwrite","updates":[4],"model":[]}`, "wic": `{"n":1,"N":2,"C":1,"pi":[[1]]}`,
		"allocation": `{"daily":[],"m":2}`,
	} {
		if code, _, stderr := runCLI(t, nil, "", "bench", bench, "--workload", write(text)); code != cli.ExitFailure ||
			!strings.Contains(stderr, "bad workload") {
			t.Errorf("%s of %s: code %d, %q", bench, text, code, stderr)
		}
	}
}
