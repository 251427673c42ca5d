package ui

import (
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// A resultView shows the result at one version, or the difference between two.
type resultView struct {
	Path      string
	None      bool
	Size      *resultSize // nil if it shows no version
	Newest    string
	Oldest    string          // the oldest version that is kept; "" if there is only one
	Origins   bool            // rows say since when they are there
	B, A      string          // the version, and the one it is compared with
	Versions  []versionChoice // to choose from
	Against   []versionChoice // to compare with
	Since     template.HTML
	Permalink string // address of the same version by its time
	Asked     string // what was typed and cannot be found
	Formats   []kv
	Grid      grid
	Ask       bool
	Boolean   string // true or false
	Previous  string // in a comparison
	Distance  string // Jaccard distance, in a comparison
	Diff      bool
	Same      bool
	Added     side
	Removed   side
	Pages     *pager
	Gone      bool   // the version is not kept any more
	Problem   string // why there is no result
	Tell      string // address of the page that makes rules about this version, "" for none
	From      int    // number of the first row that is shown
}

const resultRows = 20

// result shows version ?b=, or the version at time ?at=, or else the newest, alone or
// compared with ?a=, starting at ?row=. recent holds the newest changes.
func (v resultHandler) result(q *registry.Query, st registry.Status, recent []registry.Change, n namer) (resultView, error) {
	p := v.r.URL.Query()
	newest := st.Position.Seq
	r := resultView{Path: queryPath(q.ID), Newest: strconv.FormatUint(newest, 10), Ask: q.Form == diff.Ask}
	if r.None = newest == 0; r.None {
		return r, nil
	}
	for _, suffix := range web.Representations(q.Form) {
		r.Formats = append(r.Formats, kv{Label: formatNames[suffix], Link: "/v1" + r.Path + "/results." + suffix})
	}
	if !q.Form.Graph() && v.May(registry.RoleRead) {
		r.Formats = append(r.Formats, kv{Label: "Prometheus", Link: "/metrics/results?query=" + q.ID})
	}
	b, a := sequence(p.Get("b")), sequence(p.Get("a"))
	if b == 0 || b > newest {
		b = newest
	}
	if a > newest || a == b {
		a = 0
	}
	var err error
	if at := askedMoment(p); at != "" {
		if b, err = v.at(q.ID, at); err != nil {
			r.Asked, b = at, newest
		}
	}
	r.B = itoa(b)
	if v.May(registry.RoleApp) {
		r.Tell = r.Path + "/tell?b=" + r.B
	}
	if a > 0 {
		r.A = itoa(a)
	}
	if err := r.versions(v, q, st, recent, a, b); err != nil {
		return r, err
	}
	if err != nil {
		return r, r.explain(err)
	}
	row, _ := strconv.Atoi(p.Get("row"))
	row = max(0, row-1)
	if a > 0 {
		err = r.compare(v, q, n, a, b, row)
	} else {
		err = r.show(v, q, n, b, row)
	}
	return r, r.explain(err)
}

// askedMoment returns the time that an address asks for: at, or b unless it is a version.
func askedMoment(p url.Values) string {
	at := strings.TrimSpace(p.Get("at"))
	if b := strings.TrimSpace(p.Get("b")); at == "" && sequence(b) == 0 {
		at = b
	}
	return clip(at, 40)
}

// at returns the version of a result at a time.
func (v resultHandler) at(query, moment string) (uint64, error) {
	t, err := readMoment(moment)
	if err != nil {
		return 0, err
	}
	p, err := v.History.Place(query, registry.Moment{Time: t})
	return p.Seq, err
}

// versions lists the versions to choose from and shows when the selected one began.
func (r *resultView) versions(v resultHandler, q *registry.Query, st registry.Status, recent []registry.Change, a, b uint64) error {
	place, err := v.placeOf(q.ID, b)
	if err != nil {
		return err
	}
	at := place.Time
	if oldest := place.First.Seq; oldest > 0 && oldest < st.Position.Seq {
		r.Oldest = itoa(oldest)
	}
	if !at.IsZero() {
		r.Since, r.Permalink = v.Fixed(at), r.Path+"?"+url.Values{"at": {at.UTC().Format(time.RFC3339Nano)}}.Encode()+"#compare"
	}
	var other time.Time
	if a > 0 {
		against, err := v.placeOf(q.ID, a)
		if err != nil {
			return err
		}
		other = against.Time
	}
	r.Versions = v.versionChoices(st.Position.Seq, recent, b, at)
	r.Against = v.versionChoices(st.Position.Seq, recent, a, other)
	return nil
}

// explain shows in the section why it has no result, and returns internal errors.
func (r *resultView) explain(err error) error {
	told, ok := web.ProblemOf(err)
	if err == nil || !ok {
		return err
	}
	r.Problem = told.Detail
	gap := (*registry.GapError)(nil)
	r.Gone = errors.As(err, &gap) || r.Problem == ""
	return nil
}

var formatNames = map[string]string{"srj": "JSON", "srx": "XML", "csv": "CSV", "tsv": "TSV", "nt": "N-Triples", "ttl": "Turtle",
	"jsonld": "JSON-LD"}

func sequence(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 53)
	return n
}

