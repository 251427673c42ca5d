package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// This file measures the processor time from a hint to the messages of what has changed.

// A meter is an endpoint of sensors, each with one number.
type meter [1000]atomic.Int64

var sensorIRI = regexp.MustCompile(`sensor/(\d+)`)

func (m *meter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := 0
	if found := sensorIRI.FindStringSubmatch(r.FormValue("query")); found != nil {
		n, _ = strconv.Atoi(found[1])
	}
	w.Header().Set("Content-Type", "application/sparql-results+json")
	fmt.Fprintf(w, `{"head":{"vars":["n"]},"results":{"bindings":[{"n":{"type":"literal","value":"%d"}}]}}`, m[n%len(m)].Load())
}

// BenchmarkHint reports a change of all results of 1,000 queries in one hint and waits for
// the messages of an event stream. cpu-us/query is the processor time of the server, the
// endpoint and the reader of the messages; bare-cpu-us is that of a bare request to the
// endpoint, with its client.
func BenchmarkHint(b *testing.B) {
	m := &meter{}
	ep := httptest.NewServer(m)
	defer ep.Close()
	r := startWith(b, b.TempDir(), registry.Endpoint{Name: "city", URL: ep.URL, Slot: "@every 24h",
		Budget: registry.Duration(time.Hour), Policy: "rr"})
	defer r.end(b)
	post := func(path, body string) {
		b.Helper()
		answer, err := http.Post(r.URL()+path, "application/json", strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		defer answer.Body.Close()
		if text, _ := io.ReadAll(answer.Body); answer.StatusCode >= 300 {
			b.Fatalf("%s: %s %s", path, answer.Status, text)
		}
	}
	for i := range m {
		post("/v1/queries", fmt.Sprintf(`{"endpoint": "city", "query": "SELECT ?n { <http://x/sensor/%d> <http://x/n> ?n }"}`, i))
	}
	ask, err := http.NewRequestWithContext(b.Context(), "GET", r.URL()+"/v1/changes", nil)
	if err != nil {
		b.Fatal(err)
	}
	ask.Header.Set("Accept", "text/event-stream")
	stream, err := http.DefaultClient.Do(ask)
	if err != nil {
		b.Fatal(err)
	}
	defer stream.Body.Close()
	in := bufio.NewReaderSize(stream.Body, 1<<16)
	messages := func() {
		b.Helper()
		for n := 0; n < len(m); {
			line, err := in.ReadSlice('\n')
			if err != nil {
				b.Fatal(err)
			}
			if bytes.HasPrefix(line, []byte("data:")) && bytes.Contains(line, []byte(`"added"`)) {
				n++
			}
		}
	}
	post("/v1/endpoints/city/tick", "")
	messages() // the first results
	var used, bare time.Duration
	for b.Loop() {
		b.StopTimer()
		var added strings.Builder
		for i := range m {
			fmt.Fprintf(&added, "<http://x/sensor/%d> <http://x/n> \"%d\" .\n", i, m[i].Add(1))
		}
		body, _ := json.Marshal(map[string]string{"added": added.String()})
		b.StartTimer()
		began := processorTime(b)
		post("/v1/endpoints/city/hints", string(body))
		messages()
		used += processorTime(b) - began
		b.StopTimer()
		began = processorTime(b)
		for range m {
			answer, err := http.Post(ep.URL, "application/x-www-form-urlencoded", strings.NewReader("query=sensor/1"))
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
		}
		bare += processorTime(b) - began
		b.StartTimer()
	}
	each := float64(b.N * len(m))
	b.ReportMetric(float64(used.Microseconds())/each, "cpu-us/query")
	b.ReportMetric(float64(bare.Microseconds())/each, "bare-cpu-us")
	b.ReportMetric(float64((used-bare).Microseconds())/each, "cpu-us/query-besides-endpoint")
}
