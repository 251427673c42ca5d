package update_test

import (
	"fmt"

	"github.com/freshet/freshet/scheduler/update"
)

// SUP captures every update interval of a page with the fewest probes (algorithm 1).
func ExampleSUP() {
	spans := []update.Span{{Start: 1, Finish: 4}, {Start: 3, Finish: 6}, {Start: 7, Finish: 9}}
	probes := update.SUP(spans)
	fmt.Println(probes, update.Utility(spans, probes))
	// Output:
	// [4 9] 3
}
