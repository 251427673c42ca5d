package trace_test

import (
	"context"
	"fmt"

	"github.com/freshet/freshet/bench/trace"
)

// A generated trace has the statistics of a published dataset. The same seed gives the
// same trace.
func ExampleGenerate() {
	target := trace.Knuth2016()
	a, err := trace.Generate(context.Background(), target, 1)
	if err != nil {
		panic(err)
	}
	fmt.Println(a.Queries == target.Queries, a.Changes() == target.Changes)
	// Output:
	// true true
}
