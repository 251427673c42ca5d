package replica

import (
	"log/slog"
	"testing"
)

// Of two nodes that differ, none can be trusted.
func TestDivergedPair(t *testing.T) {
	r := &Replica{name: "own", state: stateHash{checkpoint: 1, seq: 20}}
	r.o.Log = slog.New(slog.DiscardHandler)
	for i, x := range []struct {
		report stateReport
		then   stateHash
		want   error
	}{
		{stateReport{stateVersion, "own", 20, 1}, stateHash{0, 1, 20}, nil},
		{stateReport{stateVersion, "b", 20, 2}, stateHash{0, 1, 20}, nil},
		{stateReport{stateVersion + 1, "c", 20, 2}, stateHash{0, 1, 20}, nil},
		{stateReport{stateVersion, "c", 0, 2}, stateHash{0, 1, 20}, nil},
		{stateReport{stateVersion, "b", 40, 3}, stateHash{0, 3, 40}, ErrDiverged},
		{stateReport{stateVersion, "b", 60, 3}, stateHash{0, 4, 60}, nil},
		{stateReport{stateVersion, "c", 60, 3}, stateHash{0, 4, 60}, ErrDiverged},
		{stateReport{stateVersion, "b", 80, 5}, stateHash{0, 5, 80}, nil},
		{stateReport{stateVersion, "c", 80, 6}, stateHash{0, 5, 80}, nil},
		{stateReport{stateVersion, "b", 100, 7}, stateHash{0, 7, 100}, nil},
	} {
		r.state = x.then
		err := r.compare(&x.report)
		if err != x.want {
			t.Errorf("report %d: %v", i, err)
		}
		if err != nil {
			r.compared = comparison{} // of a node that was rebuilt
		}
	}
}
