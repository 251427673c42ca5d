package main

// This file finds planted bugs.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// A finder finds bugs. Worlds without bugs are run once for all of them.
type finder struct {
	*command
	mu    sync.Mutex
	clean map[uint64]*cleanRun
}

// A cleanRun is a world without bugs.
type cleanRun struct {
	once sync.Once
	met  []bool // nil if something is wrong by itself
	took time.Duration
}

// A found bug is one that was searched for.
type found struct {
	bug   int
	seed  uint64 // 0 if it was not found
	tried int
	runs  int
	took  time.Duration // of a processor, without the worlds that have no bug
	text  string
}

// without runs a world without bugs, once.
func (f *finder) without(ctx context.Context, p *plan.Plan) *cleanRun {
	f.mu.Lock()
	r := f.clean[p.Seed]
	if r == nil {
		r = &cleanRun{}
		f.clean[p.Seed] = r
	}
	f.mu.Unlock()
	r.once.Do(func() {
		is, err := Simulate(ctx, f.module, p, none)
		if err != nil {
			fmt.Printf("Seed %d is wrong by itself: %v\n", p.Seed, err)
			return
		}
		r.took = is.Took
		if wrong := is.wrong(); len(wrong) > 0 {
			fmt.Printf("Seed %d is wrong by itself: %s\n", p.Seed, wrong[0])
			return
		}
		r.met = is.Met
	})
	return r
}

// order lists the seeds, that of the world which showed a bug before first.
func (f *finder) order(n int) (list []uint64) {
	list = f.list()
	if first := showed[bugs[n].name]; first != 0 && f.seed == 0 {
		list = append([]uint64{first}, slices.DeleteFunc(list, func(seed uint64) bool { return seed == first })...)
	}
	return list
}

// find runs seeds until one shows the bug, except for worlds that do not reach its place.
func (f *finder) find(ctx context.Context, n int) (x found) {
	x.bug = n
	for _, seed := range f.order(n) {
		p := plan.New(seed)
		x.tried++
		if !bugs[n].can(p) {
			continue
		}
		if clean := f.without(ctx, p); clean.met == nil || !clean.met[n] {
			continue
		}
		x.runs++
		r, err := Simulate(ctx, f.module, p, n)
		if err != nil { // of the simulation
			x.text = err.Error()
			return x
		}
		x.took += r.Took
		if wrong := r.wrong(); len(wrong) > 0 {
			x.seed, x.text = seed, wrong[0]
			return x
		}
	}
	return x
}

// findAll finds each bug of a list, several at a time, and prints the table of the documentation.
func (c *command) findAll(ctx context.Context, list []int) error {
	f := &finder{command: c, clean: map[uint64]*cleanRun{}}
	table := make([]found, len(list))
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan int)
	for range c.jobs {
		wg.Go(func() {
			for i := range next {
				x := f.find(ctx, list[i])
				table[i] = x
				mu.Lock()
				fmt.Printf("%-18s seed %d, %d tried, %d run, %ds  %.150s\n", bugs[x.bug].name, x.seed, x.tried, x.runs,
					int(x.took.Seconds()), strings.ReplaceAll(x.text, "\n", " "))
				mu.Unlock()
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	wg.Wait()
	return f.print(table)
}

// print prints the table.
func (f *finder) print(table []found) error {
	missed, unexpected, took := 0, 0, time.Duration(0)
	fmt.Print("\n| bug | found by seed | worlds run | seconds |\n|---|---|---|---|\n")
	for _, x := range table {
		seed := fmt.Sprint(x.seed)
		if x.seed == 0 {
			missed++
			if !slices.Contains(unseen, bugs[x.bug].name) {
				unexpected++
			}
			seed = fmt.Sprintf("not by %d to %d", f.from, f.from+uint64(f.seeds)-1)
		}
		fmt.Printf("| %s | %s | %d | %.0f |\n", bugs[x.bug].what, seed, x.runs, x.took.Seconds())
		took += x.took
	}
	for _, r := range f.clean {
		took += r.took
	}
	fmt.Printf("\n%d of %d bugs are found in %s of a processor, of which %d worlds without a bug are a part.\n", len(table)-missed, len(table),
		took.Round(time.Second), len(f.clean))
	if unexpected > 0 {
		return fmt.Errorf("%d bugs are not found", unexpected)
	}
	return nil
}
