// The faults of the nemesis test.

package main

import (
	"cmp"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A fault is one kind of fault. It returns when it is over.
type fault struct {
	kind   string
	weight int
	do     func(n *nemesis, v *victim, lasts time.Duration)
}

var nemesisFaults = []fault{
	{"kill -9", 3, (*nemesis).kill},
	{"stop and continue", 3, (*nemesis).pause},
	{"cut off one node", 2, (*nemesis).isolate},
	{"cut off one node in one direction", 1, (*nemesis).deafen},
	{"cut one link", 1, (*nemesis).unlink},
	{"cut all links", 1, (*nemesis).scatter},
	{"slow links", 1, (*nemesis).slow},
	{"reset connections", 1, (*nemesis).reset},
}

// untilTaken is the duration of a fault that lasts until another node asks the endpoint. It lasts
// takeoverWait at most.
const (
	untilTaken   = -1
	takeoverWait = 30 * time.Second
)

// last waits until the fault of a node is to end.
func (n *nemesis) last(v *victim, lasts time.Duration) {
	if lasts != untilTaken {
		n.sleep(n.ctx, lasts)
		return
	}
	for end := time.Now().Add(takeoverWait); n.endpoint.owner() == v.name && time.Now().Before(end) && n.ctx.Err() == nil; {
		time.Sleep(20 * time.Millisecond)
	}
}

// attack injects all faults, at most two at a time. Before most of them it waits until a revision is
// recorded, so that the data changes between faults and during faults.
func (n *nemesis) attack() {
	var kinds []fault
	for _, f := range nemesisFaults {
		for range f.weight {
			kinds = append(kinds, f)
		}
	}
	n.rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	kinds = append(slices.Clone(nemesisFaults[:2]), kinds...) // these on owners, until another node asks
	slots := make(chan bool, 2)
	var running sync.WaitGroup
	for i := range n.faults {
		if n.ctx.Err() != nil || n.over.Load() || n.t.Failed() {
			break
		}
		if i <= 2 || n.rng.IntN(4) > 0 || n.stuck(20*time.Second) {
			n.oneMore(&running)
		}
		f := kinds[i%len(kinds)]
		v := n.nodes[n.names[n.rng.IntN(3)]]
		if owner := n.nodes[n.endpoint.owner()]; owner != nil && n.rng.IntN(2) == 0 {
			v = owner
		}
		lasts := time.Duration(n.rng.ExpFloat64() * float64(time.Second))
		if n.rng.IntN(3) == 0 { // longer than a lease
			lasts += n.lease + time.Second
		}
		if i < 2 || n.faults > 20 && v.name == n.endpoint.owner() && n.rng.IntN(4) == 0 {
			v, lasts = cmp.Or(n.nodes[n.endpoint.owner()], v), untilTaken
		}
		pause := time.Duration(n.rng.ExpFloat64() * float64(time.Second))
		slots <- true
		n.counts[f.kind]++
		running.Go(func() {
			defer func() { <-slots }()
			how := "for " + lasts.Round(time.Millisecond).String()
			if lasts == untilTaken {
				how = "until another node asks"
			}
			n.note("%s: %s %s (%s asks)", v.name, f.kind, how, n.endpoint.owner())
			f.do(n, v, lasts)
			n.note("%s: %s is over", v.name, f.kind)
		})
		n.sleep(n.ctx, pause)
	}
	running.Wait()
}

// oneMore waits until a revision is recorded. If that takes long, it lets all faults end.
func (n *nemesis) oneMore(running *sync.WaitGroup) {
	before := n.done.Load()
	for n.done.Load() == before && n.ctx.Err() == nil && !n.over.Load() {
		if n.stuck(20 * time.Second) {
			running.Wait()
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// stuck reports whether a revision has waited for long.
func (n *nemesis) stuck(long time.Duration) bool {
	since := n.waiting.Load()
	return since > 0 && time.Since(time.UnixMilli(since)) > long
}

func (n *nemesis) kill(v *victim, lasts time.Duration) {
	v.Lock()
	defer v.Unlock()
	v.p.Kill()
	n.last(v, lasts)
	n.start(v)
}

func (n *nemesis) pause(v *victim, lasts time.Duration) {
	v.Lock()
	defer v.Unlock()
	n.must(v.p.Cmd.Process.Signal(syscall.SIGSTOP))
	n.last(v, lasts)
	n.must(v.p.Cmd.Process.Signal(syscall.SIGCONT))
}

// between returns the links between a node and the others, in both directions.
func (n *nemesis) between(name string) (list []link) {
	for _, other := range n.names {
		if other != name {
			list = append(list, link{name, other}, link{other, name})
		}
	}
	return list
}

// cutOff holds links.
func (n *nemesis) cutOff(v *victim, lasts time.Duration, links ...link) {
	heal := n.links.hold(links...)
	n.last(v, lasts)
	heal()
}

func (n *nemesis) isolate(v *victim, lasts time.Duration) { n.cutOff(v, lasts, n.between(v.name)...) }

func (n *nemesis) deafen(v *victim, lasts time.Duration) {
	toIt := lasts%2 == 0
	n.cutOff(v, lasts, slices.DeleteFunc(n.between(v.name), func(l link) bool { return (l.to == v.name) != toIt })...)
}

func (n *nemesis) unlink(v *victim, lasts time.Duration) {
	n.cutOff(v, lasts, n.between(v.name)[:2]...)
}

func (n *nemesis) scatter(v *victim, lasts time.Duration) {
	n.cutOff(v, lasts, slices.Concat(n.between("n1"), n.between("n2"))...)
}

func (n *nemesis) slow(v *victim, lasts time.Duration) {
	heal := n.links.delay(20*time.Millisecond+max(0, lasts)/50, n.between(v.name)...)
	n.last(v, lasts)
	heal()
}

func (n *nemesis) reset(_ *victim, _ time.Duration) { n.links.cut() }
