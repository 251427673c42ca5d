package web

// This file scrapes the results of 10,000 queries.

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/gauge"
)

var resultSeries = regexp.MustCompile(`^(\w+)\{.*query="(\w+)".*\} (\S+)$`)

// scraped returns the series of a scrape by family and query, with the series left out.
func scraped(t *testing.T, w *world) (series map[string]map[string][]string, left int) {
	t.Helper()
	rec := httptest.NewRecorder()
	w.h.ServeHTTP(rec, httptest.NewRequest("GET", "http://freshet.example.org:8080/metrics/results", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	series, left = map[string]map[string][]string{}, -1
	for line := range strings.Lines(rec.Body.String()) {
		line = strings.TrimSuffix(line, "\n")
		if n, found := strings.CutPrefix(line, gaugeFamilies[gaugeFull][0]+" "); found {
			var err error
			if left, err = strconv.Atoi(n); err != nil {
				t.Fatal(err)
			}
		} else if m := resultSeries.FindStringSubmatch(line); m != nil {
			if series[m[1]] == nil {
				series[m[1]] = map[string][]string{}
			}
			series[m[1]][m[2]] = append(series[m[1]][m[2]], m[3])
		} else if !strings.HasPrefix(line, "#") {
			t.Fatalf("no series: %s", line)
		}
	}
	return series, left
}

// The results of 10,000 queries are scraped: each has its number and its truth, a scrape allocates
// little, and a scrape that exceeds the bound of series says by how many.
// It runs without the race detector, under which pools drop memory by chance.
func TestLongResultScrapeOfManyQueries(t *testing.T) {
	const queries = 10_000
	w := newWorld(t)
	var ids []string
	pattern, err := w.m.Query(w.register(selectText, `"name":"pattern"`))
	if err != nil {
		t.Fatal(err)
	}
	for i := range queries { // registering each at the memory takes time that grows with their number
		q := pattern
		q.ID, q.Holders = fmt.Sprintf("q_%026d", i), slices.Clone(q.Holders)
		q.Holders[0].Name = fmt.Sprintf("q%d", i)
		w.m.keep(q)
		w.m.publish(q.ID, counted(t, [2]string{"Ulm", strconv.Itoa(i)}))
		ids = append(ids, q.ID)
	}
	pattern.Holders = nil
	w.m.keep(pattern)
	for i := 0; i < queries; i += 3 { // their endpoint fails
		st := w.m.status[ids[i]]
		st.State = registry.Failing
		w.m.status[ids[i]] = st
	}
	series, left := scraped(t, w)
	if left != 0 {
		t.Errorf("%d series are left out", left)
	}
	for i := range queries {
		name, stale := fmt.Sprintf("q%d", i), "0"
		if i%3 == 0 {
			stale = "1"
		}
		for family, want := range map[string]string{
			gaugeName:                      strconv.FormatFloat(float64(i), 'g', -1, 64),
			gaugeFamilies[gaugeStale][0]:   stale,
			gaugeFamilies[gaugeRows][0]:    "1",
			gaugeFamilies[gaugeChecked][0]: strconv.FormatFloat(unixSeconds(morning), 'g', -1, 64),
			gaugeFamilies[gaugeChanged][0]: strconv.FormatFloat(unixSeconds(morning), 'g', -1, 64),
		} {
			if got := series[family][name]; len(got) != 1 || got[0] != want {
				t.Fatalf("%s of %s is %q, want %s", family, name, got, want)
			}
		}
	}
	w.allocatesLittle(t, queries)

	for i, id := range ids {
		var rows [][2]string
		for j := range 7 {
			rows = append(rows, [2]string{fmt.Sprintf("place %d", j), strconv.Itoa(i + j)})
		}
		w.m.publish(id, counted(t, rows...))
	}
	series, left = scraped(t, w)
	sent := 0
	for _, byQuery := range series {
		for _, values := range byQuery {
			sent += len(values)
		}
	}
	if all := queries * (7 + 4); sent != mostGauges || left != all-mostGauges {
		t.Errorf("%d series of %d are sent, and %d are left out", sent, all, left)
	}
}

// allocatesLittle fails the test if a scrape of all queries allocates more than a kilobyte for
// each, beyond what listing them and reading their results takes.
func (w *world) allocatesLittle(t *testing.T, queries int) {
	t.Helper()
	reading := allocated(func() {
		for cursor := ""; ; {
			page, next, err := w.m.List(registry.QueryFilter{}, cursor, gaugePage)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page {
				_, r, err := w.m.Current(page[i].Query.ID, true)
				if err != nil {
					t.Fatal(err)
				}
				gauge.Read(r, usualGaugeRows, nil)
			}
			if cursor = next; cursor == "" {
				return
			}
		}
	})
	d := &discarding{header: http.Header{}}
	r := httptest.NewRequest("GET", "http://freshet.example.org:8080/metrics/results", nil)
	r.Header.Set("Accept-Encoding", "identity")
	scrape := allocated(func() { w.h.ServeHTTP(d, r) })
	t.Logf("%d bytes sent; %d bytes allocated, %d of them to read the results", d.size, scrape, reading)
	if d.status != http.StatusOK || d.size < 1<<20 || scrape-reading > queries<<10 {
		t.Errorf("status %d, %d bytes sent; %d bytes allocated beyond the %d of reading", d.status, d.size, scrape-reading, reading)
	}
}
