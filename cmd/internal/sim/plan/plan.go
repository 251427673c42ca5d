// Package plan says what happens in a simulated world. All of it follows from a seed.
package plan

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A Plan is a server, the world around it, and what happens there until Span. After
// Span nothing fails any more, and the world has Settle to become fresh.
type Plan struct {
	Seed   uint64        `json:"seed"`
	Span   time.Duration `json:"span"`
	Settle time.Duration `json:"settle"`

	Slot time.Duration `json:"slot"`
	Settings
	Edits []Edit `json:"edits"`

	Queries   []Query       `json:"queries"`
	Followers []Follower    `json:"followers"`
	Rules     []Rule        `json:"rules"`
	Hints     []Hint        `json:"hints"`
	ReadEvery time.Duration `json:"read_every"` // of readers of the past; 0 for none
	Faults    []Fault       `json:"faults"`
	Stops     []Stop        `json:"stops"`
	Steps     []Step        `json:"steps"`
	Disk      []DiskFault   `json:"disk"`

	// A backup is made at Backup, and restored at the first start after Restore; 0 for none.
	Backup  time.Duration `json:"backup,omitempty"`
	Restore time.Duration `json:"restore,omitempty"`

	Nodes   int      `json:"nodes,omitempty"` // of a cluster, 0 for a server alone
	Outages []Outage `json:"outages,omitempty"`
	// Gateway means that the first node is a gateway: it has no endpoints, and starts before the others.
	Gateway bool `json:"gateway,omitempty"`
	// Lease is how long a node may own an endpoint without a heartbeat.
	Lease time.Duration `json:"lease,omitempty"`
	// Behind is by how much the clock of each node is, as little as clocks that are kept in step are.
	Behind []time.Duration `json:"behind,omitempty"`

	Tokens bool `json:"tokens,omitempty"` // the server has tokens

	Feed     *Feed     `json:"feed,omitempty"`
	Profiles []Profile `json:"profiles,omitempty"`
	Flips    []Flip    `json:"flips,omitempty"`
}

// A Feed is a log of what changes in the data of the endpoint, a version for each update. The data that the
// endpoint shows are Lag behind the truth, and the log is Delay behind it, which is no more.
type Feed struct {
	Delay    time.Duration `json:"delay"`
	Lag      time.Duration `json:"lag"`
	Position bool          `json:"position"` // the endpoint tells its position
	Slow     time.Duration `json:"slow"`     // of an answer of the log
	Away     []Window      `json:"away,omitempty"`
	Trouble  string        `json:"trouble,omitempty"` // of the log in each of Away
	Lost     []Window      `json:"lost,omitempty"`    // what changes in them never comes to the log
	Lies     []Window      `json:"lies,omitempty"`    // in which the endpoint tells an older position, or something else
}

// A Version is an update of a query's result, with its number in the order of all updates, from 1 on.
type Version struct {
	Update
	Query  int
	Before []int // the rows before
	Lost   bool  // the log never has it
}

// everyVersion is the least time between two updates of a query that are in a log.
const everyVersion = 8 * time.Second

// mostLost is how many versions in a row a log can lose so that its readers notice.
const mostLost = 3

// Versions lists all updates in their order.
func (p *Plan) Versions() (list []Version) {
	for q := range p.Queries {
		before := []int{}
		for _, u := range p.Queries[q].Updates {
			list = append(list, Version{Update: u, Query: q, Before: before})
			before = u.Rows
		}
	}
	slices.SortStableFunc(list, func(a, b Version) int { return cmp.Compare(a.At, b.At) })
	lost := 0 // in a row
	for i := range list {
		if p.Feed == nil || lost == mostLost || !slices.ContainsFunc(p.Feed.Lost, func(w Window) bool { return w.Holds(list[i].At) }) {
			lost = 0
			continue
		}
		list[i].Lost = true
		lost++
	}
	for i := len(list) - 1; i >= 0 && list[i].Lost; i-- { // readers cannot notice that the last one is lost
		list[i].Lost = false
	}
	return list
}

