package plan

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Parts returns the names of what can be left out of a plan, large parts first: what happens after so
// many seconds (c), queries (q), followers (w), rules (r), readers of the past (p), the backup (g), stops (s), faults of the
// endpoint (f) and of the disk (d), outages of nodes (o), steps of the clock (t), edits of settings (e), hints (h), the feed (u),
// profiles (m), flipped bits (i), tokens (k), and the times at which a follower (a) or the receiver of a rule (b) is away.
func (p *Plan) Parts() (names []string) {
	for _, share := range []time.Duration{4, 2} {
		names = append(names, fmt.Sprint("c", int((p.Span-p.Span/share).Seconds())))
	}
	slices.Reverse(names)
	for _, x := range []struct {
		letter string
		n      int
	}{{"q", len(p.Queries)}, {"w", len(p.Followers)}, {"r", len(p.Rules)}, {"p", 1}, {"g", 1}, {"s", len(p.Stops)}, {"f", len(p.Faults)},
		{"o", len(p.Outages)}, {"d", len(p.Disk)}, {"t", len(p.Steps)}, {"e", len(p.Edits)}, {"h", len(p.Hints)},
		{"u", 1}, {"k", 1}, {"m", len(p.Profiles)}, {"i", len(p.Flips)},
		{"a", len(p.Followers)}, {"b", len(p.Rules)}} {
		for i := range x.n {
			names = append(names, fmt.Sprint(x.letter, i))
		}
	}
	return names
}

// Without returns the plan without some parts. Their numbers are those of the whole plan.
func (p *Plan) Without(names ...string) (*Plan, error) {
	o := *p
	drop := map[byte]map[int]bool{}
	for _, name := range names {
		n, err := 0, error(nil)
		if len(name) > 1 {
			n, err = strconv.Atoi(name[1:])
		}
		if len(name) < 2 || err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no part of a world, such as f0", name)
		}
		if drop[name[0]] == nil {
			drop[name[0]] = map[int]bool{}
		}
		drop[name[0]][n] = true
	}
	o.Queries = left(p.Queries, drop['q'])
	for n := range drop['c'] {
		o.Span = min(o.Span, time.Duration(n)*time.Second)
	}
	for i, q := range o.Queries {
		o.Queries[i].Updates = slices.DeleteFunc(slices.Clone(q.Updates), func(u Update) bool { return u.At > o.Span })
		o.Queries[i].Registered = min(q.Registered, o.Span)
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
