package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// TestDocCommentsNameTheirSubject checks that a doc comment that begins with a lower-case word
// begins with the name that it documents, so that comments follow renames. Comments that begin
// with a capital are sentences of another form. It also checks that each file begins with a
// comment: on its package, on itself, or on its main type.
func TestDocCommentsNameTheirSubject(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "node_modules", "testdata"}, d.Name()):
			return fs.SkipDir
		case filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		seen++
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, bad := range misnamedComments(f) {
			t.Errorf("%s: %s", file, bad)
		}
		if !saysItsJob(f) {
			t.Errorf("%s: no comment before the first declaration says what the file is for", file)
		}
		return nil
	})
	if err != nil || seen < 300 {
		t.Errorf("%d files read: %v", seen, err)
	}
}

// saysItsJob reports whether a comment precedes a file's first declaration.
func saysItsJob(f *ast.File) bool {
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.IMPORT {
			continue
		}
		return slices.ContainsFunc(f.Comments, func(c *ast.CommentGroup) bool { return c.Pos() < d.Pos() && c.Text() != "" })
	}
	return true
}

func TestSaysItsJob(t *testing.T) {
	for text, want := range map[string]bool{
		"// Package p is small.\npackage p\nvar x int":                  true,
		"package p\n\n// This file adds.\n\nimport \"fmt\"\nvar x int":  true,
		"package p\nimport \"fmt\"\n// x counts.\nvar x int":            true,
		"package p\nimport \"fmt\"\nvar x int\n// f adds.\nfunc f() {}": false,
		"//go:build race\n\npackage p\nconst race = true":               false,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", text, parser.ParseComments)
		if err != nil || saysItsJob(f) != want {
			t.Errorf("%q: says its job: %v, want %v (%v)", text, !want, want, err)
		}
	}
}

func misnamedComments(f *ast.File) (bad []string) {
	check := func(doc *ast.CommentGroup, names ...*ast.Ident) {
		word, _, _ := strings.Cut(doc.Text(), " ")
		word = strings.TrimRight(strings.Split(word, "\n")[0], ".,:;")
		if r, _ := utf8.DecodeRuneInString(word); !unicode.IsLower(r) || len(names) == 0 {
			return
		}
		if !slices.ContainsFunc(names, func(n *ast.Ident) bool { return n.Name == word }) {
			bad = append(bad, "the comment of "+names[0].Name+" begins with "+word)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			check(n.Doc, n.Name)
			return false // comments within functions may begin with any word
		case *ast.GenDecl:
			if len(n.Specs) != 1 {
				break
			}
			switch s := n.Specs[0].(type) {
			case *ast.TypeSpec:
				check(n.Doc, s.Name)
			case *ast.ValueSpec:
				check(n.Doc, s.Names...)
			}
		case *ast.TypeSpec:
			check(n.Doc, n.Name)
		case *ast.ValueSpec:
			check(n.Doc, n.Names...)
		case *ast.Field:
			check(n.Doc, n.Names...)
		}
		return true
	})
	return bad
}

func TestMisnamed(t *testing.T) {
	const text = `package p

// old does it.
func renamed() {}

// kept does it.
func kept() {}

// A sentence begins with a capital.
type thing struct {
	// gone is a field.
	field int
}
`
	f, err := parser.ParseFile(token.NewFileSet(), "p.go", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"the comment of renamed begins with old", "the comment of field begins with gone"}
	if got := misnamedComments(f); !slices.Equal(got, want) {
		t.Errorf("misnamed: %q, want %q", got, want)
	}
}
