package wic_test

import (
	"fmt"

	"github.com/freshet/freshet/scheduler/wic"
)

// The example computes what monitoring a page now would capture after two likely
// changes. A page that overwrites shows only the last of them.
func ExamplePending() {
	for _, life := range []wic.Life{{Kind: wic.Append}, {Kind: wic.Overwrite}} {
		p := wic.NewPending(wic.Urgency{}, life)
		p.Step(1)
		p.Step(0.5)
		fmt.Printf("%s: %.1f\n", life, p.Gain())
	}
	// Output:
	// append: 1.5
	// overwrite: 1.0
}
