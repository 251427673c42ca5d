package scheduler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// The methods of loopData need the lock, so none acquires it.
func TestMethodsOfLoopDataNeedTheLock(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	methods := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || !isPointerTo(fn.Recv.List[0].Type, "loopData") {
				continue
			}
			methods++
			ast.Inspect(fn, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && strings.Contains(strings.ToLower(s.Sel.Name), "lock") && s.Sel.Name != "clock" {
					t.Errorf("%s: %s uses %s; its caller holds the lock", file, fn.Name.Name, s.Sel.Name)
				}
				return true
			})
		}
	}
	if methods == 0 {
		t.Error("loopData has no methods: does it have another name by now?")
	}
}

func isPointerTo(typ ast.Expr, name string) bool {
	p, ok := typ.(*ast.StarExpr)
	if !ok {
		return false
	}
	x, ok := p.X.(*ast.Ident)
	return ok && x.Name == name
}
