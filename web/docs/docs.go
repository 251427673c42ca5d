// Package docs holds the documentation: pages in Markdown, which the server shows
// under /docs, and the machine-readable descriptions of the interfaces.
//
// index.md lists the pages in their order. A page that it does not list is shown
// after the others, under its first heading.
package docs

import "embed"

// OpenAPI describes the HTTP API (OpenAPI 3.1, YAML).
//
//go:embed openapi.yaml
var OpenAPI []byte

// AsyncAPI describes the messages of the WebSocket and of SSE (AsyncAPI 3.0,
// YAML).
//
//go:embed asyncapi.yaml
var AsyncAPI []byte

//go:embed *.md *.svg
var files embed.FS
