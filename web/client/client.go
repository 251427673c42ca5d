// Package client holds the reference client for JavaScript, which the server
// serves.
package client

import _ "embed"

// Script is the ES module freshet.js.
//
//go:embed freshet.js
var Script []byte

// Types are its declarations for TypeScript.
//
//go:embed freshet.d.ts
var Types []byte
