package main

// This file runs one life of a machine: the module with a clock, randomness, a disk and one
// thread, all of which follow from the seed.

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/experimental/sys"
	"github.com/tetratelabs/wazero/experimental/sysfs"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	wasys "github.com/tetratelabs/wazero/sys"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// epoch is the time of the clock when a world begins.
var epoch = time.Date(2026, 9, 21, 12, 0, 0, 0, time.UTC)

// tick is the time that a look at the clock takes, so that time always passes.
const tick = 100 * time.Nanosecond

// killed is the exit code of a process that the simulation ended.
const killed = 137

// endless is the exit code of a process that does so much that it would never end. mostCalls is how many looks at the clock
// and calls of a disk a world may take: four times what the busiest ones do.
const (
	endless   = 138
	mostCalls = 600_000
)

// A Module is the compiled world.
type Module struct {
	runtime wazero.Runtime
	code    wazero.CompiledModule
	lender  lender // of memory
}

// Compile compiles a module's code for this machine, or takes it from a cache.
func Compile(ctx context.Context, code []byte, cache string, workers int) (*Module, error) {
	c, err := wazero.NewCompilationCacheWithDir(cache)
	if err != nil {
		return nil, err
	}
	ctx = experimental.WithCompilationWorkers(ctx, workers)
	m := &Module{runtime: wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(c))}
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, m.runtime); err != nil {
		return nil, err
	}
	// A place of a bug asks whether the bug is on.
	_, err = m.runtime.NewHostModuleBuilder("sim").NewFunctionBuilder().WithGoFunction(api.GoFunc(func(ctx context.Context, stack []uint64) {
		x, n := ctx.Value(machineKey{}).(*machine), int(api.DecodeI32(stack[0]))
		x.met[n] = true
		stack[0] = 0
		if x.bug == n {
			stack[0] = 1
		}
	}), []api.ValueType{api.ValueTypeI32}, []api.ValueType{api.ValueTypeI32}).Export("bug").Instantiate(ctx)
	if err == nil {
		m.code, err = m.runtime.CompileModule(ctx, code)
	}
	return m, err
}

// machineKey is the key of a machine in the context of its calls.
type machineKey struct{}

// A machine is a computer of the simulated world.
type machine struct {
	*plan.Plan
	now   time.Duration // since the world began
	rand  *rand.Rand    // of faults
	disk  *Disk         // of the server
	world *Disk         // of what is around it; nothing is lost there
	trace hash.Hash     // of all calls, in their order
	out   io.Writer     // what the process prints
	bug   int           // of the module that is on, or -1
	met   []bool        // by bug: its place was reached
	flip  *flipped      // the bit that is another one now, if any
	flips int           // of the plan that are done

	done   int        // looks at the clock and calls of the world's disk
	calls  int        // of the disk, in this life
	stop   *plan.Stop // that ends this life without notice, if any
	due    int        // the number of the call that does
	counts Counts
}

// Counts are what a machine did.
type Counts struct {
	Worlds, Lives, Crashes, Calls, Looks, Sleeps, Asks int
}

func (c *Counts) add(o Counts) {
	c.Worlds += o.Worlds
	c.Lives += o.Lives
	c.Crashes += o.Crashes
	c.Calls += o.Calls
	c.Looks += o.Looks
	c.Sleeps += o.Sleeps
	c.Asks += o.Asks
}

// note adds a call to the trace.
func (m *machine) note(kind byte, n int64) {
	var b [9]byte
	b[0] = kind
	binary.LittleEndian.PutUint64(b[1:], uint64(n))
	m.trace.Write(b[:])
}

// set is how far the clock is from the time that has passed.
func (m *machine) set() (by time.Duration) {
	for _, s := range m.Steps {
		if s.At <= m.now {
			by += s.By
		}
	}
	return by
}

// look is a look at the clock.
func (m *machine) look() {
	m.counts.Looks++
	m.tire()
	m.now += tick
	if m.stop != nil && m.now > m.stop.At+time.Second {
		panic(wasys.NewExitError(killed))
	}
}

// tire ends a process that does too much.
func (m *machine) tire() {
	if m.done++; m.done > mostCalls {
		panic(wasys.NewExitError(endless))
	}
}

// before is called before each call that changes the disk. With an error it returns how many
// bytes of a write are done all the same.
func (m *machine) before(op Op) (int, sys.Errno) {
	m.calls++
	m.counts.Calls++
	m.note(op.Kind[0], int64(op.Size))
	if m.stop != nil && m.now >= m.stop.At {
		if m.due == 0 {
			m.due = m.calls + m.stop.Call
		}
		if m.calls >= m.due {
			panic(wasys.NewExitError(killed))
		}
	}
	for _, f := range m.Disk {
		if !f.Holds(m.now) || m.calls%f.Every != 0 {
			continue
		}
		switch {
		case f.Kind == plan.Refuses && op.Kind == "write", f.Kind == plan.NoSync && op.Kind == "sync":
			return 0, sys.EIO
		case f.Kind == plan.Full && op.Kind == "write":
			return op.Size / 2, noSpace
		case f.Kind == plan.Full && op.Grows:
			return 0, noSpace
		}
	}
	return 0, 0
}

// live runs the module until it ends or is ended. It returns the exit code.
func (m *machine) live(ctx context.Context, module *Module) (code uint32, err error) {
	m.counts.Lives++
	m.calls, m.due, m.stop = 0, 0, nil
	for i, s := range m.Stops {
		if s.At >= m.now {
			if !s.Clean {
				m.stop = &m.Stops[i]
			}
			break
		}
	}
	begun := m.now
	m.disk.before = m.before
	m.world.before = func(Op) (int, sys.Errno) {
		m.tire()
		return 0, 0
	}
	seed := [32]byte{}
	for i := range 4 {
		binary.LittleEndian.PutUint64(seed[8*i:], m.rand.Uint64())
	}
	fs := wazero.NewFSConfig().(sysfs.FSConfig).WithSysFSMount(m.disk, "/").(sysfs.FSConfig).WithSysFSMount(m.world, "/world")
	config := wazero.NewModuleConfig().WithName("").WithArgs("world").WithFSConfig(fs).WithStdout(m.out).WithStderr(m.out).
		WithEnv("PWD", "/").WithEnv("TMPDIR", "/").WithEnv("HOME", "/").WithEnv("GOMEMLIMIT", "1000MiB").WithEnv("GOGC",
		"600").WithEnv("SIM_AT", fmt.Sprint(int64(begun))).
		WithRandSource(rand.NewChaCha8(seed)).
		WithWalltime(func() (int64, int32) {
			m.look()
			at := epoch.Add(m.now + m.set())
			m.note('c', int64(m.now))
			return at.Unix(), int32(at.Nanosecond())
		}, wasys.ClockResolution(1)).
		WithNanotime(func() int64 {
			m.look()
			m.note('n', int64(m.now))
			return int64(m.now-begun) + 1
		}, wasys.ClockResolution(1)).
		WithNanosleep(func(ns int64) {
			m.counts.Sleeps++
			m.note('z', ns)
			m.now += time.Duration(max(ns, 0))
		}).
		WithOsyield(func() {})
	ctx = context.WithValue(ctx, machineKey{}, m)
	instance, err := module.runtime.InstantiateModule(experimental.WithMemoryAllocator(ctx, &module.lender), module.code, config)
	if instance != nil {
		defer instance.Close(ctx)
	}
	if exit, ok := errors.AsType[*wasys.ExitError](err); ok {
		return exit.ExitCode(), nil
	}
	return 0, err
}
