package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// Each message that the page about troubleshooting quotes is one of the code, and no explanation of a kind of problems, which
// is not printed with an error.
func TestTroubleshootingQuotes(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(docsDir, "troubleshooting.md"))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	err = filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "node_modules":
			return fs.SkipDir
		case filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(file)
		code.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	quotes := regexp.MustCompile(`(?m)^\| "([^"]+)" \|`).FindAllStringSubmatch(string(page), -1)
	for _, m := range quotes {
		if !strings.Contains(code.String(), m[1]) {
			t.Errorf("no message has %q", m[1])
		}
		for _, k := range registry.Kinds() {
			if about, remedy, _ := web.Explain(k); strings.Contains(about+remedy, m[1]) {
				t.Errorf("%q is the explanation of %s", m[1], k)
			}
		}
	}
	if len(quotes) < 5 {
		t.Errorf("%d messages are quoted", len(quotes))
	}
}
