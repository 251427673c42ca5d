//go:build !unix

package store

// inodeOf names the place of a file on its file system, where that is possible.
func inodeOf(string) (string, error) { return "-", nil }
