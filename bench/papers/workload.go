package papers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
)

var (
	// ErrWorkload is wrapped by the errors about workloads that make no sense.
	ErrWorkload = errors.New("bad workload")
	// ErrNoPolicy is wrapped by Run when a policy cannot run over a workload.
	ErrNoPolicy = errors.New("no such policy")
)

// A Capacity is how many resources can be probed in a chronon: the same in all
// of them, written as a number, or a list with one number for each; chronons
// beyond its end have the last.
type Capacity []int

// At is that of chronon t, from 1.
func (c Capacity) At(t int) int {
	if len(c) == 0 {
		return 0
	}
	return c[min(t, len(c))-1]
}

func (c Capacity) check() error {
	if len(c) == 0 {
		return fmt.Errorf("%w: C is missing", ErrWorkload)
	}
	for _, n := range c {
		if n < 0 {
			return fmt.Errorf("%w: C is %d", ErrWorkload, n)
		}
	}
	return nil
}

// UnmarshalJSON reads a number or a list.
func (c *Capacity) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("[")) {
		return json.Unmarshal(b, (*[]int)(c))
	}
	*c = make(Capacity, 1)
	return json.Unmarshal(b, &(*c)[0])
}

// MarshalJSON writes a number where one is enough.
func (c Capacity) MarshalJSON() ([]byte, error) {
	if len(c) == 1 {
		return json.Marshal(c[0])
	}
	return json.Marshal([]int(c))
}

// A Workload is that of one of the benchmarks beside traces: plain data, read
// and written as JSON.
type Workload interface {
	// Check says what is wrong with it.
	Check() error
	// Policies are those that can run over it.
	Policies() []string
	// Run plays one of them. What it returns is written as one line of JSON.
	Run(policy string) (Result, error)
}

// A Result is what a policy made of a workload.
type Result interface {
	// Cells are its figures for a table, by name.
	Cells() []Cell
}

// A Cell is one figure of a result.
type Cell struct{ Name, Value string }

// ReadWorkload reads a workload into l.
func ReadWorkload(path string, l Workload) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read workload: %w", err)
	}
	if err := json.Unmarshal(b, l); err != nil {
		return fmt.Errorf("%w %s: %w", ErrWorkload, path, err)
	}
	if err := l.Check(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// WriteWorkload writes a workload as ReadWorkload reads it.
func WriteWorkload(w io.Writer, l Workload) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(l)
}

func unknownPolicy(policy string, l Workload) error {
	return fmt.Errorf("%w: %q cannot run over this workload; there are %s", ErrNoPolicy, policy, strings.Join(l.Policies(), ", "))
}

// ascending says whether all of list lie in 1 to n and none comes after a later.
func ascending(what string, list []int, n int) error {
	if !sort.IntsAreSorted(list) {
		return fmt.Errorf("%w: %s are not in ascending order", ErrWorkload, what)
	}
	if len(list) > 0 && (list[0] < 1 || list[len(list)-1] > n) {
		return fmt.Errorf("%w: %s reach from %d to %d, outside 1 to %d", ErrWorkload, what, list[0], list[len(list)-1], n)
	}
	return nil
}
