package retrieval_test

import (
	"fmt"

	"github.com/freshet/freshet/scheduler/retrieval"
)

// The number of retrievals of a source grows with the square root of its rate, so
// sources that post much do not take everything.
func ExampleAllocate() {
	for _, m := range retrieval.Allocate([]float64{1, 4, 16}, nil, 14) {
		fmt.Printf("%.0f ", m)
	}
	fmt.Println()
	// Output: 2 4 8
}
