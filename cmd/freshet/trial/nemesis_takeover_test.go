// How long takeovers take in the nemesis test: by the wall clock, and from the moment that they are possible.

package trial

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// A change begins or ends what keeps a node, or a link, from taking part.
type change struct {
	at     time.Time
	what   string // the name of a node, or a link as text
	begins bool
}

// A changeLog has all changes, in their order.
type changeLog struct {
	mu   sync.Mutex
	list []change
}

// hinder notes that nodes or links do not take part until the returned function is called.
func (l *changeLog) hinder(what ...string) (end func()) {
	note := func(begins bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, w := range what {
			l.list = append(l.list, change{time.Now(), w, begins})
		}
	}
	note(true)
	return func() { note(false) }
}

func (l link) String() string { return l.from + ">" + l.to }

// possibleSince returns since when a majority could have taken over before a time: two nodes that run
// and reach each other in both directions without an interruption. If there are none at that time, the
// last two count that there were. The result is not before from.
func possibleSince(changes []change, names []string, from, to time.Time) time.Time {
	hindered := map[string]int{}
	since := map[[2]string]time.Time{} // of pairs that reach each other
	var last, broken time.Time         // of the pair that was broken last: since when, and when
	look := func(at time.Time) {
		for i, a := range names {
			for _, b := range names[i+1:] {
				pair := [2]string{a, b}
				began, was := since[pair]
				is := hindered[a]+hindered[b]+hindered[link{a, b}.String()]+hindered[link{b, a}.String()] == 0
				switch {
				case is && !was:
					since[pair] = at
				case !is && was:
					delete(since, pair)
					if at.After(broken) || began.Before(last) {
						last, broken = began, at
					}
				}
			}
		}
	}
	look(time.Time{})
	for i, c := range changes {
		if c.at.After(to) {
			break
		}
		if hindered[c.what]--; c.begins {
			hindered[c.what] += 2
		}
		if i+1 == len(changes) || !changes[i+1].at.Equal(c.at) {
			look(c.at)
		}
	}
	if len(since) > 0 {
		last = to
	}
	for _, began := range since {
		if began.Before(last) {
			last = began
		}
	}
	if last.Before(from) {
		return from
	}
	return last
}

// A pause is the time from the last request of a node to the next one of any node.
type pause struct {
	before, after string // nodes
	from, to      time.Time
}

// pauses returns those between two nodes, and those of one node that are longer than a lease.
func (l *askLog) pauses(lease time.Duration) (between, within []pause) {
	for i, a := range l.requests[min(1, len(l.requests)):] {
		before := l.requests[i]
		switch p := (pause{before.node, a.node, before.ended, a.began}); {
		case before.node != a.node:
			between = append(between, p)
		case p.to.Sub(p.from) > lease:
			within = append(within, p)
		}
	}
	return between, within
}

// reportPauses prints how long the endpoint was not asked. The caller holds the lock of the endpoint.
func (n *nemesis) reportPauses() {
	n.changes.mu.Lock()
	defer n.changes.mu.Unlock()
	between, within := n.endpoint.log.pauses(n.lease)
	for _, x := range []struct {
		what string
		list []pause
	}{{"from the last request of an owner to the first of the next", between}, {"pauses of one owner longer than a lease", within}} {
		var wall, possible []time.Duration
		for _, p := range x.list {
			since := possibleSince(n.changes.list, n.names, p.from, p.to)
			wall, possible = append(wall, p.to.Sub(p.from)), append(possible, p.to.Sub(since))
			if slow := p.to.Sub(p.from); slow > 2*n.lease+2*time.Second {
				n.t.Logf("slow: %s asks %v after %s, %v after a majority could take over: %s to %s", p.after, slow.Round(time.Millisecond),
					p.before, p.to.Sub(since).Round(time.Millisecond), p.from.Format("15:04:05.000"), p.to.Format("15:04:05.000"))
			}
		}
		n.t.Logf("%s: %s", x.what, quantiles(wall))
		n.t.Logf("  from the moment that a majority could take over: %s", quantiles(possible))
	}
}

func TestNemesisPossible(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(second int) time.Time { return start.Add(time.Duration(second) * time.Second) }
	list := func(text ...any) (list []change) { // times, each followed by what begins (+) or ends (-) then
		now := start
		for _, x := range text {
			switch x := x.(type) {
			case int:
				now = at(x)
			case string:
				list = append(list, change{now, x[1:], x[0] == '+'})
			}
		}
		return list
	}
	for what, x := range map[string]struct {
		changes []change
		want    int // for a pause from 10 to 20
	}{
		"no fault":                      {nil, 10},
		"one node is killed":            {list(10, "+a", 15, "-a"), 10},
		"before, no majority":           {list(1, "+a", 2, "+b", 5, "-a"), 10},
		"two nodes are killed":          {list(10, "+a", 11, "+b", 15, "-a", 17, "-b"), 15},
		"another node each time":        {list(9, "+a", 12, "-a", "+b", 14, "-b", "+c", 18, "-c"), 14},
		"all links are cut":             {list(11, "+a>b", "+c>a", "+b>c", 16, "-a>b", 17, "-c>a", "-b>c"), 16},
		"one link is cut":               {list(11, "+a>b", 16, "-a>b"), 10},
		"two faults of one node":        {list(9, "+c", 11, "+a", 12, "+a", 13, "-a", 16, "-a"), 16},
		"no majority when it is over":   {list(9, "+c", 11, "+a", 13, "-a", 19, "+a", 30, "-a"), 13},
		"it is over before the changes": {list(21, "+a", "+b", 22, "-a"), 10},
	} {
		if got := possibleSince(x.changes, []string{"a", "b", "c"}, at(10), at(20)); !got.Equal(at(x.want)) {
			t.Errorf("%s: possible since %v, want %d", what, fmt.Sprint(got.Sub(start)), x.want)
		}
	}
}
