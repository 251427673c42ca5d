package docs_test

import (
	"os"
	"strings"
	"testing"
)

// The page on writing a policy shows the code that the scheduler's tests run.
func TestPolicyPage(t *testing.T) {
	page, err := os.ReadFile("policies.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../../scheduler/policy/documented_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, begun := strings.Cut(string(source), "// begin example\n")
	code, _, ended := strings.Cut(code, "\n// end example")
	if !begun || !ended {
		t.Fatal("the marks of the example are gone")
	}
	if !strings.Contains(string(page), "```go\n"+code+"```\n") {
		t.Error("policies.md does not show the code of scheduler/policy/documented_test.go")
	}
	if n := strings.Count(code, "\n"); n > 60 {
		t.Errorf("the example has %d lines, it promises to be short: 60", n)
	}
}
