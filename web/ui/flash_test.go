package ui

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEveryMessageHasSentences checks that the template has sentences for each code that
// a form reports, and no others.
func TestEveryMessageHasSentences(t *testing.T) {
	codes := map[string]bool{"follower-pause": true, "follower-resume": true}
	for verb := range verbs {
		codes["query-"+verb], codes["queries-"+verb] = true, true
	}
	reported := regexp.MustCompile(`(?:say\("[a-z]*", |refused\(|Code: )"([a-z-]+[a-z])"`)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range reported.FindAllStringSubmatch(string(text), -1) {
			codes[m[1]] = true
		}
	}
	sentences, err := os.ReadFile("templates/messages.html")
	if err != nil {
		t.Fatal(err)
	}
	for code := range codes {
		if strings.Count(string(sentences), `{{- if eq .Code "`+code+`"}}<p><strong>`)+strings.Count(string(sentences), `{{- else if eq .Code "`+code+`"}}`) != 1 {
			t.Errorf("the code %s has no sentence, or several", code)
		}
	}
	if n := strings.Count(string(sentences), "eq .Code "); n != len(codes) {
		t.Errorf("the template has %d codes, the forms report %d", n, len(codes))
	}
}