// Shown returns the time whose truth the endpoint shows at a time.
func (p *Plan) Shown(at time.Duration) time.Duration {
	if p.Feed == nil {
		return at
	}
	return at - p.Feed.Lag
}

// A Profile asks for queries to be refreshed together.
type Profile struct {
	From    time.Duration `json:"from"`
	Queries []int         `json:"queries"`
	Every   time.Duration `json:"every"`
	Slack   time.Duration `json:"slack"`
}

// A Flip changes a bit of the store's file before the first start after At. It is undone once the check of the store has
// noticed it.
type Flip struct {
	At    time.Duration `json:"at"`
	Place float64       `json:"place"` // in the file, from 0 to 1
}

// Settings are those of the server, which may have others at its next start.
type Settings struct {
	Budget      time.Duration `json:"budget"`
	Timeout     time.Duration `json:"timeout"` // of one execution
	MinGap      time.Duration `json:"min_gap"`
	Concurrency int           `json:"concurrency"`
	Policy      string        `json:"policy"`
	Rule        string        `json:"rule"`
	Merge       string        `json:"merge"`
	Retention   int           `json:"retention"` // changes kept of each query
	Age         time.Duration `json:"age"`       // of the changes that are kept
}

// An Edit gives the server other settings at its first start after At.
type Edit struct {
	At time.Duration `json:"at"`
	Settings
}

// In returns the settings of a server that starts at a time.
func (p *Plan) In(start time.Duration) Settings {
	s := p.Settings
	for _, e := range p.Edits {
		if e.At <= start {
			s = e.Settings
		}
	}
	return s
}

// A Query asks for the values of one subject. Its true result changes at Updates, of which
// the first is at 0. It is registered at Registered.
type Query struct {
	Registered time.Duration `json:"registered"`
	Cost       time.Duration `json:"cost"` // of one execution
	Updates    []Update      `json:"updates"`
	Watch      bool          `json:"watch,omitempty"` // it is registered as a watch of an entity
	Before     Window        `json:"before,omitzero"` // it is registered, and removed again, before Registered
	Paused     Window        `json:"paused,omitzero"` // its holder pauses it
	Guest      Window        `json:"guest,omitzero"`  // somebody else has it, too, and edits and pauses that registration
}

// An Update replaces the rows of a query's true result.
type Update struct {
	At   time.Duration `json:"at"`
	Rows []int         `json:"rows"` // ascending
}

// Rows returns the true result at a time.
func (q *Query) Rows(at time.Duration) []int {
	n := 0
	for n+1 < len(q.Updates) && q.Updates[n+1].At <= at {
		n++
	}
	return q.Updates[n].Rows
}

// A Window is a span of time.
type Window struct {
	From  time.Duration `json:"from"`
	Until time.Duration `json:"until"`
}

// Holds reports whether a time is in the window.
func (w Window) Holds(at time.Duration) bool { return w.From <= at && at < w.Until }

// Kinds of faults of the endpoint.
const (
	Late    = "late"    // the answer takes Delay more
	Cut     = "cut"     // the connection ends within the answer
	Busy    = "busy"    // 429 with Retry-After: Delay
	Broken  = "broken"  // 500
	Garbage = "garbage" // 200 with another text
	Reset   = "reset"   // the connection ends before the answer
	Silent  = "silent"  // no answer until the client gives up
	Old     = "old"     // the answer shows the data of Delay ago
	Short   = "short"   // the answer is complete JSON without its last rows, and says that it is partial
)

// A Fault is what an endpoint does wrong for some time, to one request in Every.
type Fault struct {
	Window
	Kind  string        `json:"kind"`
	Delay time.Duration `json:"delay,omitempty"`
	Every int           `json:"every"`
}

// Ways in which changes are followed.
const (
	WebSocket = "websocket"
	SSE       = "sse"
	Webhook   = "webhook"
	SEPA      = "sepa"
	WebSub    = "websub"
	People    = "people" // texts in words
	Mail      = "mail"   // the same by e-mail
)

