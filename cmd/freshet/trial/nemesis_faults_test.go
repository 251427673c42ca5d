// The faults of the nemesis test.

package trial

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// A fault is one kind of fault. It returns when it is over.
type fault struct {
	kind   string
	weight int
	do     func(n *nemesis, v *victim, lasts time.Duration)
	cuts   func(a, b, c string) []link // links that are cut, for a fault without do; a is the victim
	alone  bool                        // no other fault is in force meanwhile
	long   bool                        // for long runs
}

var nemesisFaults = []fault{
	{kind: "kill -9", weight: 4, do: (*nemesis).kill},
	{kind: "stop and continue", weight: 4, do: (*nemesis).pause},
	{kind: "cut off one node", weight: 2, cuts: func(a, b, c string) []link { return []link{{a, b}, {b, a}, {a, c}, {c, a}} }},
	{kind: "cut what one node sends", weight: 1, cuts: func(a, b, c string) []link { return []link{{a, b}, {a, c}} }},
	{kind: "cut what is sent to one node", weight: 1, cuts: func(a, b, c string) []link { return []link{{b, a}, {c, a}} }},
	{kind: "cut one link", weight: 1, cuts: func(a, b, _ string) []link { return []link{{a, b}, {b, a}} }},
	{kind: "cut one link in one direction", weight: 1, cuts: func(a, b, _ string) []link { return []link{{a, b}} }},
	{kind: "cut all links", weight: 1, cuts: func(a, b, c string) []link { return []link{{a, b}, {b, a}, {a, c}, {c, a}, {b, c}, {c, b}} }},
	{kind: "slow links", weight: 1, do: (*nemesis).slow},
	{kind: "reset connections", weight: 1, do: (*nemesis).reset},
	{kind: "kill -9 of all", weight: 1, do: (*nemesis).killAll, alone: true, long: true},
	{kind: "damaged journal", weight: 2, do: (*nemesis).damage, alone: true, long: true},
}

// short is the largest number of faults of a short run.
const short = 20

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
	only := os.Getenv("FRESHET_NEMESIS_ONLY") // parts of the names of faults
	for _, f := range nemesisFaults {
		if f.long && only == "" && n.faults <= short {
			continue
		}
		if slices.ContainsFunc(strings.Split(only, ","), func(s string) bool { return strings.Contains(f.kind, s) }) {
			kinds = append(kinds, slices.Repeat([]fault{f}, f.weight)...)
		}
	}
	n.rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	if only == "" {
		kinds = append(slices.Clone(nemesisFaults[:2]), kinds...) // these on owners, until another node asks
	}
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
		if reader := n.nodes[n.patches.reader()]; reader != nil && n.rng.IntN(2) == 0 {
			v = reader
		}
		lasts := time.Duration(n.rng.ExpFloat64() * float64(time.Second))
		if n.rng.IntN(3) == 0 { // longer than a lease
			lasts += n.lease + time.Second
		}
		if i < 2 || n.faults > short && v.name == n.endpoint.owner() && n.rng.IntN(4) == 0 {
			v, lasts = cmp.Or(n.nodes[n.endpoint.owner()], v), untilTaken
		}
		if f.cuts != nil {
			f.do = cutting(f, n.others(v.name))
		}
		pause := time.Duration(n.rng.ExpFloat64() * float64(time.Second))
		n.count(f.kind)
		if f.alone {
			running.Wait()
		}
		slots <- true
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
		if f.alone {
			running.Wait()
		}
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
	up := n.changes.hinder(v.name)
	v.p.Kill()
	n.last(v, lasts)
	up()
	n.start(v)
}

func (n *nemesis) pause(v *victim, lasts time.Duration) {
	v.Lock()
	defer v.Unlock()
	up := n.changes.hinder(v.name)
	defer up()
	n.must(v.p.Cmd.Process.Signal(syscall.SIGSTOP))
	n.last(v, lasts)
	n.must(v.p.Cmd.Process.Signal(syscall.SIGCONT))
}

