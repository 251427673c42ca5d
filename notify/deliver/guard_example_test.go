package deliver_test

import (
	"errors"
	"fmt"

	"github.com/freshet/freshet/notify/deliver"
)

// The server calls no address of its own network unless its operator allows it.
func ExampleGuard() {
	g, err := deliver.NewGuard([]string{"10.1.0.0/16"})
	if err != nil {
		panic(err)
	}
	for _, callback := range []string{"https://hooks.example.org/x", "http://10.1.2.3/x", "http://169.254.169.254/latest/meta-data"} {
		_, err := g.Check(callback)
		fmt.Println(errors.Is(err, deliver.ErrForbidden))
	}
	// Output:
	// false
	// false
	// true
}
