package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parts are what a plan has a number of, in the order in which it is left out. The name of a part is a letter and a number from 0 on.
var parts = []struct {
	letter, what string
	n            func(p *Plan) int
}{
	{"q", "queries", func(p *Plan) int { return len(p.Queries) }},
	{"w", "followers", func(p *Plan) int { return len(p.Followers) }},
	{"r", "rules", func(p *Plan) int { return len(p.Rules) }},
	{"p", "the readers of the past", func(p *Plan) int { return one(p.ReadEvery > 0) }},
	{"g", "the backup", func(p *Plan) int { return one(p.Restore > 0) }},
	{"s", "stops", func(p *Plan) int { return len(p.Stops) }},
	{"f", "faults of the endpoint", func(p *Plan) int { return len(p.Faults) }},
	{"o", "outages of nodes", func(p *Plan) int { return len(p.Outages) }},
	{"d", "faults of the disk", func(p *Plan) int { return len(p.Disk) }},
	{"t", "steps of the clock", func(p *Plan) int { return len(p.Steps) }},
	{"e", "edits of settings", func(p *Plan) int { return len(p.Edits) }},
	{"h", "hints", func(p *Plan) int { return len(p.Hints) }},
	{"u", "the feed", func(p *Plan) int { return one(p.Feed != nil) }},
	{"k", "tokens", func(p *Plan) int { return one(p.Tokens) }},
	{"m", "profiles", func(p *Plan) int { return len(p.Profiles) }},
	{"i", "flipped bits", func(p *Plan) int { return len(p.Flips) }},
	{"a", "the times at which a follower is away", func(p *Plan) int { return len(p.Followers) }},
	{"b", "the times at which the receiver of a rule is away", func(p *Plan) int { return len(p.Rules) }},
	{"n", "what holders do with a query after they have registered it", func(p *Plan) int { return len(p.Queries) }},
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Parts returns the names of what can be left out of a plan, large parts first: what happens after so many seconds (c), and then
// all parts.
func (p *Plan) Parts() (names []string) {
	for _, share := range []time.Duration{4, 2} {
		names = append(names, fmt.Sprint("c", int((p.Span-p.Span/share).Seconds())))
	}
	slices.Reverse(names)
	for _, x := range parts {
		for i := range x.n(p) {
			names = append(names, fmt.Sprint(x.letter, i))
		}
	}
	return names
}

// Check returns an error if a name is none of a part that the plan has.
func (p *Plan) Check(names ...string) error {
	seconds := int(p.Span.Seconds())
	for _, name := range names {
		letter, n, err := split(name)
		if err != nil {
			return err
		}
		if letter == 'c' && 0 < n && n <= seconds || slices.Contains(p.Parts(), name) {
			continue
		}
		has := []string{fmt.Sprint("c1 to c", seconds)}
		for _, x := range parts {
			switch n := x.n(p); {
			case n == 1:
				has = append(has, x.letter+"0")
			case n > 1:
				has = append(has, fmt.Sprintf("%s0 to %[1]s%d", x.letter, n-1))
			}
		}
		return fmt.Errorf("the world of seed %d has no part %s, but %s", p.Seed, name, strings.Join(has, ", "))
	}
	return nil
}

// split returns the letter and the number of a part's name.
func split(name string) (letter byte, n int, err error) {
	known := "c (what happens after so many seconds)"
	is := strings.HasPrefix(name, "c")
	for _, x := range parts {
		is = is || strings.HasPrefix(name, x.letter)
		known += fmt.Sprintf(", %s (%s)", x.letter, x.what)
	}
	if is {
		n, err = strconv.Atoi(name[1:])
	}
	if !is || err != nil || n < 0 {
		return 0, 0, fmt.Errorf("%q is no part of a world, such as f0: a part is a letter and a number, and the letters are %s", name, known)
	}
	return name[0], n, nil
}

// Without returns the plan without some parts. Their numbers are those of the whole plan.
func (p *Plan) Without(names ...string) (*Plan, error) {
	o := *p
	drop := map[byte]map[int]bool{}
	for _, name := range names {
		letter, n, err := split(name)
		if err != nil {
			return nil, err
		}
		if drop[letter] == nil {
			drop[letter] = map[int]bool{}
		}
		drop[letter][n] = true
	}
	o.Queries = slices.Clone(p.Queries)
	for n := range drop['n'] {
		if n < len(o.Queries) {
			o.Queries[n].Before, o.Queries[n].Paused, o.Queries[n].Guest = Window{}, Window{}, Window{}
		}
	}
	o.Queries = left(o.Queries, drop['q'])
	for n := range drop['c'] {
		o.Span = min(o.Span, time.Duration(n)*time.Second)
	}
	for i, q := range o.Queries {
		o.Queries[i].Updates = slices.DeleteFunc(slices.Clone(q.Updates), func(u Update) bool { return u.At > o.Span })
		o.Queries[i].Registered = min(q.Registered, o.Span)
		for _, w := range []*Window{&o.Queries[i].Before, &o.Queries[i].Paused, &o.Queries[i].Guest} {
			if w.Until > o.Span {
				*w = Window{}
			}
		}
	}
	if o.Stops = left(p.Stops, drop['s']); o.Span < p.Span {
		o.Stops = slices.DeleteFunc(o.Stops, func(s Stop) bool { return s.At+s.Pause > o.Span })
	}
	o.Outages = left(p.Outages, drop['o'])
	o.Faults, o.Disk, o.Steps, o.Edits, o.Hints = left(p.Faults, drop['f']), left(p.Disk, drop['d']), left(p.Steps, drop['t']),
		left(p.Edits, drop['e']), left(p.Hints, drop['h'])
	if o.Span < p.Span {
		o.Outages = slices.DeleteFunc(o.Outages, func(x Outage) bool { return x.From > o.Span })
		o.Faults = slices.DeleteFunc(o.Faults, func(f Fault) bool { return f.From > o.Span })
		o.Disk = slices.DeleteFunc(o.Disk, func(f DiskFault) bool { return f.From > o.Span })
		o.Steps = slices.DeleteFunc(o.Steps, func(s Step) bool { return s.At > o.Span })
		o.Hints = slices.DeleteFunc(o.Hints, func(h Hint) bool { return h.At > o.Span })
	}
	if drop['g'][0] {
		o.Backup, o.Restore = 0, 0
	}
	if drop['p'][0] {
		o.ReadEvery = 0
	}
	if drop['u'][0] {
		o.Feed = nil
	}
	o.Tokens = p.Tokens && !drop['k'][0]
	o.Flips = slices.DeleteFunc(left(p.Flips, drop['i']), func(f Flip) bool { return f.At > o.Span })
	number := map[int]int{} // of the queries that stay
	for i := range p.Queries {
		if !drop['q'][i] {
			number[i] = len(number)
		}
	}
	o.Followers, o.Rules = nil, nil
	for i, f := range p.Followers {
		if drop['a'][i] {
			f.Away = nil
		}
		if n, stays := number[f.Query]; stays && !drop['w'][i] {
			f.Query = n
			o.Followers = append(o.Followers, f)
		}
	}
	for i, x := range p.Rules {
		if drop['b'][i] {
			x.Away = nil
		}
		if n, stays := number[x.Query]; stays && !drop['r'][i] {
			x.Query = n
			o.Rules = append(o.Rules, x)
		}
	}
	o.Profiles = left(p.Profiles, drop['m'])
	for i, x := range o.Profiles {
		o.Profiles[i].From, o.Profiles[i].Queries = min(x.From, o.Span), nil
		for _, q := range x.Queries {
			if n, stays := number[q]; stays {
				o.Profiles[i].Queries = append(o.Profiles[i].Queries, n)
			}
		}
	}
	o.Profiles = slices.DeleteFunc(o.Profiles, func(x Profile) bool { return len(x.Queries) == 0 })
	for i, h := range o.Hints {
		o.Hints[i].Queries = nil
		for _, q := range h.Queries {
			if n, stays := number[q]; stays {
				o.Hints[i].Queries = append(o.Hints[i].Queries, n)
			}
		}
	}
	return &o, nil
}

func left[T any](list []T, drop map[int]bool) (some []T) {
	for i := range list {
		if !drop[i] {
			some = append(some, list[i])
		}
	}
	return some
}