// others returns the other two nodes in random order.
func (n *nemesis) others(name string) []string {
	list := slices.DeleteFunc(slices.Clone(n.names), func(other string) bool { return other == name })
	n.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// cutting returns what a fault does that cuts links: all bytes on them wait until it is over.
func cutting(f fault, others []string) func(n *nemesis, v *victim, lasts time.Duration) {
	return func(n *nemesis, v *victim, lasts time.Duration) {
		links := f.cuts(v.name, others[0], others[1])
		var names []string
		for _, l := range links {
			names = append(names, l.String())
		}
		up := n.changes.hinder(names...)
		defer up()
		heal := n.links.hold(links...)
		defer heal()
		n.last(v, lasts)
	}
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

func (n *nemesis) slow(v *victim, lasts time.Duration) {
	heal := n.links.delay(20*time.Millisecond+max(0, lasts)/50, n.between(v.name)...)
	n.last(v, lasts)
	heal()
}

// killAll kills all nodes and starts them again.
func (n *nemesis) killAll(_ *victim, lasts time.Duration) {
	var starting sync.WaitGroup
	defer starting.Wait()
	up := n.changes.hinder(n.names...)
	for _, name := range n.names {
		v := n.nodes[name]
		v.Lock()
		v.p.Kill()
	}
	n.sleep(n.ctx, max(0, lasts)/4)
	up()
	for _, name := range n.names {
		v := n.nodes[name]
		starting.Go(func() {
			defer v.Unlock()
			n.start(v)
		})
	}
}

// damage shortens a file of a node's journal, or changes a bit of it, while the node does not run.
// The node recovers from the others, or it says that it is damaged and is rebuilt.
func (n *nemesis) damage(v *victim, _ time.Duration) {
	for _, name := range n.names { // what only this node has would be lost
		n.eventually(name+" is ready", func() bool { return n.get(n.nodes[name], "/readyz", nil) == nil })
	}
	v.Lock()
	defer v.Unlock()
	up := n.changes.hinder(v.name)
	defer up()
	v.p.Kill()
	var files []string
	err := filepath.WalkDir(filepath.Join(v.data, "journal"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if i, err := d.Info(); err == nil && i.Size() > 0 {
				files = append(files, path)
			}
		}
		return err
	})
	n.must(err)
	if n.harm.IntN(2) == 0 { // the messages are one file of many
		files = slices.DeleteFunc(files, func(path string) bool {
			return !strings.Contains(path, "/streams/") || !strings.HasSuffix(path, ".blk")
		})
	}
	file := files[n.harm.IntN(len(files))]
	b, err := os.ReadFile(file)
	n.must(err)
	at, how := n.harm.IntN(len(b)), "is cut to byte"
	if n.harm.IntN(2) == 0 {
		b = b[:at]
	} else {
		b[at] ^= 1 << n.harm.IntN(8)
		how = "has another bit in byte"
	}
	n.note("%s: %s %s %d", v.name, strings.TrimPrefix(file, v.data), how, at)
	n.must(os.WriteFile(file, b, 0o600))
	v.damaged = true
	n.startDamaged(v)
}

// startDamaged starts a node, and rebuilds it if it says that this is necessary. What it then serves is
// compared with another node, because a later rebuild would remove the evidence.
func (n *nemesis) startDamaged(v *victim) {
	other := n.nodes[n.names[(slices.Index(n.names, v.name)+1)%len(n.names)]]
	p, err := clitest.TryStart(n.t, nil, binary(n.t), "serve", "--config", v.config)
	ready := false
	if err == nil {
		v.p = p
		for end := time.Now().Add(2 * time.Minute); !ready && time.Now().Before(end) && n.ctx.Err() == nil; n.sleep(n.ctx, 50*time.Millisecond) {
			ready = n.get(v, "/readyz", nil) == nil
		}
		since := time.Now()
		for ready && n.ctx.Err() == nil && !v.keeps(since) {
			select {
			case <-p.Ended:
				ready = false
			case <-time.After(50 * time.Millisecond):
				if time.Since(since) > 2*time.Minute {
					n.object("%s is ready and keeps no entries of the journal\n%s", v.name, p.Stderr)
					ready = false
				}
			}
		}
		if !ready {
			err = fmt.Errorf("not ready: %v\n%s", n.get(v, "/readyz", nil), p.Stderr)
			p.Kill()
		}
	}
	if ready {
		n.count("  node recovered by itself")
	} else {
		if n.ctx.Err() == nil && !asksForRebuild(err) {
			n.object("%s does not say how to mend it: %v", v.name, err)
		}
		n.rebuild(v, err)
	}
	if err := sameLog(n.history(v), n.history(other)); err != nil {
		n.object("%s after its journal was damaged: %v", v.name, err)
	}
}

// rebuild rebuilds a node that does not run from one of the others, and starts it.
func (n *nemesis) rebuild(v *victim, why error) {
	n.note("%s is rebuilt: %s", v.name, lastLine(why.Error()))
	n.count("  node rebuilt")
	var out string
	err := errors.New("no time left")
	for end := time.Now().Add(2 * time.Minute); err != nil && time.Now().Before(end) && n.ctx.Err() == nil; n.sleep(n.ctx, time.Second) {
		for _, other := range n.names { // one of them may be down
			if other == v.name {
				continue
			}
			from := "http://" + n.nodes[other].addr
			if out, err = command(n.t, binary(n.t), "cluster", "rebuild", "--server", from, "--config", v.config); err == nil {
				break
			}
		}
	}
	if err != nil && n.ctx.Err() == nil {
		n.object("rebuild of %s: %v\n%s", v.name, err, out)
	}
	v.damaged = false
	n.start(v)
}

// keeps reports whether a node has written entries to its files of the journal since a time. Leases are
// renewed every second, so a node that takes part has.
func (v *victim) keeps(since time.Time) bool {
	files, err := filepath.Glob(filepath.Join(v.data, "journal", "jetstream", "$G", "streams", "*", "msgs", "*.blk"))
	return err == nil && slices.ContainsFunc(files, func(file string) bool {
		info, err := os.Stat(file)
		return err == nil && info.ModTime().After(since)
	})
}

func lastLine(text string) string { return lastLines(text, 1) }

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (n *nemesis) reset(_ *victim, _ time.Duration) { n.links.cut() }
