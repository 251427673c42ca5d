package notify

import (
	"encoding/json"
	"time"
)

// A Field is one member of a message.
type Field struct {
	Name  string
	Value any
}

// Member returns a field.
func Member(name string, value any) Field { return Field{name, value} }

type field = Field

// Message encodes a message. It writes the fields in the given order and omits those
// whose value is nil or an empty string.
func Message(kind string, fields ...field) []byte {
	b := append(make([]byte, 0, 128), `{"type":`...)
	b = appendJSON(b, kind)
	for _, f := range fields {
		b = appendField(b, f)
	}
	return append(b, '}')
}

// frameless is a JSON object without a type.
func frameless(fields ...field) []byte {
	b := []byte{}
	for _, f := range fields {
		b = appendField(b, f)
	}
	if len(b) > 0 {
		b[0] = '{'
	} else {
		b = append(b, '{')
	}
	return append(b, '}')
}

func appendMember(b []byte, name string, value any) []byte {
	b = append(b, ',', '"')
	b = append(b, name...)
	b = append(b, '"', ':')
	return appendJSON(b, value)
}

func appendField(b []byte, f field) []byte {
	if f.Value == nil || f.Value == "" {
		return b
	}
	return appendMember(b, f.Name, f.Value)
}

// appendJSON writes v. It cannot fail: v is a string, a number, a time within RFC 3339, raw JSON, or made of these.
// Numbers that JSON does not have are null.
func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case json.RawMessage:
		return append(b, v...)
	case time.Time:
		return v.UTC().AppendFormat(append(b, '"'), time.RFC3339Nano+`"`)
	}
	j, err := json.Marshal(v)
	if err != nil {
		return append(b, "null"...)
	}
	return append(b, j...)
}

func orNull(s string) any {
	if s == "" {
		return json.RawMessage("null")
	}
	return s
}

// OrNil returns nil for false.
func OrNil(v bool) any {
	if !v {
		return nil
	}
	return v
}

// TimeOrNil returns nil for the zero time.
func TimeOrNil(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}
