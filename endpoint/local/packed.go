//go:build engine

package local

import _ "embed"

// Packed is the engine file, compressed with zstd, in programs that "make build" and releases
// build. It is nil in others.
//
//go:embed oxigraph.wasm.zst
var Packed []byte
