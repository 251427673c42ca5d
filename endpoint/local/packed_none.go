//go:build !engine

package local

// Packed is the engine file, compressed with zstd, in programs that "make build" and releases
// build. It is nil in others.
var Packed []byte
