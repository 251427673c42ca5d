package registry_test

import (
	"fmt"

	"github.com/freshet/freshet/registry"
)

// An item of a profile says how often a query has to run, or after which change of
// another query.
func ExampleParseItem() {
	for _, text := range []string{
		"departures every 10m slack 1m",
		`delays on departures where delay > 5 within "3 slots"`,
	} {
		item, err := registry.ParseItem(text)
		fmt.Println(item, err)
	}
	_, err := registry.ParseItem("departures sometimes")
	fmt.Println(err)
	// Output:
	// departures every 10m slack 1m <nil>
	// delays on departures where delay > 5 within 3 slots <nil>
	// "sometimes" is not one of every, slack, on, where, within, predicted
}

// A moment in a query's history is the number of a change, a position or a time.
func ExampleParseMoment() {
	for _, text := range []string{"3", "k7f2:3", "2026-01-15T08:00:00Z"} {
		m, err := registry.ParseMoment(text)
		fmt.Printf("%d %q %t %v\n", m.Seq, m.Epoch, m.Time.IsZero(), err)
	}
	// Output:
	// 3 "" true <nil>
	// 3 "k7f2" true <nil>
	// 0 "" false <nil>
}

// Error messages suggest the name that was probably meant.
func ExampleNearest() {
	fmt.Println(registry.Nearest("min_gep", []string{"min_gap", "slot", "budget"}))
	// Output:
	// min_gap
}
