package scheduler_test

import (
	"fmt"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// A policy is written as its name and parameters. Omitted parameters have their
// defaults.
func ExampleParsePolicy() {
	p, err := scheduler.ParsePolicy("ttl:max=64")
	fmt.Println(p, err)
	_, err = scheduler.ParsePolicy("rr:max=64")
	fmt.Println(err)
	// Output:
	// ttl:max=64:reset <nil>
	// bad policy "rr:max=64": "max=64" is no parameter of it; it is written rr
}

// Gap returns the time between two slots of an endpoint.
func ExampleGap() {
	fmt.Println(scheduler.Gap(registry.Endpoint{Slot: "@every 90s"}))
	fmt.Println(scheduler.Gap(registry.Endpoint{Slot: "never"}) == time.Duration(0))
	// Output:
	// 1m30s
	// true
}
