package policy_test

import (
	"fmt"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
)

// perSecond is the policy of the page on writing a policy. In a program,
// scheduler.Register(perSecondDefinition()) makes it available everywhere.
func ExampleParse() {
	p, err := policy.Parse([]policy.Definition{perSecondDefinition()}, "persecond:fade=1")
	fmt.Println(p, err)

	// Both queries changed once. The second one takes four times as long.
	for _, elapsed := range []time.Duration{time.Second, 4 * time.Second} {
		var c policy.Candidate
		c.Stats.State = p.Fold(nil, 1, policy.Sample{Slot: 2, Elapsed: elapsed, Changed: true})
		fmt.Println(p.Key(&c).Value, p.Inputs(policy.Moment{}, policy.Ranking{}, &c))
	}
	// Output:
	// persecond:fade=1 <nil>
	// -1 map[changes:1 last:0 seconds:1]
	// -0.25 map[changes:1 last:0 seconds:4]
}