// Troubles of receivers.
const (
	Unavailable = "unavailable" // 503
	Lost        = "lost"        // takes the message, and the answer is lost
	Hangs       = "hangs"       // does not answer
	Resets      = "resets"      // closes the connection
)

// A Follower receives the changes of a query. In each of Away it is not connected, or its
// receiver is in Trouble.
type Follower struct {
	Way     string        `json:"way"`
	Query   int           `json:"query"`
	From    time.Duration `json:"from"`
	Away    []Window      `json:"away"`
	Trouble string        `json:"trouble,omitempty"`
	Digest  string        `json:"digest,omitempty"` // of people
}

// A Rule raises alerts about a query. Its receiver is in Trouble in each of Away.
type Rule struct {
	Query   int           `json:"query"`
	Rows    bool          `json:"rows"`  // the number of rows counts, not their values
	Above   int           `json:"above"` // what is more than this is alerted
	For     time.Duration `json:"for,omitempty"`
	Keep    time.Duration `json:"keep,omitempty"`
	Manager bool          `json:"manager"` // the receiver is an Alertmanager
	From    time.Duration `json:"from"`
	Away    []Window      `json:"away"`
	Trouble string        `json:"trouble,omitempty"`
}

// Met returns what a rule alerts about when its query has a result: values, or 0 for their number.
func (r *Rule) Met(rows []int) (list []int) {
	if r.Rows {
		if len(rows) > r.Above {
			list = append(list, 0)
		}
		return list
	}
	for _, v := range rows {
		if v > r.Above {
			list = append(list, v)
		}
	}
	return list
}

// A Hint tells the server that the data of queries may have changed. Without queries it
// names none.
type Hint struct {
	At      time.Duration `json:"at"`
	Queries []int         `json:"queries"`
}

// Kinds of faults of the disk.
const (
	Refuses = "refuses" // writes fail
	Full    = "full"    // there is no room: writes fail, or are done in part
	NoSync  = "no sync" // syncs fail, and what they should have written is lost at the next crash
)

// A DiskFault is what the disk does for some time to one call in Every.
type DiskFault struct {
	Window
	Kind  string `json:"kind"`
	Every int    `json:"every"`
}

// A Stop ends the server's process, which starts again after Pause. A stop that is not Clean
// takes the power away at the disk call number Call after At, or a second later.
type Stop struct {
	At    time.Duration `json:"at"`
	Pause time.Duration `json:"pause"`
	Clean bool          `json:"clean,omitempty"`
	Call  int           `json:"call,omitempty"`
}

// A Step sets the machine's clock.
type Step struct {
	At time.Duration `json:"at"`
	By time.Duration `json:"by"`
}

// Kinds of outages.
const (
	Down = "down" // the node is stopped, and starts again
	Dead = "dead" // the node is killed, and starts again with what its disk had
	Off  = "off"  // the node is cut off from the journal and the other nodes, and serves clients
)

// An Outage is what happens to a node of a cluster.
type Outage struct {
	Window
	Node int    `json:"node"`
	Kind string `json:"kind"`
}

// Out reports whether a node is in an outage of a kind.
func (p *Plan) Out(node int, kind string, at time.Duration) bool {
	return slices.ContainsFunc(p.Outages, func(o Outage) bool { return o.Node == node && o.Kind == kind && o.Holds(at) })
}

