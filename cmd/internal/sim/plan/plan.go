// Package plan says what happens in a simulated world. All of it follows from a seed.
package plan

import (
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

	Slot        time.Duration `json:"slot"`
	Budget      time.Duration `json:"budget"`
	Timeout     time.Duration `json:"timeout"` // of one execution
	MinGap      time.Duration `json:"min_gap"`
	Concurrency int           `json:"concurrency"`
	Policy      string        `json:"policy"`
	Rule        string        `json:"rule"`
	Merge       string        `json:"merge"`
	Retention   int           `json:"retention"` // changes kept of each query

	Queries    []Query    `json:"queries"`
	Followers  []Follower `json:"followers"`
	Faults     []Fault    `json:"faults"`
	Stops      []Stop     `json:"stops"`
	Steps      []Step     `json:"steps"`
	DiskBroken []Window   `json:"disk_broken"`
}

// A Query asks for the values of one subject. Its true result changes at Updates, of which
// the first is at 0. It is registered at Registered.
type Query struct {
	Registered time.Duration `json:"registered"`
	Cost       time.Duration `json:"cost"` // of one execution
	Updates    []Update      `json:"updates"`
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
)

// A Follower receives the changes of a query. In each of Away it is not connected, or its
// receiver answers 503.
type Follower struct {
	Way   string        `json:"way"`
	Query int           `json:"query"`
	From  time.Duration `json:"from"`
	Away  []Window      `json:"away"`
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

// New makes the plan of a seed.
func New(seed uint64) *Plan {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	p := &Plan{Seed: seed, Settle: 4 * time.Minute}
	p.Span = between(r, 5*time.Minute, 12*time.Minute)
	p.Slot = pick(r, 2*time.Second, 5*time.Second, 10*time.Second, 30*time.Second)
	p.Budget = p.Slot / time.Duration(2+r.IntN(4))
	p.Timeout = between(r, p.Budget/2, p.Budget)
	p.MinGap = pick(r, 0, 0, 25*time.Millisecond, 200*time.Millisecond)
	p.Concurrency = pick(r, 1, 1, 2, 4)
	p.Policy = pick(r, "hybrid", "hybrid", "hybrid", "rr", "ttl", "dj", "cr", "sjf", "ljf")
	p.Rule = pick(r, "strict", "strict", "debt")
	p.Merge = pick(r, "off", "off", "values")
	p.Retention = pick(r, 10_000, 10_000, 5)
	for range 2 + r.IntN(8) {
		p.Queries = append(p.Queries, newQuery(r, p))
	}
	for range 1 + r.IntN(4) {
		f := Follower{Way: pick(r, WebSocket, WebSocket, SSE, Webhook), Query: r.IntN(len(p.Queries))}
		f.From = p.Queries[f.Query].Registered + between(r, 2*time.Second, 2*time.Minute)
		f.Away = windows(r, r.IntN(3), p.Span, 3*time.Second, time.Minute)
		p.Followers = append(p.Followers, f)
	}
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
		p.Faults = append(p.Faults, f)
	}
	for _, w := range windows(r, r.IntN(5), p.Span, time.Second, 20*time.Second) {
		s := Stop{At: w.From, Pause: w.Until - w.From, Clean: r.IntN(4) == 0}
		if !s.Clean {
			s.Call = r.IntN(40)
		}
		p.Stops = append(p.Stops, s)
	}
	if r.IntN(3) == 0 {
		for range 1 + r.IntN(3) {
			p.Steps = append(p.Steps, Step{between(r, 0, p.Span), pick(r, -time.Hour, -time.Minute, time.Minute, time.Hour, 24*time.Hour, 40*24*time.Hour)})
		}
		slices.SortFunc(p.Steps, func(a, b Step) int { return int(a.At - b.At) })
	}
	if r.IntN(4) == 0 {
		p.DiskBroken = windows(r, 1, p.Span, 2*time.Second, 40*time.Second)
	}
	return p
}

// Number is the number of things that go wrong.
func (p *Plan) Number() int {
	n := len(p.Faults) + len(p.Stops) + len(p.Steps) + len(p.DiskBroken)
	for _, f := range p.Followers {
		n += len(f.Away)
	}
	return n
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
		list = append(list, Window{from, from + between(r, shortest, longest)})
	}
	slices.SortFunc(list, func(a, b Window) int { return int(a.From - b.From) })
	return list
}

func between(r *rand.Rand, from, until time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(until-from)+1)).Round(time.Millisecond)
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }
