package web

// This file serves /metrics/results: the numbers in results, for Prometheus. A scrape is sent
// while it is read, in the text format of Prometheus.

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/gauge"
)

// Bounds of a scrape of results.
const (
	usualGaugeRows = 1000    // rows of a query
	mostGaugeRows  = 10_000  // the same, at most
	mostGauges     = 100_000 // series of a scrape
	gaugePage      = 500     // queries that are read at once
	gaugeBuffer    = 32 << 10
)

const gaugeName = "freshet_result"

// gaugeFamilies are the metrics about whole results, with their descriptions. They follow the
// numbers.
var gaugeFamilies = [...][2]string{
	gaugeChanged: {"freshet_result_changed_timestamp_seconds", "When the result last changed."},
	gaugeChecked: {"freshet_result_checked_timestamp_seconds", "When the result was last known to be true."},
	gaugeRows:    {"freshet_result_rows", "Rows of the last complete result; 0 for ASK."},
	gaugeLeft:    {"freshet_result_rows_left_out", "Rows of the result that gave no sample, by reason."},
	gaugeFull:    {"freshet_result_series_left_out", "Series that exceeded the bound of a scrape."},
	gaugeStale:   {"freshet_result_stale", "1 while the result is not known to be true: its query is not live."},
}

const (
	gaugeChanged = iota
	gaugeChecked
	gaugeRows
	gaugeLeft
	gaugeFull
	gaugeStale
)

// A gaugeCall is one scrape of results. The samples of a family must follow each other, so
// that the lines about whole results wait until all numbers are sent.
type gaugeCall struct {
	*call
	rows   int
	labels []string
	out    *bufio.Writer
	about  [len(gaugeFamilies)]bytes.Buffer
	pairs  []gauge.Label // of the line that is written
	began  bool          // a number is written
	series int
	over   int // series beyond mostGauges
}

// gauges answers a scrape of the numbers in results: of the queries that the parameter
// query names, or of all queries with names that pass the filter. An error after the first
// piece closes the connection, so that no part is taken for the whole.
func (c serverAPI) gauges() error {
	leave, err := enter(c.scrapes, c.name())
	if err != nil {
		return err
	}
	defer leave()
	g := &gaugeCall{call: c.call, rows: c.params.limit(usualGaugeRows, mostGaugeRows), labels: c.params.Values["label"]}
	filter := c.params.filter()
	if c.params.err != nil {
		return c.params.err
	}
	sink := &lateHeader{call: c.call}
	g.out = bufio.NewWriterSize(sink, gaugeBuffer)
	if names := c.params.Values["query"]; len(names) > 0 {
		err = g.named(names)
	} else {
		err = g.all(filter)
	}
	if err != nil {
		return err
	}
	if errors.Join(g.finish(), sink.Close()) != nil {
		panic(http.ErrAbortHandler) // the client has disconnected
	}
	return nil
}

// finish writes the lines about whole results.
func (g *gaugeCall) finish() error {
	g.line(&g.about[gaugeFull], gaugeFamilies[gaugeFull][0], float64(g.over))
	for i := range g.about {
		if g.about[i].Len() > 0 {
			writeFamily(g.out, gaugeFamilies[i][0], gaugeFamilies[i][1])
			g.out.Write(g.about[i].Bytes()) // Flush returns its error
		}
	}
	return g.out.Flush()
}

// named adds the queries with these names or ids, each once.
func (g *gaugeCall) named(names []string) error {
	seen := map[string]bool{}
	for _, name := range names {
		q, err := g.Registry.Resolve(g.caller, name)
		if err != nil {
			return err
		}
		if seen[name] {
			continue
		}
		seen[name] = true
		holder := "" // of an id
		for i := range q.Holders {
			if h := &q.Holders[i]; h.Name == name && (holder == "" || h.Caller == g.caller.Name) {
				holder = h.Caller
			}
		}
		item, err := g.Queries.Item(q.ID)
		if err != nil {
			return err
		}
		if err := g.add(&item, name, holder); err != nil {
			return err
		}
	}
	return nil
}

