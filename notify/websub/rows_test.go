package websub_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// rows counts the requirements on hubs (H) and publishers (P), and our own requirements of
// safety (X).
var rows = map[string]int{"H": 60, "P": 10, "X": 9}

// Every requirement has a test with its number in the name. The tests of the publisher are
// with the whole server.
func TestEveryRowHasATest(t *testing.T) {
	name := regexp.MustCompile(`(?m)^func Test((?:[HPX]\d+)+)`)
	row := regexp.MustCompile(`[HPX]\d+`)
	tested := map[string]bool{}
	for _, glob := range []string{"*_test.go", "../../cmd/freshet/trial/*_test.go"} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", glob, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range name.FindAllStringSubmatch(string(text), -1) {
				for _, id := range row.FindAllString(m[1], -1) {
					tested[id] = true
				}
			}
		}
	}
	for kind, n := range rows {
		for i := range n {
			if id := fmt.Sprint(kind, i+1); !tested[id] {
				t.Errorf("no test is named by %s", id)
			}
		}
	}
}
