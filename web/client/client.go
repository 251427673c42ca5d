// Package client holds the clients for JavaScript and Python, which the server
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

// Quads is the ES module freshet-rdfjs.js.
//
//go:embed freshet-rdfjs.js
var Quads []byte

// QuadTypes are its declarations for TypeScript.
//
//go:embed freshet-rdfjs.d.ts
var QuadTypes []byte

// Python is the module freshet.py.
//
//go:embed python/freshet.py
var Python []byte