// New makes the plan of a seed. Each part has randomness of its own, so that a part that is
// added does not change the others.
func New(seed uint64) *Plan {
	part := uint64(0)
	next := func() *rand.Rand {
		part++
		return rand.New(rand.NewPCG(seed, 0x5eed00+part))
	}
	p := &Plan{Seed: seed, Settle: 3 * time.Minute}
	r := next()
	p.Span = between(r, 150*time.Second, 5*time.Minute)
	p.Slot = pick(r, 5*time.Second, 5*time.Second, 10*time.Second, 30*time.Second)
	p.Settings = newSettings(r, p.Slot)
	r = next()
	for range 2 + r.IntN(8) {
		p.Queries = append(p.Queries, newQuery(r, p))
	}
	r = next()
	for range 1 + r.IntN(5) {
		f := Follower{Way: pick(r, WebSocket, WebSocket, SSE, Webhook, SEPA, WebSub, People), Query: r.IntN(len(p.Queries))}
		f.From = p.Queries[f.Query].Registered + between(r, 2*time.Second, 2*time.Minute)
		f.Away = windows(r, r.IntN(3), p.Span, 3*time.Second, time.Minute)
		f.Trouble = newTrouble(r)
		if f.Way == People {
			f.Digest = pick(r, "", "", "1m")
		}
		p.Followers = append(p.Followers, f)
	}
	p.Faults = newFaults(next(), p)
	r = next()
	for _, w := range windows(r, r.IntN(5), p.Span, time.Second, 20*time.Second) {
		s := Stop{At: w.From, Pause: w.Until - w.From, Clean: r.IntN(4) == 0}
		if !s.Clean {
			s.Call = r.IntN(40)
		}
		p.Stops = append(p.Stops, s)
	}
	r = next()
	if r.IntN(3) == 0 {
		for range 1 + r.IntN(3) {
			p.Steps = append(p.Steps, Step{between(r, 0, p.Span), pick(r, -time.Hour, -time.Minute, time.Minute, time.Hour, 24*time.Hour,
				40*24*time.Hour)})
		}
		slices.SortFunc(p.Steps, func(a, b Step) int { return int(a.At - b.At) })
	}
	r = next()
	if r.IntN(3) == 0 {
		for _, w := range windows(r, 1+r.IntN(2), p.Span, 2*time.Second, 40*time.Second) {
			p.Disk = append(p.Disk, DiskFault{w, pick(r, Refuses, Full, NoSync), pick(r, 1, 1, 3)})
		}
	}
	r = next()
	for range r.IntN(3) {
		x := Rule{Query: r.IntN(len(p.Queries)), Rows: r.IntN(3) == 0, Above: 2 + r.IntN(5), Manager: r.IntN(3) == 0}
		if !x.Rows {
			x.Above += 3
		}
		if r.IntN(2) == 0 {
			x.For, x.Keep = between(r, 0, time.Minute).Round(time.Second), between(r, 0, time.Minute).Round(time.Second)
		}
		x.From = p.Queries[x.Query].Registered + between(r, time.Second, 90*time.Second)
		x.Away, x.Trouble = windows(r, r.IntN(3), p.Span, 3*time.Second, time.Minute), newTrouble(r)
		p.Rules = append(p.Rules, x)
	}
	r = next()
	for range r.IntN(6) {
		h := Hint{At: between(r, 0, p.Span)}
		for range r.IntN(3) {
			h.Queries = append(h.Queries, r.IntN(len(p.Queries)))
		}
		p.Hints = append(p.Hints, h)
	}
	p.ReadEvery = pick(next(), 0, 5*time.Second, 15*time.Second)
	r = next()
	if len(p.Stops) > 0 && r.IntN(3) == 0 {
		p.Edits = []Edit{{between(r, 0, p.Span/2), newSettings(r, p.Slot)}}
	}
	// The journal of a simulated cluster is in memory, so that its machine does not crash.
	if r = next(); r.IntN(8) == 0 {
		p.Nodes, p.Stops, p.Steps, p.Disk, p.Edits = 3, nil, nil, nil, nil
		p.shorten()
		for _, w := range windows(r, 1+r.IntN(5), p.Span, 5*time.Second, time.Minute) {
			p.Outages = append(p.Outages, Outage{w, r.IntN(p.Nodes), pick(r, Down, Off, Off, Dead)})
		}
	}
	if r = next(); p.Nodes == 0 && len(p.Stops) > 0 && len(p.Disk) == 0 && r.IntN(3) == 0 {
		p.Restore = p.Stops[r.IntN(len(p.Stops))].At
		p.Backup = between(r, p.Restore/4, p.Restore)
	}
	if r = next(); r.IntN(3) == 0 {
		p.Feed = newFeed(r, p)
	}
	if r = next(); r.IntN(5) == 0 {
		x := Profile{From: between(r, 0, p.Span/2), Every: pick(r, time.Minute, 2*time.Minute)}
		x.Slack = p.Slot + pick(r, time.Second, 15*time.Second)
		x.Queries = r.Perm(len(p.Queries))[:2]
		p.Profiles = append(p.Profiles, x)
		p.Policy = pick(r, p.Policy, "mrsf:p", "sedf:p", "medf:np")
	}
	if r = next(); r.IntN(4) == 0 {
		f := Follower{Way: Mail, Query: r.IntN(len(p.Queries)), Trouble: newTrouble(r)}
		f.From = p.Queries[f.Query].Registered + between(r, 2*time.Second, 2*time.Minute)
		f.Away = windows(r, r.IntN(2), p.Span, 3*time.Second, time.Minute) // once, lest a pause be as long as the world
		p.Followers = append(p.Followers, f)
	}
	r = next()
	for q := range p.Queries {
		p.Queries[q].Watch = r.IntN(6) == 0 && !slices.ContainsFunc(p.Followers, func(f Follower) bool {
			return f.Query == q && (f.Way == People || f.Way == Mail || f.Way == SEPA)
		})
	}
	if r = next(); p.Nodes == 0 && len(p.Stops) > 0 && r.IntN(4) == 0 {
		for range 1 + r.IntN(3) {
			p.Flips = append(p.Flips, Flip{between(r, 0, p.Stops[len(p.Stops)-1].At), r.Float64()})
		}
	}
	p.Tokens = next().IntN(4) == 0
	if r = next(); p.Nodes > 0 {
		p.Lease = 20 * time.Second
		if p.Slot > 5*time.Second { // the next slot of a node that is cut off may begin when its lease has run out
			p.Lease = pick(r, p.Lease, 8*time.Second)
		}
		for range p.Nodes {
			p.Behind = append(p.Behind, pick(r, 0, 0, 300*time.Millisecond, time.Second))
		}
	}
	aim(next(), p)
	if r = next(); p.Nodes > 0 && r.IntN(3) == 0 {
		p.Gateway = true
		for n := 1; n < p.Nodes; n++ {
			p.Outages = append(p.Outages, Outage{Window{0, between(r, time.Second, 20*time.Second)}, n, Down})
		}
	}
	manage(next(), p)
	return p
}

