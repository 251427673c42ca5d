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

	"github.com/freshet/freshet/bench/figure"
)

// Errors about workloads, to be tested with errors.Is.
var (
	// ErrWorkload is wrapped by errors about invalid workloads.
	ErrWorkload = errors.New("bad workload")
	// ErrNoPolicy is wrapped by the error of Run for a policy that the workload lacks.
	ErrNoPolicy = errors.New("no such policy")
)

// A Capacity is the number of probes in a chronon. In JSON it is one number for all
// chronons or a list with a number for each. Chronons after the end of the list have
// the last number.
type Capacity []int

// At returns the capacity of chronon t, which counts from 1.
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

// MarshalJSON writes a list of one number as that number.
func (c Capacity) MarshalJSON() ([]byte, error) {
	if len(c) == 1 {
		return json.Marshal(c[0])
	}
	return json.Marshal([]int(c))
}

// A Workload is the input of a paper's experiment: plain data that is read and
// written as JSON.
type Workload interface {
	// Check returns an error if the workload is invalid.
	Check() error
	// Policies returns the policies that can run over it.
	Policies() []string
	// Run runs one of them. Its result is written as one line of JSON.
	Run(policy string) (Result, error)
}

// A Result is the result of a policy on a workload.
type Result interface {
	// Cells returns its values for a table.
	Cells() []Cell
}

// A Cell is one named value of a result.
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
	return figure.WriteLines(w, []Workload{l})
}

func unknownPolicy(policy string, l Workload) error {
	return fmt.Errorf("%w: %q cannot run over this workload; there are %s", ErrNoPolicy, policy, strings.Join(l.Policies(), ", "))
}

// ascending returns an error unless list ascends and lies within 1 to n.
func ascending(what string, list []int, n int) error {
	if !sort.IntsAreSorted(list) {
		return fmt.Errorf("%w: %s are not in ascending order", ErrWorkload, what)
	}
	if len(list) > 0 && (list[0] < 1 || list[len(list)-1] > n) {
		return fmt.Errorf("%w: %s reach from %d to %d, outside 1 to %d", ErrWorkload, what, list[0], list[len(list)-1], n)
	}
	return nil
}
