package web

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freshet/freshet/registry"
)

// Request bodies: JSON, JSON Merge Patch and media types, and words for what is wrong with
// them.

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
	return readJSON(c.r.Body, v)
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
	if errors.Is(err, errTooSlow) {
		return errTooSlow
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

func semanticReason(e *json.SemanticError) string {
	switch {
	case errors.Is(e.Err, json.ErrUnknownName):
		return unknownMember(e)
	case e.Err != nil && e.GoType != nil && e.JSONKind != 0 && e.GoType.PkgPath() != "":
		return e.Err.Error()
	case e.JSONKind == '0' && e.Err != nil:
		return "this number is too large, or not of the kind that is wanted here"
	case e.JSONKind != 0:
		return kindName(e.JSONKind) + " is not allowed here" + wanted(e.GoType)
	case e.Err != nil:
		return e.Err.Error()
	}
	return "this value is not allowed here"
}

// wanted says which kind of JSON value becomes a value of a type.
func wanted(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || reflect.PointerTo(t).Implements(reflect.TypeFor[json.UnmarshalerFrom]()) ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return ""
	}
	switch k := t.Kind(); {
	case k == reflect.String:
		return ": write a string"
	case k == reflect.Bool:
		return ": write true or false"
	case k == reflect.Slice || k == reflect.Array:
		return ": write an array"
	case k == reflect.Struct || k == reflect.Map:
		return ": write an object"
	case k >= reflect.Int && k <= reflect.Uint64:
		return ": write a whole number"
	case k == reflect.Float32 || k == reflect.Float64:
		return ": write a number"
	}
	return ""
}

// unknownMember suggests the intended name of an unknown member, or lists the known
// ones.
func unknownMember(e *json.SemanticError) string {
	const said = "there is no member of this name"
	names := memberNames(e.GoType)
	if slices.Contains(names, "query") && e.JSONPointer.LastToken() == "sparql" { // as messages of the WebSocket call it
		return said + ": the text of the query is the member query"
	}
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

// patch reads a merge patch.
func (c *call) patch(v any) error {
	var doc jsontext.Value
	if err := c.decode(&doc, typeMerge, typeJSON); err != nil {
		return err
	}
	return readPatch(doc, v)
}

// readPatch parses a merge patch (RFC 7396) into a struct of pointers: nil for an absent
// member, and a pointer to the zero value for null, which means "not set" in every
// setting.
func readPatch(doc []byte, v any) error {
	var members map[string]jsontext.Value
	for _, to := range []any{v, &members} {
		if err := readJSON(bytes.NewReader(doc), to); err != nil {
			return err
		}
	}
	for field, value := range reflect.ValueOf(v).Elem().Fields() {
		if members[field.Tag.Get("json")].Kind() == 'n' && value.Kind() == reflect.Pointer {
			value.Set(reflect.New(field.Type.Elem()))
		}
	}
	return nil
}

// mediaType returns the body's media type and reports whether it is one of those
// given, in UTF-8 and without content coding.
func (c *call) mediaType(types ...string) (string, error) {
	if coding := c.r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		c.w.Header().Set("Accept-Encoding", "identity")
		return "", newProblem("unsupported-media-type", "send the body without a Content-Encoding")
	}
	t, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if (err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter)) || !slices.Contains(types, t) {
		return "", newProblem("unsupported-media-type", "send the body as "+strings.Join(types, " or "))
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8", "us-ascii":
		return t, nil
	}
	return "", newProblem("unsupported-media-type", "send the body in UTF-8")
}

// optional decodes a body that may be empty.
func (c *call) optional(v any) error {
	if c.r.ContentLength == 0 {
		return nil
	}
	return c.decode(v, typeJSON)
}