// manage lets holders do more with their queries than register them.
func manage(r *rand.Rand, p *Plan) {
	within := func(from time.Duration, longest time.Duration) (w Window) {
		if from += between(r, 10*time.Second, time.Minute); from < p.Span*3/4 {
			w = Window{from, min(p.Span, from+between(r, 10*time.Second, longest))}
		}
		return w
	}
	again := r.IntN(2 * len(p.Queries)) // the query that is removed once
	for i := range p.Queries {
		q := &p.Queries[i]
		// A backup may have a query that was removed, and a server that is away for long removes it late.
		const most = 70 * time.Second
		if i == again && !q.Watch && p.Restore == 0 && q.Registered == 0 {
			q.Before = Window{0, between(r, 10*time.Second, p.Span/2)}
			q.Registered = q.Before.Until + most
		}
		if r.IntN(6) == 0 {
			q.Paused = within(q.Registered, time.Minute)
		}
		if p.Tokens && !q.Watch && r.IntN(3) == 0 {
			q.Guest = within(q.Registered, 2*time.Minute)
		}
	}
	for i := range p.Followers {
		p.Followers[i].From = max(p.Followers[i].From, p.Queries[p.Followers[i].Query].Registered+2*time.Second)
	}
	for i := range p.Rules {
		p.Rules[i].From = max(p.Rules[i].From, p.Queries[p.Rules[i].Query].Registered+time.Second)
	}
}

