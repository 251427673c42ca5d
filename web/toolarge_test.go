package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
)

// What does not fit into one write is refused with the words of the store.
func TestTooLargeToStore(t *testing.T) {
	p, told := ProblemOf(fmt.Errorf("%w: it takes 94446 KiB", registry.ErrTooLarge))
	if !told || Status(p.Kind) != 409 || !strings.Contains(p.Detail, "94446 KiB") {
		t.Errorf("told %v: %+v", told, p)
	}
}
