package hybrid

// Trust reports whether a shared state treats slots as empty at all, and how many
// it has treated so.
func Trust(shared []float64) (trusted bool, empty float64) {
	e := readState(shared)
	return e.trusted(), e.fell + e.stayed
}
