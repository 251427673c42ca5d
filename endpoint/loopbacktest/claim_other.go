//go:build !linux

package loopbacktest

// This file is for systems without a cheap claim. There the ports of processes differ because
// their ids do.

func claim(int) (release func(), err error) { return func() {}, nil }
