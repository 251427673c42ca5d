package ui

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	changefeed "github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/web"
)

// A queryPage answers: is this result current, what changed last, and why does it run
// when it does?
type queryPage struct {
	Head    queryHead
	Now     queryNow
	Changes changesView
	Result  resultView
	Text    textView
	Why     whyView
	Notes   []registry.Warning
	Who     whoView
	Asked   askedView
	Notify  *notifyForm // nil if the visitor may not use it
}

// A queryNow is the state of a query, from which the page states whether its result is
// fresh, what is wrong with it, and its figures.
type queryNow struct {
	clock
	Query     *registry.Query
	Status    registry.Status
	Stats     policy.Stats
	X         scheduler.Explanation
	Shut      *registry.Pause // of the endpoint, nil unless it is paused
	Mine      bool            // the visitor has paused it, and others want it to run
	Size      resultSize
	Day       int           // its changes in the last 24 hours
	Slowest   time.Duration // the 95th percentile of its last runs; 0 if it is unknown
	Followers int
	AtLeast   bool              // there may be more followers
	Proof     *changefeed.Proof // nil without a feed
}

// Failing reports whether the query is not paused and its last runs failed, or its endpoint does not keep its result up to date.
func (n queryNow) Failing() bool {
	st := &n.Status
	return n.Query.Paused() == nil && st.Error != "" && (st.Failures > 0 || st.State == registry.Stale && n.Shut == nil)
}

// Since returns since when it fails, "" if that is unknown.
func (n queryNow) Since() string { return n.hour(n.Status.FailingSince) }

type changesView struct {
	ID, Path string
	Plot     *changePlot
	List     []changeView
	Pages    *pager
	Gone     bool // the changes of this page are no longer in the log
	Tried    bool // there were runs, but none was complete
	recent   []registry.Change
}

type textView struct {
	ID         string
	Registered time.Time
	Code       template.HTML
	Cut        string // address of the full text if it is shortened
	Size       string
}

// A whyView explains when and why a query runs. The templates have the words.
type whyView struct {
	X      scheduler.Explanation
	Chance float64 // that the result has changed by now
	Known  bool    // Chance is known
	Doc    string  // of the policy
	Later  bool    // its next run is planned when the running slot is over
	Ran    policy.Run
	List   []reason
	More   []reason // all other inputs of the policy
	Strip  strip
}

// Ordered reports whether it waits for its place in the policy's order.
func (w whyView) Ordered() bool { return w.X.Code == plan.CodeOrder }

// Overdue reports whether it has waited as long as a query may.
func (w whyView) Overdue() bool {
	deadline := w.X.Inputs["deadline"]
	return deadline > 0 && deadline <= float64(w.X.Slot)
}

// PassedOver reports whether the last slot passed it over.
func (w whyView) PassedOver() bool { return w.X.PassedOver != nil && w.X.PassedOver.Slot != w.Ran.Slot }

// A reason is one input of a decision. The template "reason" has its label.
type reason struct {
	Name  string
	Of    string // what the label quotes, "" for nothing
	Value string
	Meter string // "" for none
}

type whoView struct {
	List []*follower
	More int  // those visible to the visitor
	Rest int  // number of all others
	Cut  bool // there may be more of each, because only followersSeen were looked at
}

// An askedView shows the settings that the holders ask for.
type askedView struct {
	Query   *registry.Query
	Hash    string
	Holders []string // those whose names the visitor may see
	Others  int      // number of all others
	Path    string   // of the query in the API
}

func (v queryHandler) page() (content, error) {
	q, err := v.resolve()
	if err != nil {
		return content{}, err
	}
	it, err := v.Queries.Item(q.ID)
	if err != nil {
		return content{}, err
	}
	q, st := it.Query, it.Status
	d := queryPage{Head: v.head(&q, st), Now: queryNow{clock: v.clock, Status: st}}
	n := newNamer(q.Text)
	if d.Changes, err = v.changes(&q, st, n); err != nil {
		return content{}, err
	}
	past := slices.ContainsFunc([]string{"a", "b", "at"}, func(k string) bool { return v.r.URL.Query().Get(k) != "" })
	if !past || !v.streaming { // the past does not change
		if d.Result, err = resultHandler(v).result(&q, st, d.Changes.recent, n); err != nil {
			return content{}, err
		}
	}
	if v.stranger() { // that is all of it that is public
		return content{Data: d}, nil
	}
	stats, x, e, err := v.known(&q)
	if err != nil {
		return content{}, err
	}
	d.Notes, d.Text, d.Asked, d.Notify = st.Warnings(&q), v.text(&q), v.asked(&q, st), v.notifyForm(&q)
	loop, _ := v.Daemon.State(q.Endpoint) // a loop that is not running has no last slot
	d.Why = v.why(&q, st, stats, x, e, loop)
	if d.Who, err = v.who(&q, st); err != nil {
		return content{}, err
	}
	if d.Now, err = v.state(&q, st, stats, x, e); err != nil {
		return content{}, err
	}
	d.Now.Followers, d.Now.AtLeast = len(d.Who.List)+d.Who.More+d.Who.Rest, d.Who.Cut
	c := content{Data: d, Live: []part{
		{"head", "query-head", d.Head}, {"lede", "query-lede", d.Now}, {"facts", "query-facts", d.Now}, {"trouble", "query-trouble", d.Now},
		{"changes", "query-changes", d.Changes}, {"why", "query-why", d.Why}, {"who", "query-who", d.Who}}}
	if !past {
		c.Live = append(c.Live, part{"compare", "query-result", d.Result})
	}
	return c, nil
}

