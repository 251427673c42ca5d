package hybrid

// Trust says whether a shared state takes slots for empty ones, and how many it has
// taken for such.
func Trust(shared []float64) (trusted bool, empty float64) {
	e := readState(shared)
	return e.trusted(), e.fell + e.stayed
}