// patience is how long a clock that was set must show the other time until a server believes it.
const patience = 2 * time.Minute

// aim lets things go wrong when something else happens: receivers are in trouble when a result changes, the server
// believes a clock that was set while an alert waits, and queries are registered while a node is cut off.
func aim(r *rand.Rand, p *Plan) {
	for _, o := range p.Outages {
		if q := r.IntN(len(p.Queries)); o.Kind == Off && r.IntN(3) > 0 && p.Queries[q].Registered < o.From {
			p.Queries[q].Registered = between(r, o.From, o.Until)
		}
	}
	for i := range p.Followers {
		p.Followers[i].From = max(p.Followers[i].From, p.Queries[p.Followers[i].Query].Registered+2*time.Second)
	}
	for i := range p.Rules {
		p.Rules[i].From = max(p.Rules[i].From, p.Queries[p.Rules[i].Query].Registered+time.Second)
	}
	for i := range p.Followers {
		f := &p.Followers[i]
		changes := p.Queries[f.Query].Updates[1:]
		if n := len(f.Away); n > 0 && len(changes) > 0 && r.IntN(2) == 0 {
			from := pick(r, changes[len(changes)-1], changes[r.IntN(len(changes))]).At
			f.Away[n-1] = Window{from, min(p.Span, from+p.Slot+between(r, 5*time.Second, 40*time.Second))}
			slices.SortFunc(f.Away, func(a, b Window) int { return int(a.From - b.From) })
		}
	}
	for _, x := range p.Rules {
		wait := max(x.For, x.Keep)
		u := p.Queries[x.Query].Updates
		at := u[r.IntN(len(u))].At + between(r, 0, wait+p.Slot) - patience
		if wait < 10*time.Second || p.Nodes > 0 || len(p.Steps) > 0 || at < 0 {
			continue
		}
		by := pick(r, -time.Hour, time.Hour)
		if by < 0 { // the clock is ahead at first, or not
			p.Steps = pick(r, nil, []Step{{0, time.Hour}})
		}
		p.Steps = append(p.Steps, Step{at, by})
	}
}

// shorten makes the world of a cluster smaller, since three servers do everything there.
func (p *Plan) shorten() {
	const most = 4
	drop := []string{"c180"}
	for i := most; i < len(p.Queries); i++ {
		drop = append(drop, fmt.Sprint("q", i))
	}
	if less, err := p.Without(drop...); err == nil { // it always is
		*p = *less
	}
}

// newFeed makes a feed. The endpoint then shows no old data but what its lag explains, since a position that is not that
// of an answer proves what is false.
func newFeed(r *rand.Rand, p *Plan) *Feed {
	f := &Feed{Lag: between(r, 0, 20*time.Second), Position: r.IntN(3) > 0, Slow: pick(r, 0, 0, 500*time.Millisecond), Trouble: newTrouble(r)}
	f.Delay = pick(r, 0, 0, f.Lag/2, f.Lag)
	f.Away = windows(r, r.IntN(3), p.Span, 10*time.Second, 2*time.Minute)
	f.Lost = windows(r, r.IntN(3), p.Span, time.Second, 20*time.Second)
	f.Lies = windows(r, r.IntN(3), p.Span, 5*time.Second, time.Minute)
	for i := range p.Queries { // each version is a request to the log
		last := -everyVersion
		p.Queries[i].Updates = slices.DeleteFunc(p.Queries[i].Updates, func(u Update) bool {
			if u.At-last < everyVersion {
				return true
			}
			last = u.At
			return false
		})
	}
	for i := range p.Faults {
		if p.Faults[i].Kind == Old {
			p.Faults[i].Kind, p.Faults[i].Delay = Late, p.Timeout/2
		}
	}
	return f
}

