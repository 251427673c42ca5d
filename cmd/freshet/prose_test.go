package main

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// avoided are words that make sentences harder to read than necessary. Each has
// a plain replacement: "any caller", "no client", "again", "of it", "is",
// "reports", "except".
var avoided = regexp.MustCompile(`(?i)\b(whoever|nobody|anew|heed(s|ed)?|thereof|stands|(tell|tells|told) of|but for)\b`)

// notOurs are files with words of others, and this one.
var notOurs = []string{"LICENSE", "package-lock.json", "go.sum", "prose_test.go", ".git"}

// TestLongProse reads the comments and strings of Go files, and all of every other text file:
// documents, templates, scripts, styles, configuration.
func TestLongProse(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "node_modules", "testdata", "test-output", "bin"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() || d.Type()&fs.ModeSymlink != 0 || slices.Contains(notOurs, d.Name()):
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil || bytes.IndexByte(text, 0) >= 0 { // a binary
			return err
		}
		seen++
		for _, line := range avoidedIn(file, text) {
			t.Errorf("%s: %s", file, line)
		}
		return nil
	})
	if err != nil || seen < 500 {
		t.Errorf("%d files read: %v", seen, err)
	}
}

// avoidedIn returns the lines of a file that contain an avoided word. In Go files it reads
// comments and strings.
func avoidedIn(file string, text []byte) (lines []string) {
	parts := []string{string(text)}
	if filepath.Ext(file) == ".go" {
		parts = prose(text)
	}
	for _, part := range parts {
		for _, paragraph := range strings.Split(part, "\n") {
			if word := avoided.FindString(paragraph); word != "" {
				lines = append(lines, word+": "+strings.TrimSpace(paragraph))
			}
		}
	}
	return lines
}

// prose returns the strings of a Go file, and each of its comments as one line, so that phrases
// are found across line breaks.
func prose(text []byte) (list []string) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, text, nil, scanner.ScanComments)
	last := -1
	for {
		pos, kind, literal := s.Scan()
		switch {
		case kind == token.EOF:
			return list
		case kind == token.STRING:
			list, last = append(list, literal), -1
			continue
		case kind != token.COMMENT:
			last = -1
			continue
		}
		literal = strings.Join(strings.Fields(strings.TrimPrefix(literal, "//")), " ")
		if line := file.Line(pos); last > 0 && line == last+1 {
			list[len(list)-1] += " " + literal
			last = line
		} else {
			list, last = append(list, literal), line
		}
	}
}

func TestProseFindsWords(t *testing.T) {
	source := "package x\n\n// This reads\n// a file but\n// for its head.\nvar a = \"whoever\" // it stands here\n"
	if got := avoidedIn("x.go", []byte(source)); len(got) != 3 {
		t.Errorf("found %q, want two comments and a string", got)
	}
	if got := avoidedIn("x.md", []byte("Nobody\nreads it. Understands, withstands.")); len(got) != 1 {
		t.Errorf("found %q, want one line", got)
	}
}
