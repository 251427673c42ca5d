//go:build !unix

package notify

// writeNow writes nothing: here every write is one that may wait.
func writeNow(uintptr, []byte) (int, error) { return 0, nil }
