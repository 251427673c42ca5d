package ui

import (
	"cmp"
	"html/template"
	"slices"

	known "github.com/freshet/freshet/endpoint/pack"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web"
)

// An overviewPage answers: is everything fresh, and if not, where and since when?
type overviewPage struct {
	Lede      overviewLede
	Facts     facts
	Endpoints []overviewEndpoint
	Others    int // number of endpoints that are not drawn
	Changes   []changeLine
	At        string       // the log position up to which changes are shown
	First     bool         // nothing is registered yet
	Packs     []known.Pack // well-known endpoints, on the first page
	Form      form         // of a link, on the first page
}

// A changeLine is a line of the list of changes.
type changeLine struct {
	Query, Name, Endpoint string
	Link                  string
	When                  template.HTML
	Delta                 delta
	Words                 string // what changed, for people
	offset                uint64
}

const (
	shownChanges   = 12
	endpointsDrawn = 12
	slotsRead      = 2000 // in total, for one page
)

func (v overviewHandler) page() (content, error) {
	d := overviewPage{}
	endpoints, err := v.Registry.Endpoints()
	if err != nil {
		return content{}, err
	}
	if d.First = len(endpoints) == 0; d.First {
		d.Packs = known.All()
	}
	most := trendSlots // with many endpoints, fewer slots of each
	if n := len(endpoints); n > 0 {
		most = min(trendSlots, max(trendBins, slotsRead/n))
	}
	states, all, err := endpointHandler(v).states(endpoints, most)
	if err != nil {
		return content{}, err
	}
	d.Endpoints = states
	slices.SortStableFunc(d.Endpoints, func(a, b overviewEndpoint) int { return cmp.Compare(a.Rank, b.Rank) })
	o, err := v.Outlook()
	if err != nil {
		return content{}, err
	}
	troubles := v.troubles(d.Endpoints, o)
	if n := len(d.Endpoints); n > endpointsDrawn {
		d.Endpoints, d.Others = d.Endpoints[:endpointsDrawn], n-endpointsDrawn
	}
	if d.Facts, err = v.facts(o, all); err != nil {
		return content{}, err
	}
	d.Lede = overviewLede{len(endpoints), d.Facts.Fresh, o, troubles, d.Facts.States, o.Firing(v.caller), o.FailingRules(v.caller)}
	lines, at, err := v.newest(shownChanges)
	if err != nil {
		return content{}, err
	}
	d.Changes, d.At = lines, at.String()
	c := content{Data: d, Live: []part{{"lede", "overview-lede", d.Lede}, {"facts", "facts", d.Facts}}}
	for _, e := range d.Endpoints {
		c.Live = append(c.Live, part{e.ID, "ep", e})
	}
	c.Feed = &feed{List: "stream", Template: "change", Most: shownChanges, After: v.linesAfter, At: at}
	return c, nil
}

// states returns the states of endpoints, and their last slots.
func (v endpointHandler) states(endpoints []registry.Endpoint, most int) ([]overviewEndpoint, [][]scheduler.Slot, error) {
	states, all := make([]overviewEndpoint, len(endpoints)), make([][]scheduler.Slot, len(endpoints))
	for i, e := range endpoints {
		var err error
		if all[i], err = v.slots(e.Name, most); err != nil {
			return nil, nil, err
		}
		if states[i], err = v.summary(e, all[i]); err != nil {
			return nil, nil, err
		}
	}
	return states, all, nil
}

// An overviewLede answers whether everything is fresh.
type overviewLede struct {
	Endpoints, Fresh int
	web.Outlook
	Troubles troubles
	States   tallied
	Firing   int // alerts that the visitor may see
	Failing  int // rules of these that cannot be evaluated
}

// troubles returns the endpoints that do not run normally.
func (v overviewHandler) troubles(endpoints []overviewEndpoint, now web.Outlook) troubles {
	t := troubles{List: "/endpoints"}
	for _, o := range endpoints {
		if o.Class == "halted" && now.Disk.ReadOnly {
			continue // one sentence says it of all
		}
		t.add(o, "#"+o.ID, o.FailsSince())
	}
	return t
}

// newest returns the last changes of all queries, newest first.
func (v overviewHandler) newest(most int) ([]changeLine, registry.Offset, error) {
	head, err := v.History.Head()
	if err != nil {
		return nil, head, err
	}
	// Removed queries leave holes in the log, so a few more entries are requested.
	for back := uint64(most); ; back *= 4 {
		from := head
		from.Seq -= min(from.Seq, back)
		changes, err := v.History.All(from, int(back))
		if _, told := web.ProblemOf(err); err != nil && !told {
			return nil, head, err
		}
		if len(changes) >= most || back >= 16*uint64(most) || from.Seq == 0 || err != nil {
			changes = changes[max(0, len(changes)-most):]
			lines := v.lines(changes)
			slices.Reverse(lines)
			return lines, head, nil
		}
	}
}

// linesAfter returns the changes after an offset, oldest first.
func (v overviewHandler) linesAfter(at registry.Offset) ([]any, registry.Offset, error) {
	changes, err := v.History.All(at, 100)
	if err != nil {
		return nil, at, err
	}
	var out []any
	for _, l := range v.lines(changes) {
		out = append(out, l)
		at.Seq = l.offset
	}
	return out, at, nil
}

func (v overviewHandler) lines(changes []registry.Change) []changeLine {
	queries := map[string]*registry.Query{}
	out := make([]changeLine, len(changes))
	for i, c := range changes {
		q, ok := queries[c.Query]
		if !ok {
			if found, err := v.Registry.Query(c.Query); err == nil {
				q = &found
			}
			queries[c.Query] = q
		}
		name := c.Query
		if q != nil {
			name = v.name(q)
		}
		out[i] = changeLine{Query: c.Query, Name: clip(name, 160), Endpoint: c.Endpoint, When: v.Past(c.Time),
			Link: queryPath(c.Query), Delta: deltaOf(c.Delta, c.Baseline), Words: inWords(v.visit, q, &c), offset: c.Offset}
	}
	return out
}

// inWords returns a line that says what a change of a query adds and removes, with the labels that are known; "" for
// a first result. q is nil if the query is gone.
func inWords(v *visit, q *registry.Query, c *registry.Change) string {
	if c.Baseline || c.Delta == nil {
		return ""
	}
	if q != nil {
		if w, ok := watch.Of(q, v.caller.Name); ok {
			return watch.InWords(c.Delta, &w, v.Labels.Known(q.Endpoint, w.Labels)).Short()
		}
	}
	return watch.InWords(c.Delta, nil, watch.Plain).Short()
}
