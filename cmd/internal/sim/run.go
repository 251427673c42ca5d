package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// A Run is what happened in a world.
type Run struct {
	Plan   *plan.Plan
	Events []plan.Event
	Output []byte // what the server printed
	Trace  string // identifies the sequence of all calls
	Counts Counts
	Took   time.Duration // real time
}

// mostLives bounds the restarts of a server that does not come up.
const mostLives = 30

// Simulate runs a world to its end, with a bug of the module unless that is empty.
func Simulate(ctx context.Context, module *Module, p *plan.Plan, bug string) (*Run, error) {
	begun := time.Now()
	out := &bytes.Buffer{}
	m := &machine{Plan: p, rand: rand.New(rand.NewPCG(p.Seed, 0xd15c)), disk: NewDisk(), world: NewDisk(), trace: sha256.New(),
		out: out, bug: bug}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	n := m.world.make(false, 0o644)
	n.data = text
	m.world.nodes["plan.json"] = n
	r := &Run{Plan: p}
	for range mostLives {
		code, err := m.live(ctx, module)
		if err != nil {
			return nil, fmt.Errorf("seed %d: %w\n%s", p.Seed, err, tail(out.Bytes()))
		}
		if r.Events, err = events(m.world); err != nil {
			return nil, err
		}
		last := ""
		if len(r.Events) > 0 {
			last = r.Events[len(r.Events)-1].Kind
		}
		if code != killed && code != 0 {
			return nil, fmt.Errorf("seed %d: the world ended with code %d at %s\n%s", p.Seed, code, m.now, tail(out.Bytes()))
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
	r.Output, r.Trace, r.Counts, r.Took = out.Bytes(), fmt.Sprintf("%x", m.trace.Sum(nil)[:8]), m.counts, time.Since(begun)
	return r, nil
}

func tail(b []byte) []byte { return b[max(0, len(b)-40000):] }

// events reads what the world wrote.
func events(d *Disk) (list []plan.Event, err error) {
	n := d.nodes["log"]
	if n == nil {
		return nil, nil
	}
	for dec := json.NewDecoder(bytes.NewReader(n.data)); ; {
		var e plan.Event
		switch err := dec.Decode(&e); err {
		case nil:
			list = append(list, e)
		case io.EOF:
			return list, nil
		default:
			return nil, fmt.Errorf("the world's log: %w", err)
		}
	}
}
