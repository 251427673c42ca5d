package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// A Run is what happened in a world.
type Run struct {
	Plan   *plan.Plan
	Events []plan.Event
	Output []byte // what the server printed
	Trace  string // identifies the sequence of all calls, and what the disks have at the end
	Counts Counts
	Took   time.Duration // of a processor
	Met    []bool        // by planted bug: its place was reached
	Ended  string        // how the server's process ended though nothing in the plan ends it, and what it printed last
}

// wrong returns what is wrong in a run. A world that has no end is not judged.
func (r *Run) wrong() []string {
	if r.Ended != "" {
		return []string{r.Ended}
	}
	return Judge(r)
}

// none is no planted bug.
const none = -1

// storeFile is where the server keeps everything.
const storeFile = "data/freshet.db"

// mostLives bounds the restarts of a server that does not come up.
const mostLives = 30

// Simulate runs a world to its end, with a bug of the module or none.
func Simulate(ctx context.Context, module *Module, p *plan.Plan, bug int) (*Run, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun := processor()
	out := &bytes.Buffer{}
	m := &machine{Plan: p, rand: rand.New(rand.NewPCG(p.Seed, 0xd15c)), disk: NewDisk(), world: NewDisk(), trace: sha256.New(),
		out: out, bug: bug, met: make([]bool, len(bugs))}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	n := m.world.make(false, 0o644)
	n.data = text
	m.world.nodes["plan.json"] = n
	r := &Run{Plan: p}
	var log reader
	for range mostLives {
		m.flipBit()
		printed := out.Len()
		code, failed := m.live(ctx, module)
		if err := log.read(m.world); err != nil {
			return nil, fmt.Errorf("seed %d: %w", p.Seed, err)
		}
		r.Events = log.events
		if failed == nil && m.mend(code, r.Events) {
			m.disk.Stop()
			m.now += time.Minute
			continue
		}
		last := ""
		if len(r.Events) > 0 {
			last = r.Events[len(r.Events)-1].Kind
		}
		if failed != nil || code != killed && code != 0 {
			r.Ended = clock(m.now) + " " + ended(code, failed, out.String()[printed:])
			break
		}
		if last == plan.End {
			break
		}
		pause := 5 * time.Second // of an init system before it starts a server again
		switch {
		case code == killed:
			m.counts.Crashes++
			m.disk.Crash(m.rand)
			m.now = max(m.now, m.stop.At+1)
			pause = m.stop.Pause
		case last == plan.Stopped:
			m.disk.Stop()
			for _, s := range m.Stops {
				if s.Clean && s.At <= m.now {
					pause = s.Pause
				}
			}
		default:
			m.disk.Stop()
		}
		m.now += pause
	}
	m.counts.Worlds = 1
	for _, e := range r.Events {
		if e.Kind == plan.Ask {
			m.counts.Asks++
		}
	}
	m.disk.hash(m.trace)
	m.world.hash(m.trace)
	r.Output, r.Trace, r.Counts, r.Took = out.Bytes(), fmt.Sprintf("%x", m.trace.Sum(nil)[:8]), m.counts, processor()-begun
	r.Met = m.met
	return r, nil
}

// ended says how a process ended and what it printed: the last lines, or those from a panic on.
func ended(code uint32, failed error, printed string) string {
	const most = 20
	how := fmt.Sprintf("the server's process ends with code %d", code)
	switch {
	case failed != nil:
		how, printed = "the server's process fails", strings.TrimSpace(printed)+"\n"+failed.Error()
	case code == endless:
		how = "the server's process does so much that it would never end"
	}
	if printed = strings.TrimSpace(printed); printed == "" {
		return how
	}
	lines := strings.Split(printed, "\n")
	from := max(0, len(lines)-most)
	if i := slices.IndexFunc(lines[:from], func(line string) bool {
		return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
	}); i >= 0 {
		from = i
	}
	return how + ":\n    " + strings.Join(lines[from:min(len(lines), from+most)], "\n    ")
}

// A reader reads what the world wrote.
type reader struct {
	events []plan.Event
	done   int // bytes
}

func (r *reader) read(d *Disk) error {
	n := d.nodes["log"]
	if n == nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(n.data[r.done:]))
	for {
		var e plan.Event
		switch err := dec.Decode(&e); err {
		case nil:
			r.events = append(r.events, e)
		case io.EOF:
			r.done = len(n.data)
			return nil
		default:
			return fmt.Errorf("the world's log: %w", err)
		}
	}
}

// say writes an event that the world does not see.
func (m *machine) say(e plan.Event) {
	n := m.world.nodes["log"]
	e.At = m.now
	b, err := json.Marshal(e)
	if err != nil || n == nil {
		return
	}
	n.data = append(append(n.data, b...), '\n')
}

// A flipped bit is one of the store's file.
type flipped struct {
	node   *inode
	at     int
	bit    byte
	before *Disk // as it was
}

func (f *flipped) turn() {
	for _, b := range [][]byte{f.node.data, f.node.durable} {
		if f.at < len(b) {
			b[f.at] ^= f.bit
		}
	}
}

// flipBit changes a bit of the store before a life begins, if the plan says so.
func (m *machine) flipBit() {
	for i, f := range m.Flips {
		if f.At > m.now || i < m.flips {
			continue
		}
		m.flips = i + 1
		n := m.disk.nodes[storeFile]
		if n == nil || len(n.data) == 0 {
			continue
		}
		m.flip = &flipped{n, int(f.Place * float64(len(n.data))), 1 << (i % 8), m.disk.clone()}
		m.flip.turn()
		m.say(plan.Event{Kind: plan.Flipped, Text: fmt.Sprintf("bit %d of byte %d of %d", i%8, m.flip.at, len(n.data))})
		return
	}
}

// mend turns a flipped bit back if that life has noticed it. If it noticed that before it served anybody, then the disk becomes as
// it was, since opening the store may have copied the page.
func (m *machine) mend(code uint32, events []plan.Event) bool {
	f := m.flip
	if f == nil {
		return false
	}
	m.flip = nil // what is written there later is right
	noticed, served := code != 0 && code != killed, false
	for i := len(events) - 1; i >= 0 && events[i].Kind != plan.Start; i-- {
		noticed = noticed || events[i].Text != "" && (events[i].Kind == plan.Checked || events[i].Kind == plan.Failed)
		served = served || events[i].Kind == plan.Ready
	}
	switch {
	case !noticed:
		return false
	case served:
		f.turn()
	default:
		m.disk.nodes = f.before.nodes
	}
	m.say(plan.Event{Kind: plan.Mended})
	return true
}
