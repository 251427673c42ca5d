package main

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/freshet/freshet/"

// mayImport is the import table: what each package may know of ours. A
// sub-package may import what its parent may, its parent and its siblings.
var mayImport = map[string][]string{
	"diff":      {},
	"registry":  {"diff"},
	"scheduler": {"diff", "registry"},
	"endpoint":  {"diff", "registry"},
	"notify":    {"diff", "registry"},
	"store":     {"diff", "registry", "scheduler", "notify", "web"},
	"bench":     {"diff", "registry", "scheduler"},
	"web":       {"diff", "registry", "scheduler"},
	"cmd":       {"diff", "registry", "scheduler", "endpoint", "notify", "store", "bench", "web"},
}

func TestImportTable(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for d := json.NewDecoder(out); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		seen++
		for _, bad := range violations(p.ImportPath, p.Imports) {
			t.Errorf("%s must not import %s", p.ImportPath, bad)
		}
	}
	if err := cmd.Wait(); err != nil || seen < len(mayImport)-1 {
		t.Fatalf("go list showed %d packages: %v", seen, err)
	}
}

func violations(pkg string, imports []string) []string {
	room := func(p string) string { return strings.SplitN(strings.TrimPrefix(p, module), "/", 2)[0] }
	var bad []string
	from := room(pkg)
	for _, i := range imports {
		if to := room(i); strings.HasPrefix(i, module) && to != from && !slices.Contains(mayImport[from], to) {
			bad = append(bad, i)
		}
	}
	return bad
}

func TestImportTableFindsViolations(t *testing.T) {
	got := violations(module+"diff", []string{"fmt", module + "registry", path.Join(module, "diff/sub")})
	if !slices.Equal(got, []string{module + "registry"}) {
		t.Errorf("violations of diff importing registry: %v", got)
	}
}

// TestBubbles: bubbles of the standard library crash now and then under the race
// detector; those of package bubble, which says why, do not.
func TestBubbles(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || filepath.Base(filepath.Dir(file)) == "bubble" {
			if d != nil && d.Name() == "node_modules" {
				return fs.SkipDir
			}
			return err
		}
		text, err := os.ReadFile(file)
		if bytes.Contains(text, []byte("synctest"+".Test(")) {
			t.Errorf("%s: use bubble.Test", file)
		}
		if bytes.Contains(text, []byte("bubble"+".Test(")) {
			seen++
		}
		return err
	})
	if err != nil || seen == 0 {
		t.Errorf("%d files with bubbles: %v", seen, err)
	}
}
