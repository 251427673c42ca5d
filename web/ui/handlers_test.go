package ui

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestTypesHaveFewMethods checks that each page or group of pages has its own handler, so that no
// type becomes too large to understand.
func TestTypesHaveFewMethods(t *testing.T) {
	const most = 20
	files, err := filepath.Glob("*.go")
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
			if g, ok := typ.(*ast.IndexExpr); ok { // a generic type
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
	if methods["visit"] == 0 {
		t.Error("the requests have another type by now")
	}
}
