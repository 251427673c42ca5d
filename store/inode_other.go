//go:build !unix

package store

// inodeOf identifies a file on its file system, if the platform supports it.
func inodeOf(string) (string, error) { return "-", nil }
