// Package docs holds the machine-readable descriptions of the interfaces.
package docs

import _ "embed"

// OpenAPI describes the HTTP API (OpenAPI 3.1, YAML).
//
//go:embed openapi.yaml
var OpenAPI []byte

// AsyncAPI describes the messages of the WebSocket and of SSE (AsyncAPI 3.0,
// YAML).
//
//go:embed asyncapi.yaml
var AsyncAPI []byte
