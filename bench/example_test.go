package bench_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/scheduler/plan"
)

// The trace has two queries over three revisions. The second query changes in revision 2. A
// budget of 25 ms has time for one of them in each slot.
const tinyTrace = `{"queries":2,"revisions":3,"exec_ms":[[10,20],[10,20],[10,20],[10,20]],
	"changes":[{"id":1,"initial":[1],"versions":[{"rev":2,"rows":[2]}]}]}`

// Run simulates a trace under a policy and a budget, and compares the schedule with the truth.
func ExampleSimulator_Run() {
	tr, err := trace.ReadJSON(strings.NewReader(tinyTrace))
	if err != nil {
		panic(err)
	}
	w := bench.NewSimulator(tr)
	for _, policy := range []string{"rr", "cv"} {
		row, err := w.Run(context.Background(), bench.Setup{Policy: policy, Budget: 25 * time.Millisecond, Rule: plan.RuleStrict})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %d executions, %d of 1 changes found, stale for %d slots\n", policy, row.Total, row.Relevant, row.AbsDelay)
	}
	// Output:
	// rr: 3 executions, 1 of 1 changes found, stale for 0 slots
	// cv: 1 executions, 1 of 1 changes found, stale for 0 slots
}
