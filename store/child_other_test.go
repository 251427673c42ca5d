//go:build !unix

package store

func childMain() bool { return false }
