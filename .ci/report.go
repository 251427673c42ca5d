//go:build ignore

// Command report reads the output of `go test -json`, prints what failed, and
// ends with what ran and what was skipped.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
)

type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

type key struct{ pkg, test string }

func main() {
	out := flag.String("out", "", "file for the closing lines")
	flag.Parse()
	output := map[key][]string{}
	count := map[string]int{}
	var failed, skipped []string
	var packages, broken int
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Println(in.Text())
			continue
		}
		k := key{e.Package, e.Test}
		switch e.Action {
		case "output":
			output[k] = append(output[k], e.Output)
		case "build-output":
			fmt.Print(e.Output)
		case "pass", "fail", "skip":
			if e.Test == "" {
				packages++
				fmt.Printf("%s\t%s\t%.1fs\n", e.Action, e.Package, e.Elapsed)
				if e.Action == "fail" {
					broken++
					for other, lines := range output { // of tests that never ended, too
						if other.pkg == e.Package {
							fmt.Print(strings.Join(lines, ""))
						}
					}
				}
				break
			}
			count[e.Action]++
			name := e.Package[strings.LastIndex(e.Package, "freshet/")+len("freshet/"):] + "." + e.Test
			if e.Action == "fail" {
				failed = append(failed, name)
				fmt.Print(strings.Join(output[k], ""))
			}
			if e.Action == "skip" {
				skipped = append(skipped, name+": "+reason(output[k]))
			}
			delete(output, k)
		}
	}
	var b strings.Builder
	sort.Strings(skipped)
	for _, s := range failed {
		fmt.Fprintf(&b, "FAILED  %s\n", s)
	}
	for _, s := range skipped {
		fmt.Fprintf(&b, "skipped %s\n", s)
	}
	fmt.Fprintf(&b, "%d packages; parts required: %s\n", packages, or(os.Getenv("FRESHET_REQUIRE"), "none"))
	fmt.Fprintf(&b, "%d passed, %d failed, %d skipped\n", count["pass"], max(count["fail"], broken), count["skip"])
	fmt.Print(b.String())
	if *out != "" {
		if err := os.WriteFile(*out, []byte(b.String()), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if broken > 0 || count["fail"] > 0 || count["pass"] == 0 {
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
