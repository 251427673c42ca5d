package ui

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Exceptions: the distance of a time from now, which static/live.js writes, too; the notation of
// blackouts in forms and in the configuration file; an attribute; a list of classes.
var wordsInGo = []string{" ago", "in ", " for ", " autofocus", "mono dim"}

var (
	phrase = regexp.MustCompile(`[a-z]{2,} |[ ,][a-z]{2,}`)
	// markup, tags, addresses, messages of a stream, layouts of times, schedules
	notText = regexp.MustCompile(`[<;&=%/]|Jan|\n|^[@:]| data-|^json:`)
)

// TestWordsAreInTemplates checks that the Go files hold no text of the pages. Errors have their own
// words, which the API sends, too.
func TestWordsAreInTemplates(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if ofError(n) {
				return false
			}
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != gotoken.STRING {
				return true
			}
			if s, _ := strconv.Unquote(l.Value); phrase.MatchString(s) && !notText.MatchString(s) && !slices.Contains(wordsInGo, s) {
				t.Errorf("%s: %q belongs in a template", name, s)
			}
			return true
		})
	}
}

// ofError reports whether a node holds the text of an error or of the log, and no text of a page.
func ofError(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ImportSpec:
		return true
	case *ast.CompositeLit:
		x, ok := n.Type.(*ast.SelectorExpr)
		return ok && x.Sel.Name == "Problem"
	case *ast.CallExpr:
		switch f := n.Fun.(type) {
		case *ast.Ident:
			return f.Name == "forbidden" || f.Name == "tooFar"
		case *ast.SelectorExpr:
			return slices.Contains([]string{"Errorf", "New", "Warn", "Error", "BadSetting"}, f.Sel.Name)
		}
	}
	return false
}

// TestLongStylesAreUsed checks that each class of the style sheet occurs in a template, a Go file or a
// script.
func TestLongStylesAreUsed(t *testing.T) {
	var used strings.Builder
	for _, pattern := range []string{"*.go", "templates/*.html", "static/*.js"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(name, "_test.go") {
				used.Write(text)
			}
		}
	}
	css, err := os.ReadFile("static/freshet.css")
	if err != nil {
		t.Fatal(err)
	}
	css = regexp.MustCompile(`(?s)/\*.*?\*/|\{[^{}]*\}`).ReplaceAll(css, nil)
	for _, m := range regexp.MustCompile(`\.([a-z][a-z0-9-]*)`).FindAllStringSubmatch(string(css), -1) {
		if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(used.String()) {
			t.Errorf("no page has the class %s", m[1])
		}
	}
}
