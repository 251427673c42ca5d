package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"

	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freshet/freshet/registry"
)

const (
	typeJSON   = "application/json"
	typeMerge  = "application/merge-patch+json"
	typeSPARQL = "application/sparql-query"
)

// decode parses the JSON body into v. It rejects unknown and duplicate members,
// invalid UTF-8, and data after the document.
func (c *call) decode(v any, types ...string) error {
	if _, err := c.mediaType(types...); err != nil {
		return err
	}
	return c.read(func(r io.Reader) error { return readJSON(r, v) })
}

func readJSON(r io.Reader, v any) error {
	var doc jsontext.Value
	err := json.UnmarshalRead(r, &doc)
	if err == nil && doc.Kind() == 'n' {
		return malformed("", "the body is a JSON object, not null") // null would leave v unchanged
	}
	if err == nil {
		err = json.Unmarshal(doc, v, json.RejectUnknownMembers(true))
	}
	if err == nil {
		return nil
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return tooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		return malformed(pointer(semantic.JSONPointer), "%s", semanticReason(semantic))
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		return malformed(pointer(syntactic.JSONPointer), "%s", syntacticReason(syntactic))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return malformed("", "the body is empty or ends in the middle of the JSON document")
	}
	return malformed("", "the body cannot be read")
}

// pointer shortens a JSON pointer, whose parts come from the client.
func pointer(p jsontext.Pointer) string {
	if len(p) > 256 {
		return strings.ToValidUTF8(string(p[:256]), "") + "…"
	}
	return string(p)
}

func semanticReason(e *json.SemanticError) string {
	switch {
	case errors.Is(e.Err, json.ErrUnknownName):
		return unknownMember(e)
	case e.Err != nil && e.GoType != nil && e.JSONKind != 0 && e.GoType.PkgPath() != "":
		return "not a value for this member: " + e.Err.Error()
	case e.JSONKind != 0:
		return kindName(e.JSONKind) + " is not allowed here"
	case e.Err != nil:
		return e.Err.Error()
	}
	return "this value is not allowed here"
}

// unknownMember suggests the intended name of an unknown member, or lists the known
// ones.
func unknownMember(e *json.SemanticError) string {
	const said = "there is no member of this name"
	names := memberNames(e.GoType)
	if near := registry.Nearest(e.JSONPointer.LastToken(), names); near != "" {
		return said + ", did you mean " + near + "?"
	}
	if len(names) == 0 {
		return said
	}
	return said + "; there are " + strings.Join(names, ", ")
}

// memberNames are the names of a struct's members in JSON.
func memberNames(t reflect.Type) (names []string) {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			names = append(names, memberNames(f.Type)...)
		case name != "" && name != "-":
			names = append(names, name)
		}
	}
	return names
}

// kindName returns the name of a JSON kind with its article.
func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "a value"
}

func syntacticReason(e *jsontext.SyntacticError) string {
	if errors.Is(e.Err, jsontext.ErrDuplicateName) {
		return "a member is given twice"
	}
	if errors.Is(e.Err, io.ErrUnexpectedEOF) {
		return "the body ends in the middle of the JSON document"
	}
	return "not valid JSON: " + e.Err.Error()
}

// A member of a merge patch (RFC 7396): absent, null, or a value.
type member[T any] struct {
	set, null bool
	value     T
}

// UnmarshalJSON is called for present members, including null.
func (m *member[T]) UnmarshalJSON(b []byte) error {
	m.set = true
	if string(b) == "null" {
		m.null = true
		return nil
	}
	return json.Unmarshal(b, &m.value, json.RejectUnknownMembers(true))
}

// pointer returns nil for an absent member. null becomes the zero value, which means
// "not set" in every setting of a registration.
func (m member[T]) pointer() *T {
	if !m.set {
		return nil
	}
	return &m.value
}
