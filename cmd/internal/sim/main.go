// Command sim runs the real server in simulated worlds: a virtual clock, seeded randomness,
// one thread, and a disk, an endpoint and followers that fail. The same seed gives the same
// run, call by call. It runs at the root of a checkout.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// once are the seeds of worlds that were wrong once, apart from those that make test runs anyway. They are run with each list of
// seeds that begins with the first one.
var once = []uint64{43, 181, 202, 239, 270, 371, 380, 400, 495, 555, 650, 656, 691, 709, 942, 2070, 2298, 3465, 3907, 3977, 4147,
	4976, 6701, 7051, 7362, 7675, 7847}

// A command is what was asked for.
type command struct {
	seed, from uint64
	seeds      int
	jobs       int
	story      bool
	output     bool
	twice      bool
	planted    string
	bugs       []int // that planted names
	without    string
	shrinks    bool
	times      bool
	built      bool
	dir        string
	module     *Module
}

func main() {
	c, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(2)
	}
	if err := c.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(1)
	}
}

// parse reads what is asked for, and refuses what makes no sense before anything is built.
func parse(args []string) (*command, error) {
	c, f := &command{}, flag.NewFlagSet("sim", flag.ExitOnError)
	f.StringVar(&c.dir, "dir", cacheDir(), "directory for the compiled server")
	f.Uint64Var(&c.seed, "seed", 0, "run only this seed")
	f.Uint64Var(&c.from, "from", 1, "the first seed")
	f.IntVar(&c.seeds, "seeds", 200, "number of seeds")
	f.IntVar(&c.jobs, "jobs", runtime.NumCPU(), "worlds at a time")
	f.BoolVar(&c.story, "story", false, "tell what happened")
	f.BoolVar(&c.output, "output", false, "show what the server printed")
	f.BoolVar(&c.twice, "twice", false, "run each seed twice, and compare all calls")
	f.StringVar(&c.planted, "bugs", "", "plant bugs and find them: names, or all; none runs worlds in which they sleep")
	f.StringVar(&c.without, "without", "", "leave out parts of the world, such as f0,w2")
	f.BoolVar(&c.shrinks, "shrink", false, "look for the smallest part of a wrong world that is wrong")
	f.BoolVar(&c.times, "times", false, "show what each world took")
	f.BoolVar(&c.built, "built", false, "run the server that was built before")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	seeded := false
	f.Visit(func(x *flag.Flag) { seeded = seeded || x.Name == "seed" })
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("the argument %q belongs to no flag: give a seed with -seed", f.Arg(0))
	case seeded && c.seed == 0:
		return nil, errors.New("-seed is 0: seeds begin with 1")
	case c.from == 0:
		return nil, errors.New("-from is 0: seeds begin with 1")
	case c.seeds < 0:
		return nil, fmt.Errorf("-seeds is %d: give 0 or more", c.seeds)
	case c.jobs < 1:
		return nil, fmt.Errorf("-jobs is %d: give 1 or more", c.jobs)
	case c.shrinks && c.seed == 0:
		return nil, errors.New("-shrink needs the seed of a wrong world: give it with -seed")
	}
	if c.planted != "" && c.planted != "none" {
		var err error
		if c.bugs, err = named(c.planted); err != nil {
			return nil, err
		}
	}
	return c, c.check()
}

// check refuses parts that the world of a seed does not have, and names that no world has.
func (c *command) check() error {
	p := plan.New(cmp.Or(c.seed, c.from))
	_, err := p.Without(c.parts()...)
	if err == nil && c.seed != 0 { // in several worlds, a part is left out where it is
		err = p.Check(c.parts()...)
	}
	if err != nil {
		return fmt.Errorf("-without: %w", err)
	}
	return nil
}

// cacheDir is outside of the checkout, where its files would be packages.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "freshet-sim")
}

func (c *command) run(ctx context.Context) error {
	bug := none
	if len(c.bugs) > 0 {
		bug = c.bugs[0]
	}
	if err := c.prepare(ctx); err != nil {
		return err
	}
	switch {
	case c.shrinks:
		return c.shrink(ctx, bug)
	case c.bugs == nil || c.seed != 0 && (c.story || c.output || c.without != ""): // one world with one bug
		return c.judge(ctx, bug)
	}
	return c.findAll(ctx, c.bugs)
}

