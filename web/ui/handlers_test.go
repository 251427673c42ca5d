package ui

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestTypesHaveFewMethods checks that each page and each group of calls has its own handler, and
// each subject its own store, so that no type becomes too large to understand.
func TestTypesHaveFewMethods(t *testing.T) {
	fewMethods(t, "*.go", "visit", 20)
	fewMethods(t, "../*.go", "call", 40)
	fewMethods(t, "../../store/*.go", "DB", 40)
}

func fewMethods(t *testing.T, pattern, largest string, most int) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	methods := map[string]int{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			typ := fn.Recv.List[0].Type
			if p, ok := typ.(*ast.StarExpr); ok {
				typ = p.X
			}
			switch g := typ.(type) { // a generic type
			case *ast.IndexExpr:
				typ = g.X
			case *ast.IndexListExpr:
				typ = g.X
			}
			methods[typ.(*ast.Ident).Name]++
		}
	}
	for name, n := range methods {
		if n > most {
			t.Errorf("%s has %d methods, at most %d are wanted", name, n, most)
		}
	}
	if methods[largest] == 0 {
		t.Errorf("%s has no type %s", pattern, largest)
	}
}