// show fills in one version.
func (r *resultView) show(v resultHandler, q *registry.Query, n namer, b uint64, row int) error {
	res, err := v.version(q.ID, b)
	if err != nil {
		return err
	}
	size := sizeOf(q, res.Len())
	r.Size = &size
	if r.Ask {
		r.Boolean = strconv.FormatBool(res.Boolean())
		return nil
	}
	row = min(row, max(0, res.Len()-1)/resultRows*resultRows)
	shown := min(resultRows, res.Len()-row)
	r.From = row
	r.Grid = n.grid(q.Form, res.Vars(), shown, func(i int) []diff.Term { return res.Terms(row + i) }, noSign,
		func(i, col int) string { return fmt.Sprintf("%s/result?b=%d&row=%d&col=%d", r.Path, b, row+i, col) })
	r.page(row, shown, res.Len())
	return r.origins(v, q, res, b, row)
}

// origins adds to the rows since when they are there.
func (r *resultView) origins(v resultHandler, q *registry.Query, res *diff.Result, b uint64, from int) error {
	var rows diff.Rows
	var at []int
	for i := range r.Grid.Rows {
		if slices.ContainsFunc(res.Terms(from+i), func(t diff.Term) bool { return t.Kind == diff.Blank }) {
			continue // its label means nothing in another version
		}
		rows, at = append(rows, res.Row(from+i)), append(at, i)
	}
	origins, oldest, err := v.History.Origins(v.r.Context(), q.ID, registry.Position{Seq: b}, rows)
	if isGap(err) {
		return nil
	}
	r.Origins = err == nil && oldest.Seq > 0
	for k, i := range at {
		if o := origins[k]; o.Seq > 0 {
			r.Grid.Rows[i].Origin = &rowOrigin{Seq: o.Seq, When: v.Fixed(o.Time), Link: fmt.Sprintf("%s/changes/%d", r.Path, o.Seq)}
		} else if r.Origins {
			r.Grid.Rows[i].Origin = &rowOrigin{Before: oldest.Seq, When: v.Fixed(oldest.Time)}
		}
	}
	return err
}

// compare fills in the difference from version a to b, which may be in either order.
func (r *resultView) compare(v resultHandler, q *registry.Query, n namer, a, b uint64, row int) error {
	r.Diff = true
	d, err := v.between(q.ID, a, b)
	if err != nil {
		return err
	}
	if r.Same = d == nil || d.Empty(); r.Same {
		return nil
	}
	r.Distance = fmt.Sprintf("%.2f", d.Jaccard)
	if r.Ask {
		r.Boolean, r.Previous = strconv.FormatBool(d.Boolean), strconv.FormatBool(d.Previous)
		return nil
	}
	cells := fmt.Sprintf("%s/difference?a=%d&b=%d&side=", r.Path, a, b)
	all := max(len(d.Added), len(d.Removed))
	row = min(row, max(0, all-1)/resultRows*resultRows)
	r.Added, r.Removed = n.sides(d, row, resultRows, cells)
	r.Added.Only, r.Removed.Only = b, a
	r.page(row, min(resultRows, all-row), all)
	return nil
}

// page makes the pager of rows.
func (r *resultView) page(row, shown, all int) {
	r.Pages = pages(row, shown, all, resultRows, func(row int) string {
		s := fmt.Sprintf("%s?b=%s&row=%d", r.Path, r.B, row+1)
		if r.A != "" {
			s += "&a=" + r.A
		}
		return s + "#compare"
	})
}

// A changePage shows one change with all its rows.
type changePage struct {
	Head   queryHead
	Change changeView
	Pages  *pager
}

func (v resultHandler) changePage() (content, error) {
	q, st, c, err := v.change()
	if err != nil {
		return content{}, err
	}
	row, _ := strconv.Atoi(v.r.URL.Query().Get("row"))
	all := 0
	if c.Delta != nil {
		all = max(len(c.Delta.Added), len(c.Delta.Removed))
	}
	row = min(max(0, row-1), max(0, all-1)/rowsOnPage*rowsOnPage)
	d := changePage{Head: queryHandler(v).head(&q, st), Change: v.view(&q, newNamer(q.Text), c, row, rowsOnPage)}
	d.Pages = pages(row, min(all-row, rowsOnPage), all, rowsOnPage, func(row int) string {
		return fmt.Sprintf("%s?row=%d",
			d.Change.Link, row+1)
	})
	return content{Data: d}, nil
}