// prepare builds the module.
func (c *command) prepare(ctx context.Context) error {
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return err
	}
	var edits []edit
	added := map[string]string{}
	if c.planted != "" {
		dir = filepath.Join(dir, "bugs")
		edits, added = planted()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	begun := time.Now()
	file := filepath.Join(dir, "world.wasm")
	if !c.built {
		if file, err = build(dir, edits, added); err != nil {
			return err
		}
	}
	code, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	built := time.Since(begun)
	if c.module, err = Compile(ctx, code, filepath.Join(dir, "cache"), runtime.NumCPU()); err != nil {
		return err
	}
	fmt.Printf("The server: %d MB, built in %s, compiled in %s.\n", len(code)>>20, built.Round(time.Second),
		(time.Since(begun) - built).Round(time.Second))
	return nil
}

// each calls do for seeds, several at a time, until it returns false or the seeds end.
func (c *command) each(do func(seed uint64) bool) {
	list := c.list()
	var next, stop atomic.Uint64
	var wg sync.WaitGroup
	for range c.jobs {
		wg.Go(func() {
			for stop.Load() == 0 {
				n := next.Add(1) - 1
				if n >= uint64(len(list)) {
					return
				}
				if !do(list[n]) {
					stop.Store(1)
				}
			}
		})
	}
	wg.Wait()
}

// list is the seeds that were asked for.
func (c *command) list() (list []uint64) {
	if c.seed != 0 {
		return []uint64{c.seed}
	}
	for n := range uint64(c.seeds) {
		list = append(list, c.from+n)
	}
	if c.from == 1 {
		for _, seed := range once {
			if !slices.Contains(list, seed) {
				list = append(list, seed)
			}
		}
	}
	return list
}

// judge runs the seeds, with a bug or none, and says what is wrong.
func (c *command) judge(ctx context.Context, bug int) error {
	begun := time.Now()
	var mu sync.Mutex
	var failed []uint64
	var worlds Counts
	var span time.Duration
	var faults int
	var broken error
	c.each(func(seed uint64) bool {
		p, err := plan.New(seed).Without(c.parts()...)
		var r *Run
		if err == nil {
			r, err = Simulate(ctx, c.module, p, bug)
		}
		if err == nil && c.twice {
			err = same(ctx, c.module, r, bug)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			broken = errors.Join(broken, err)
			return false
		}
		worlds.add(r.Counts)
		span += r.Plan.Span + r.Plan.Settle
		faults += r.Plan.Number()
		if c.times {
			used := plan.Event{}
			for _, e := range r.Events {
				if e.Kind == plan.Used {
					used = e
				}
			}
			n := r.Counts
			fmt.Printf("Seed %d: %.1fs, %d lives, %d looks, %d sleeps, %d disk calls, %d executions, ", seed, r.Took.Seconds(),
				n.Lives, n.Looks, n.Sleeps, n.Calls, n.Asks)
			fmt.Printf("%d nodes, %d goroutines, %d MiB.\n", r.Plan.Nodes, used.N, used.Seq>>20)
		}
		wrong := r.wrong()
		if len(wrong) > 0 {
			failed = append(failed, seed)
			fmt.Printf("Seed %d is wrong:\n", seed)
			for _, w := range wrong[:min(len(wrong), 10)] {
				fmt.Println("  " + w)
			}
			fmt.Printf("  Again: %s -story\n  Smaller: %[1]s -shrink\n", c.again(seed))
		}
		if c.story {
			os.Stdout.Write(story(r))
		}
		if c.output {
			os.Stdout.Write(r.Output)
		}
		return true
	})
	if broken != nil {
		return broken
	}
	fmt.Printf("%d worlds, %d virtual hours, %d faults, %d lives, %d crashes, %d executions in %s.\n", worlds.Worlds,
		int(span.Hours()), faults,
		worlds.Lives, worlds.Crashes, worlds.Asks, time.Since(begun).Round(time.Second))
	if len(failed) > 0 {
		return fmt.Errorf("%d seeds are wrong: %v", len(failed), failed)
	}
	return nil
}

// parts are those that are left out.
func (c *command) parts() []string {
	return strings.FieldsFunc(c.without, func(r rune) bool { return r == ',' })
}

// again is the command that runs a world again.
func (c *command) again(seed uint64) string {
	again := fmt.Sprintf("go run ./cmd/internal/sim -seed %d", seed)
	if c.planted != "" {
		again += " -bugs " + c.planted
	}
	if c.without != "" {
		again += " -without " + c.without
	}
	return again
}

// same runs a world again and compares.
func same(ctx context.Context, m *Module, r *Run, bug int) error {
	again, err := Simulate(ctx, m, r.Plan, bug)
	if err != nil {
		return err
	}
	if again.Trace != r.Trace || !bytes.Equal(again.Output, r.Output) {
		return fmt.Errorf("seed %d: two runs differ: %s, %s", r.Plan.Seed, r.Trace, again.Trace)
	}
	return nil
}