// known returns what is known of a query besides its status, and its endpoint.
func (v queryHandler) known(q *registry.Query) (s policy.Stats, x scheduler.Explanation, e registry.Endpoint, err error) {
	if s, err = v.Queries.Stats(q.ID); err != nil {
		return s, x, e, err
	}
	if x, err = v.Daemon.Explain(q.Endpoint, q.ID); err != nil && !isUnknown(err) {
		return s, x, e, err
	}
	e, err = v.Registry.Endpoint(q.Endpoint)
	return s, x, e, err
}

func (v queryHandler) state(q *registry.Query, st registry.Status, s policy.Stats, x scheduler.Explanation,
	e registry.Endpoint) (queryNow, error) {
	snap, err := v.catalogue.look()
	if err != nil {
		return queryNow{}, err
	}
	n := queryNow{clock: v.clock, Query: q, Status: st, Stats: s, X: x, Shut: e.Pause, Mine: q.PausedFor(v.caller) != nil && q.Paused() == nil,
		Size: sizeOf(q, st.Rows), Day: snap.changesOf(q.ID)}
	if k := len(s.Samples); k > 1 {
		times := make([]time.Duration, k)
		for i, m := range s.Samples {
			times[i] = m.Elapsed
		}
		slices.Sort(times)
		n.Slowest = times[k*95/100]
	}
	n.Proof, err = v.ChangeFeeds.Proofs()(q)
	return n, err
}

// changes returns the plot of the last changes and a page of their list.
func (v queryHandler) changes(q *registry.Query, st registry.Status, n namer) (changesView, error) {
	h := resultHandler(v)
	c := changesView{ID: q.ID, Path: queryPath(q.ID)}
	newest := st.Position.Seq
	if c.Tried = st.Outcome != "" && newest == 0; newest == 0 {
		return c, nil
	}
	plotted, err := h.ending(q.ID, st.Position.Epoch, newest, plottedChanges)
	if err != nil {
		return c, err
	}
	c.Plot, c.recent = h.plot(plotted), plotted
	last := newest
	if before, err := strconv.ParseUint(v.r.URL.Query().Get("before"), 10, 53); err == nil && before > 1 && before <= newest {
		last = before - 1
	}
	list := plotted
	if last != newest {
		if list, err = h.ending(q.ID, st.Position.Epoch, last, listedChanges); err != nil {
			return c, err
		}
	}
	list = list[max(0, len(list)-listedChanges):]
	for i, x := range slices.Backward(list) {
		view := h.view(q, n, x, 0, rowsInChange)
		view.Open = i == len(list)-1 && last != newest
		c.List = append(c.List, view)
	}
	c.pager(newest, list)
	return c, nil
}

// pager makes the pager of a page of changes, given oldest first.
func (c *changesView) pager(newest uint64, list []registry.Change) {
	if c.Gone = len(list) == 0; c.Gone {
		return
	}
	first, last := list[0].Seq, list[len(list)-1].Seq
	c.Pages = &pager{First: int(last), Last: int(first), All: int(newest)}
	switch {
	case last+listedChanges < newest:
		c.Pages.Prev = fmt.Sprintf("%s?before=%d#changes", c.Path, last+listedChanges+1)
	case last < newest:
		c.Pages.Prev = c.Path + "#changes"
	}
	if first > 1 {
		c.Pages.Next = fmt.Sprintf("%s?before=%d#changes", c.Path, first)
	}
}

// ending returns up to n changes that end with the given one, oldest first, as far as
// the log reaches back.
func (v resultHandler) ending(query, epoch string, last uint64, most uint64) ([]registry.Change, error) {
	for most > 0 {
		from := last - min(last, most)
		changes, err := v.History.After(query, registry.Position{Epoch: epoch, Seq: from}, int(last-from))
		if err == nil {
			for len(changes) > 0 && changes[len(changes)-1].Seq < last { // a page is limited in bytes, too
				more, err := v.History.After(query, changes[len(changes)-1].Position(), int(last-changes[len(changes)-1].Seq))
				if err != nil || len(more) == 0 {
					return changes, err
				}
				changes = append(changes, more...)
			}
			return changes, nil
		}
		if !isGap(err) {
			return nil, err
		}
		most /= 2
	}
	return nil, nil
}

