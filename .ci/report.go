//go:build ignore

// Command report runs commands whose output is that of `go test -json`, all at
// the same time, and then those after the argument "then". It prints what failed,
// and ends with what was slowest, what ran and what was skipped.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sort"
	"strings"
	"sync"
)

type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// A key names a test of a run: a package has tests in several runs.
type key struct {
	run       int
	pkg, test string
}

// A report collects the events of all runs.
type report struct {
	mu               sync.Mutex
	output           map[key][]string
	count            map[string]int
	seconds          map[string]float64 // by test
	failed, skipped  []string
	packages, broken int
}

func main() {
	out := flag.String("out", "", "file for the closing lines")
	flag.Parse()
	r := &report{output: map[key][]string{}, count: map[string]int{}, seconds: map[string]float64{}}
	var runs sync.WaitGroup
	for i, command := range flag.Args() {
		if command == "then" {
			runs.Wait()
			continue
		}
		runs.Go(func() {
			if err := r.run(i, command); err != nil {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.broken++
				r.failed = append(r.failed, err.Error()+": "+command)
			}
		})
	}
	runs.Wait()
	r.end(*out)
}

// run runs one command and reads its output.
func (r *report) run(i int, command string) error {
	cmd := exec.Command("bash", "-c", command)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	unread := r.read(i, pipe)
	return errors.Join(cmd.Wait(), unread)
}

// read takes the events of one run.
func (r *report) read(run int, from io.ReadCloser) error {
	defer from.Close() // ends a run whose output could not be read
	in := bufio.NewScanner(from)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var e event
		r.mu.Lock()
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Println(in.Text())
		} else {
			r.take(run, e)
		}
		r.mu.Unlock()
	}
	return in.Err()
}

func (r *report) take(run int, e event) {
	k := key{run, e.Package, e.Test}
	switch e.Action {
	case "output":
		r.output[k] = append(r.output[k], e.Output)
	case "build-output":
		fmt.Print(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packages++
			fmt.Printf("%s\t%s\t%.1fs\n", e.Action, e.Package, e.Elapsed)
			if e.Action == "fail" {
				r.broken++
				for other, lines := range r.output { // of tests that never ended, too
					if other.run == run && other.pkg == e.Package {
						fmt.Print(strings.Join(lines, ""))
					}
				}
			}
			return
		}
		r.count[e.Action]++
		name := e.Package[strings.LastIndex(e.Package, "freshet/")+len("freshet/"):] + "." + e.Test
		if !strings.Contains(e.Test, "/") {
			r.seconds[name] = e.Elapsed
		}
		if e.Action == "fail" {
			r.failed = append(r.failed, name)
			fmt.Print(strings.Join(r.output[k], ""))
		}
		if e.Action == "skip" {
			r.skipped = append(r.skipped, name+": "+reason(r.output[k]))
		}
		delete(r.output, k)
	}
}

// end prints the closing lines, writes them to a file, and exits with a status.
func (r *report) end(out string) {
	var b strings.Builder
	tests := slices.SortedFunc(maps.Keys(r.seconds), func(a, b string) int { return cmp.Compare(r.seconds[b], r.seconds[a]) })
	for _, name := range tests[:min(len(tests), 40)] {
		fmt.Fprintf(&b, "%6.1fs  %s\n", r.seconds[name], name)
	}
	sort.Strings(r.skipped)
	for _, s := range r.failed {
		fmt.Fprintf(&b, "FAILED  %s\n", s)
	}
	for _, s := range r.skipped {
		fmt.Fprintf(&b, "skipped %s\n", s)
	}
	fmt.Fprintf(&b, "%d packages; parts required: %s\n", r.packages, or(os.Getenv("FRESHET_REQUIRE"), "none"))
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped\n", r.count["pass"], max(r.count["fail"], r.broken), r.count["skip"])
	fmt.Print(b.String())
	if out != "" {
		if err := os.WriteFile(out, []byte(b.String()), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if r.broken > 0 || r.count["fail"] > 0 || r.count["pass"] == 0 {
		os.Exit(1)
	}
}

// reason is the message that a test was skipped with.
func reason(lines []string) string {
	for _, l := range lines {
		if _, msg, ok := strings.Cut(l, "_test.go:"); ok {
			if _, msg, ok = strings.Cut(msg, ": "); ok {
				return strings.TrimSpace(msg)
			}
		}
	}
	return "no reason given"
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