func newSettings(r *rand.Rand, slot time.Duration) (s Settings) {
	s.Budget = slot / time.Duration(2+r.IntN(4))
	s.Timeout = between(r, s.Budget/2, s.Budget)
	s.MinGap = pick(r, 0, 0, 25*time.Millisecond, 200*time.Millisecond)
	s.Concurrency = pick(r, 1, 1, 2, 4)
	s.Policy = pick(r, "hybrid", "hybrid", "hybrid", "rr", "ttl", "dj", "cr", "sjf", "ljf")
	s.Rule = pick(r, "strict", "strict", "debt")
	s.Merge = pick(r, "off", "off", "values")
	s.Retention = pick(r, 10_000, 10_000, 5)
	s.Age = pick(r, 720*time.Hour, 720*time.Hour, 2*time.Minute)
	return s
}

func newTrouble(r *rand.Rand) string { return pick(r, Unavailable, Lost, Hangs, Resets) }

func newFaults(r *rand.Rand, p *Plan) (list []Fault) {
	for _, w := range windows(r, r.IntN(6), p.Span, 5*time.Second, 90*time.Second) {
		f := Fault{Window: w, Every: pick(r, 1, 1, 2, 5)}
		f.Kind = pick(r, Late, Cut, Busy, Broken, Garbage, Reset, Silent, Old, Short)
		switch f.Kind {
		case Late:
			f.Delay = between(r, p.Timeout/4, 2*p.Timeout)
		case Busy:
			f.Delay = time.Duration(r.IntN(40)) * time.Second
		case Old:
			f.Delay = between(r, time.Second, 2*time.Minute)
		}
		list = append(list, f)
	}
	return list
}

// Number is the number of things that go wrong.
func (p *Plan) Number() int {
	n := len(p.Faults) + len(p.Stops) + len(p.Steps) + len(p.Disk) + len(p.Edits) + len(p.Outages)
	for _, f := range p.Followers {
		n += len(f.Away)
	}
	for _, x := range p.Rules {
		n += len(x.Away)
	}
	if p.Restore > 0 {
		n++
	}
	if f := p.Feed; f != nil {
		n += len(f.Away) + len(f.Lost) + len(f.Lies)
	}
	return n + len(p.Flips)
}

func newQuery(r *rand.Rand, p *Plan) Query {
	q := Query{Cost: between(r, 2*time.Millisecond, 150*time.Millisecond)}
	if r.IntN(3) == 0 {
		q.Registered = between(r, 0, p.Span/2)
	}
	every := pick(r, 5*time.Second, 20*time.Second, time.Minute, 10*time.Minute)
	rows := subset(r)
	for at := time.Duration(0); at < p.Span; at += time.Duration(r.ExpFloat64()*float64(every)) + time.Millisecond {
		q.Updates = append(q.Updates, Update{at, rows})
		switch r.IntN(4) {
		case 0:
			rows = subset(r)
		case 1: // back to what it was
			rows = q.Updates[r.IntN(len(q.Updates))].Rows
		default:
			rows = slices.Clone(rows)
			if i, found := slices.BinarySearch(rows, r.IntN(12)); found {
				rows = slices.Delete(rows, i, i+1)
			} else {
				n := r.IntN(12)
				if i, found = slices.BinarySearch(rows, n); !found {
					rows = slices.Insert(rows, i, n)
				}
			}
		}
	}
	return q
}

// subset returns some of the numbers below 12, in ascending order.
func subset(r *rand.Rand) []int {
	rows := []int{}
	for n := range 12 {
		if r.IntN(3) == 0 {
			rows = append(rows, n)
		}
	}
	return rows
}

func windows(r *rand.Rand, n int, span, shortest, longest time.Duration) (list []Window) {
	for range n {
		from := between(r, 0, span)
		list = append(list, Window{from, min(span, from+between(r, shortest, longest))})
	}
	slices.SortFunc(list, func(a, b Window) int { return int(a.From - b.From) })
	return list
}

func between(r *rand.Rand, from, until time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(until-from)+1)).Round(time.Millisecond)
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }
