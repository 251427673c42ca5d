package ui

import (
	"testing"

	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web"
)

// loopState is a daemon whose endpoints have one given state.
type loopState struct {
	web.Daemon
	scheduler.LoopState
}

func (d *loopState) State(string) (scheduler.LoopState, error) { return d.LoopState, nil }

// TestSignsOfSlots checks that a live page looks again after executions that bring no change.
func TestSignsOfSlots(t *testing.T) {
	d := &loopState{}
	r := newRigWith(t, func(r *rig, c *Config) { d.Daemon, c.Daemon = c.Daemon, d })
	r.endpoint("city")
	l := &live{visit: &visit{Server: r.pages}}
	for name, edit := range map[string]func(){
		"a slot":                        func() { d.Last.Number++ },
		"an execution outside the grid": func() { d.Last.OffGrid.Run++ },
		"one of another slot":           func() { d.Last.Number, d.Last.OffGrid.Run = d.Last.Number+1, 1 },
		"a new registration":            func() { d.Queries++ },
	} {
		before := l.signs()
		if edit(); l.signs() == before {
			t.Errorf("%s leaves no sign", name)
		}
	}
}
