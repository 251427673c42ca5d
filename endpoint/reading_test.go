package endpoint

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// numbers repeats a format with the numbers from 0 to n-1.
func numbers(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// wideRow is a result of about n bytes whose one row takes long to read.
func wideRow(n int) string {
	return `{"head":{"vars":["v"` + numbers(n/80, `,"v%d"`) + `]},"results":{"bindings":[{"v":{"type":"uri","value":"u"}` +
		numbers(n/80, `,"v%d":{"type":"bnode","value":"b"}`) + `}]}}`
}

// An answer that takes long to read is cut like one that takes long to arrive.
func TestReadingIsPartOfTheExecution(t *testing.T) {
	body := []byte(wideRow(12 << 20))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typeJSON)
		_, _ = w.Write(body)
	}))
	defer srv.Close()
	for name, set := range map[string]struct {
		timeout, limit time.Duration
		want           registry.Outcome
	}{
		"its timeout":      {60 * time.Millisecond, time.Minute, registry.Timeout},
		"the slot's limit": {time.Minute, 60 * time.Millisecond, registry.Cut},
	} {
		c, err := New(registry.Endpoint{Name: "e", URL: srv.URL, Timeout: registry.Duration(set.timeout), MaxColumns: 1 << 30}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		a := c.Execute(t.Context(), sel("SELECT"), Memory{}, set.limit)
		c.Close()
		if a.Outcome != set.want || a.Result != nil || a.Elapsed < 60*time.Millisecond {
			t.Errorf("%s: %s after %s (%s)", name, a.Outcome, a.Elapsed, a.Error)
		}
	}
}

// The time for reading an answer counts as execution time.
func TestElapsedIncludesReading(t *testing.T) {
	body := []byte(wideRow(8 << 20))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", typeJSON)
		_, _ = w.Write(body)
	}))
	defer srv.Close()
	c, err := New(registry.Endpoint{Name: "e", URL: srv.URL, MaxColumns: 1 << 30}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 5 { // the machine may stop before or after an execution
		start := time.Now()
		a := c.Execute(t.Context(), sel("SELECT"), Memory{}, long)
		took := time.Since(start)
		if a.Outcome != registry.Changed {
			t.Fatalf("%s: %s", a.Outcome, a.Error)
		}
		if a.Elapsed >= took*3/4 {
			return
		}
		t.Logf("%s of %s were charged", a.Elapsed, took)
	}
	t.Error("the time for reading is not charged")
}

// A wider result than max_columns is an error that names the setting.
func TestWidthOfResults(t *testing.T) {
	for kind, body := range map[string]func(n int) string{
		typeJSON: func(n int) string {
			return `{"head":{"vars":["v"` + numbers(n-1, `,"v%d"`) + `]},"results":{"bindings":[]}}`
		},
		typeXML: func(n int) string {
			return `<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head>` + numbers(n, `<variable name="v%d"/>`) +
				"</head><results/></sparql>"
		},
	} {
		var columns int
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write([]byte(body(columns)))
		}))
		for _, set := range []struct {
			max, columns int
			want         registry.Outcome
		}{{0, registry.DefaultMaxColumns, registry.Changed}, {0, registry.DefaultMaxColumns + 1, registry.Failed},
			{3, 3, registry.Changed}, {3, 4, registry.Failed}} {
			c, err := New(registry.Endpoint{Name: "e", URL: srv.URL, MaxColumns: set.max}, Options{})
			if err != nil {
				t.Fatal(err)
			}
			columns = set.columns
			a := c.Execute(t.Context(), sel("SELECT"), Memory{}, long)
			c.Close()
			if a.Outcome != set.want || a.Outcome == registry.Failed && !strings.Contains(a.Error, "max_columns") {
				t.Errorf("%s, %d columns of %d: %s, %s", kind, set.columns, set.max, a.Outcome, a.Error)
			}
		}
		srv.Close()
	}
}