// change returns the change that the path names, with its query.
func (v resultHandler) change() (q registry.Query, st registry.Status, c registry.Change, err error) {
	if q, st, err = queryHandler(v).resolveStatus(); err != nil {
		return q, st, c, err
	}
	seq := sequence(v.r.PathValue("seq"))
	if seq == 0 || seq > st.Position.Seq {
		return q, st, c, &registry.Problem{Kind: registry.KindNotFound, Title: "There is no such change",
			Detail: "The newest change of this query is number " + count(st.Position.Seq) + "."}
	}
	list, err := v.History.After(q.ID, registry.Position{Epoch: st.Position.Epoch, Seq: seq - 1}, 1)
	if err == nil && len(list) == 0 {
		err = &registry.GapError{Reason: registry.TooOld}
	}
	if err != nil {
		return q, st, c, err
	}
	return q, st, list[0], nil
}

// queryText serves the full text of a query.
func (v resultHandler) queryText() error {
	q, err := v.resolve()
	if err != nil {
		return err
	}
	return v.text(q.ID, func() (string, error) {
		q, err := v.Registry.Query(q.ID)
		return q.Text, err
	})
}

// Cells that are shortened on a page are served in full as plain text.

func (v resultHandler) resultCell() error {
	return v.cell("", func(q *registry.Query) (string, error) {
		r, err := v.version(q.ID, sequence(v.r.URL.Query().Get("b")))
		if err != nil {
			return "", err
		}
		row, err := v.index("row", r.Len())
		if err != nil {
			return "", err
		}
		return v.term(r.Terms(row))
	})
}

func (v resultHandler) changeCell() error {
	return v.cell(" "+v.r.PathValue("seq"), func(*registry.Query) (string, error) {
		_, _, c, err := v.change()
		if err != nil {
			return "", err
		}
		return v.deltaCell(c.Delta)
	})
}

func (v resultHandler) differenceCell() error {
	return v.cell("", func(q *registry.Query) (string, error) {
		a, b := sequence(v.r.URL.Query().Get("a")), sequence(v.r.URL.Query().Get("b"))
		d, err := v.between(q.ID, a, b)
		if err != nil {
			return "", err
		}
		return v.deltaCell(d)
	})
}

// cell answers with a text of the query that the path names. key says what else it depends on, besides
// the parameters.
func (v resultHandler) cell(key string, read func(q *registry.Query) (string, error)) error {
	q, st, err := queryHandler(v).resolveStatus()
	if err != nil {
		return err
	}
	return v.text(q.ID+" "+st.Position.Epoch+key, func() (string, error) { return read(&q) })
}

func (v resultHandler) deltaCell(d *diff.Delta) (string, error) {
	if d == nil {
		return "", noCell
	}
	rows, vars := d.Added, d.Vars
	if v.r.URL.Query().Get("side") == "removed" {
		rows, vars = d.Removed, d.OldVars
	}
	row, err := v.index("row", len(rows))
	if err != nil {
		return "", err
	}
	return v.term(diff.RowTerms(d.Form, vars, rows[row]))
}

var noCell = &registry.Problem{Kind: registry.KindNotFound, Title: "There is no such value",
	Detail: "The result has changed meanwhile, or the address is not one of a page."}

func (v resultHandler) index(name string, n int) (int, error) {
	i, err := strconv.Atoi(v.r.URL.Query().Get(name))
	if err != nil || i < 0 || i >= n {
		return 0, noCell
	}
	return i, nil
}

func (v resultHandler) term(terms []diff.Term) (string, error) {
	col, err := v.index("col", len(terms))
	if err != nil {
		return "", err
	}
	return terms[col].Value, nil
}

// text answers with a text that is constant for its key and the request's parameters.
// Concurrent requests share one copy.
func (v resultHandler) text(key string, read func() (string, error)) error {
	key += " " + v.r.URL.Path + "?" + v.r.URL.RawQuery
	inline := func() { v.w.Header().Set("Content-Disposition", "inline") }
	return web.Lend(v.w, v.r, v.Documents, "text/plain; charset=utf-8", "texts", key, inline, func(w io.Writer) error {
		s, err := read()
		if err == nil {
			_, err = io.WriteString(w, s)
		}
		return err
	})
}
