// Package docstest holds messages against the schemas of the documents that
// describe them. Only tests import it.
package docstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// base names the document while its references are resolved.
const base = "urn:freshet:document"

// A Document is an OpenAPI or AsyncAPI document whose schemas can be asked.
type Document struct {
	Tree     map[string]any
	mu       sync.Mutex // held by calls of compiler, which is not safe for concurrent use
	compiler *jsonschema.Compiler
}

// Open reads a document in YAML.
func Open(text []byte) (*Document, error) {
	j, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(j))
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	root, ok := tree.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the document is no object")
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(base, tree); err != nil {
		return nil, err
	}
	return &Document{Tree: root, compiler: c}, nil
}

// At holds a JSON document against the schema at a place in the document, given
// as a JSON pointer, e.g. "/components/schemas/delta".
func (d *Document) At(pointer string, message []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, err := d.compiler.Compile(base + "#" + pointer)
	if err != nil {
		return fmt.Errorf("schema %s: %w", pointer, err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(message))
	if err != nil {
		return fmt.Errorf("message: %w", err)
	}
	if err := s.Validate(v); err != nil {
		return fmt.Errorf("against %s: %w\n%.2000s", pointer, err, message)
	}
	return nil
}

// Message holds one message of freshet.v1 against the schema named by its type.
func (d *Document) Message(frame []byte) error {
	var m struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(frame, &m); err != nil {
		return err
	}
	return d.At("/components/schemas/"+m.Type, frame)
}

// Event holds the data of a server-sent event against the schema of its kind:
// snapshot, change, alive, gap or complete.
func (d *Document) Event(kind string, data []byte) error {
	if kind == "change" {
		return d.At("/components/schemas/change", data)
	}
	return d.At("/components/schemas/sse."+kind, data)
}