// all adds the queries that have names and pass the filter, once for each of their names.
func (g *gaugeCall) all(filter registry.QueryFilter) error {
	for cursor := ""; ; {
		page, next, err := g.Queries.List(filter, cursor, gaugePage)
		if err != nil {
			return err
		}
		for i := range page {
			for _, h := range page[i].Query.Holders {
				if h.Name == "" {
					continue
				}
				if err := g.add(&page[i], h.Name, h.Caller); err != nil {
					return err
				}
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
		if err := g.r.Context().Err(); err != nil {
			return err
		}
	}
}

// add adds the series of one query under a name.
func (g *gaugeCall) add(item *registry.ListedQuery, name, holder string) error {
	st := item.Status
	g.put(gaugeStale, oneIf(st.State != registry.Live), name, holder)
	if st.Position.Seq == 0 {
		return nil
	}
	st, r, err := g.History.Current(item.Query.ID, true)
	if errors.Is(err, registry.ErrNotFound) || err == nil && r == nil {
		return nil // released meanwhile
	}
	if err != nil {
		return err
	}
	g.put(gaugeRows, float64(st.Rows), name, holder)
	g.put(gaugeChecked, unixSeconds(st.CheckedAt), name, holder)
	g.put(gaugeChanged, unixSeconds(st.ChangedAt), name, holder)
	samples, left := gauge.Read(r, g.rows, g.labels)
	for _, reason := range gauge.Reasons() {
		if n := left[reason]; n > 0 {
			g.put(gaugeLeft, float64(n), name, holder, gauge.Label{Name: "reason", Value: reason})
		}
	}
	for _, s := range samples {
		if !g.room() {
			continue
		}
		if !g.began {
			g.began = true
			writeFamily(g.out, gaugeName, "A number in the last complete result of a query; the other columns are labels.")
		}
		g.pairs = append(g.pairs[:0], gauge.Label{Name: "query", Value: name}, gauge.Label{Name: "holder", Value: holder},
			gauge.Label{Name: "column", Value: s.Column})
		g.line(g.out, gaugeName, s.Value, s.Labels...)
	}
	return nil
}

// room counts a series, and reports whether the scrape has room for it.
func (g *gaugeCall) room() bool {
	if g.series == mostGauges {
		g.over++
		return false
	}
	g.series++
	return true
}

// put adds a series about a whole result while the scrape has room.
func (g *gaugeCall) put(family int, value float64, name, holder string, more ...gauge.Label) {
	if g.room() {
		g.pairs = append(g.pairs[:0], gauge.Label{Name: "query", Value: name}, gauge.Label{Name: "holder", Value: holder})
		g.line(&g.about[family], gaugeFamilies[family][0], value, more...)
	}
}

// A lineWriter is a buffer. Its errors come later, or not at all.
type lineWriter interface {
	io.Writer
	io.StringWriter
	AvailableBuffer() []byte
}

var gaugeEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// line writes a series with the labels in g.pairs and these ones, by their names.
func (g *gaugeCall) line(w lineWriter, metric string, value float64, more ...gauge.Label) {
	g.pairs = append(g.pairs, more...)
	slices.SortFunc(g.pairs, func(a, b gauge.Label) int { return strings.Compare(a.Name, b.Name) })
	w.WriteString(metric)
	separator := "{"
	for _, l := range g.pairs {
		w.WriteString(separator)
		separator = ","
		w.WriteString(l.Name)
		w.WriteString(`="`)
		gaugeEscapes.WriteString(w, l.Value)
		w.WriteString(`"`)
	}
	if len(g.pairs) > 0 {
		w.WriteString("}")
	}
	w.WriteString(" ")
	w.Write(strconv.AppendFloat(w.AvailableBuffer(), value, 'g', -1, 64))
	w.WriteString("\n")
	g.pairs = g.pairs[:0]
}

func writeFamily(w io.StringWriter, name, help string) {
	w.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " gauge\n")
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

// A lateHeader sends the headers of a scrape with its first piece, so that an error before it
// has a status of its own. It compresses for clients that accept it.
type lateHeader struct {
	*call
	w io.Writer
	z *gzip.Writer
}

func (s *lateHeader) Write(b []byte) (int, error) {
	if s.w == nil {
		h := s.call.w.Header()
		h.Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Add("Vary", "Accept-Encoding")
		s.w = patient(s.call.w)
		if TakesGzip(s.r) {
			h.Set("Content-Encoding", "gzip")
			s.z, _ = gzip.NewWriterLevel(s.w, gzip.BestSpeed) // fails for unknown levels only
			s.w = s.z
		}
		s.call.w.WriteHeader(http.StatusOK)
	}
	return s.w.Write(b)
}

func (s *lateHeader) Close() error {
	if s.z == nil {
		return nil
	}
	return s.z.Close()
}