func (v queryHandler) text(q *registry.Query) textView {
	t := textView{ID: q.ID, Registered: q.CreatedAt.UTC()}
	text := q.Text
	if len(text) > longestText {
		t.Size, t.Cut = amount(len(text)), queryPath(q.ID)+"/text"
		text = clip(text, longestText)
	}
	t.Code = highlight(text)
	return t
}

// why explains when and why the query ran or did not run.
func (v queryHandler) why(q *registry.Query, st registry.Status, s policy.Stats, x scheduler.Explanation, e registry.Endpoint,
	loop scheduler.LoopState) whyView {
	w := whyView{X: x, Doc: docOf(x.Policy), Later: x.NextDue.IsZero() && loop.Running && q.Paused() == nil, Ran: s.LastRun,
		Strip: stripOf(s, loop.Last.Number)}
	w.Strip.Values = stripValues(s, loop.Last.Number)
	chance, known := chanceOf(s, x)
	w.Chance, w.Known = chance, known
	if known {
		w.List = append(w.List, reason{"chance", "", share(chance).String(), meter(chance)})
	}
	if x.Rank > 0 && x.Of > 0 {
		place := 1 - float64(x.Rank-1)/float64(x.Of)
		w.List = append(w.List, reason{Name: "place", Meter: meter(place)})
	}
	if k := time.Duration(e.Budget); x.Estimate > 0 && k > 0 {
		part := float64(x.Estimate) / float64(k)
		w.List = append(w.List, reason{"slot", cost(k).String(), share(part).String(), meter(part)})
	}
	if n := len(s.Samples); n > 1 {
		changed := 0
		for _, m := range s.Samples {
			if m.Changed {
				changed++
			}
		}
		part := float64(changed) / float64(n)
		w.List = append(w.List, reason{"runs", count(n), share(part).String(), meter(part)})
	}
	w.More = inputs(x)
	if m := q.MaxStaleness(); m > 0 && !st.CheckedAt.IsZero() {
		r := reason{Name: "staleness", Of: span(m)}
		if left := st.CheckedAt.Add(m).Sub(v.now); left >= 0 {
			r.Value = span(left)
		}
		w.List = append(w.List, r)
	}
	return w
}

// chanceOf returns the probability that the result has changed by now: the policy's
// own estimate if it makes one, else the one derived from the change rate.
func chanceOf(s policy.Stats, x scheduler.Explanation) (float64, bool) {
	if p, ok := x.Inputs["chance"]; ok {
		return p, true
	}
	rate, ok := x.Inputs["rate_per_slot"]
	if !ok || s.Last == 0 || x.Slot <= s.Last {
		return 0, false
	}
	return 1 - math.Exp(-max(0, rate)*float64(x.Slot-s.Last)), true
}

// inputs returns the other inputs of the policy, sorted by name.
func inputs(x scheduler.Explanation) (out []reason) {
	skip := map[string]bool{"executions": true, "changes": true, "median_seconds": true, "rate_per_slot": true, "last": true, "chance": true}
	for name, n := range x.Inputs {
		if !skip[name] {
			out = append(out, reason{Name: name, Value: strings.Replace(strconv.FormatFloat(n, 'g', 3, 64), "-", minus, 1)})
		}
	}
	slices.SortFunc(out, func(a, b reason) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

const (
	followersShown = 8
	followersSeen  = 5000 // maximum number read to find those of one query
)

// who returns the query's followers; only an admin sees those of other callers.
func (v queryHandler) who(q *registry.Query, st registry.Status) (whoView, error) {
	w, seen := whoView{}, 0
	for s, err := range registry.EachSubscription(v.Subscriptions.Subscriptions, "") {
		if err != nil || seen == followersSeen {
			w.Cut = true
			return w, err
		}
		if s.Way == registry.People && s.State == registry.Pending { // a visitor who has not confirmed
			continue
		}
		seen++
		switch {
		case s.Query != q.ID:
		case !v.caller.Owns(s.Caller):
			w.Rest++
		case len(w.List) == followersShown:
			w.More++
		default:
			w.List = append(w.List, &follower{Subscription: s, clock: v.clock, Lag: web.Behind(s.Progress(), st.Position)})
		}
	}
	return w, nil
}

func (v queryHandler) asked(q *registry.Query, st registry.Status) askedView {
	var names []string
	for _, h := range q.Holders {
		if v.May(registry.RoleAdmin) || h.Caller == v.caller.Name {
			names = append(names, h.Caller)
		}
	}
	return askedView{Query: q, Hash: st.Hash, Holders: names, Others: len(q.Holders) - len(names), Path: "/v1" + queryPath(q.ID)}
}
