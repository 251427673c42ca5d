package scheduler

import (
	"fmt"
	"testing"
)

// The digests of removed queries are forgotten.
func TestDigestsOfRemovedQueries(t *testing.T) {
	d := digests{byQuery: map[string]digested{}}
	for i := range 10 {
		d.byQuery[fmt.Sprint(i)] = digested{hash: "h"}
	}
	d.drop([]string{"3", "unknown"}, nil)
	if _, kept := d.byQuery["3"]; kept || len(d.byQuery) != 9 {
		t.Errorf("%v", d.byQuery)
	}
	d.drop(nil, map[string]bool{"1": true, "2": true, "other": true})
	if len(d.byQuery) != 2 {
		t.Errorf("%v", d.byQuery)
	}
}
