package local

import (
	"fmt"
	"io"
)

// chunkSize is how much of a document the engine gets at once. Larger chunks
// only grow its memory, which never shrinks.
const chunkSize = 8 << 20

// The JavaScript values the engine handles, as Go values: string, bool, nil
// for null, and these.
type (
	jsUndefined struct{}
	jsSymbol    string
	jsBytes     struct{ data []byte } // by pointer, so that it can be emptied
	jsArray     []any
	jsObject    map[string]any
	jsError     struct{ message string }
	jsMethod    func() any // a function without arguments
	jsStep      struct {   // the result of an iterator's next
		value any
		done  bool
	}
)

// jsIterator implements a JavaScript iterator.
type jsIterator interface {
	next() (value any, more bool)
}

// jsChunks is a document as a JavaScript iterable of byte arrays. A read error
// ends it; the creator must check err afterwards.
type jsChunks struct {
	reader io.Reader
	buffer []byte
	chunk  jsBytes // the engine copies a chunk before it asks for the next
	err    error
}

// forget frees the memory. The engine may still refer to the chunk.
func (c *jsChunks) forget() { c.reader, c.buffer, c.chunk.data = nil, nil, nil }

func (c *jsChunks) next() (any, bool) {
	n, err := io.ReadFull(c.reader, c.buffer)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		c.err = err
		return jsUndefined{}, false
	}
	c.chunk.data = c.buffer[:n]
	return &c.chunk, n > 0
}

// jsItems iterates over an array.
type jsItems struct {
	items jsArray
	at    int
}

func (i *jsItems) next() (any, bool) {
	if i.at == len(i.items) {
		return jsUndefined{}, false
	}
	i.at++
	return i.items[i.at-1], true
}

// property is value[key]; undefined if there is none.
func property(value, key any) any {
	switch v := value.(type) {
	case jsObject:
		if name, ok := key.(string); ok {
			if p, ok := v[name]; ok {
				return p
			}
		}
	case jsArray:
		if key == jsSymbol("iterator") {
			return jsMethod(func() any { return &jsItems{items: v} })
		}
	case *jsChunks:
		if key == jsSymbol("iterator") {
			return jsMethod(func() any { return v })
		}
	}
	if iterator, ok := value.(jsIterator); ok && key == "next" {
		return jsMethod(func() any { step, more := iterator.next(); return jsStep{step, !more} })
	}
	return jsUndefined{}
}

func isObject(value any) bool {
	switch value.(type) {
	case jsObject, jsArray, *jsBytes, *jsError, jsStep, *jsChunks, *jsItems:
		return true
	}
	return false
}

func falsy(value any) bool {
	switch v := value.(type) {
	case nil, jsUndefined:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	}
	return false
}

func flag(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// A reference is an index into the glue's values plus refBase: 0 is the
// engine's null reference and must not refer to a value.
const refBase = 1 << 32

// The first values are permanent, because the engine keeps references to them
// between calls.
const (
	refUndefined uint64 = refBase + iota
	refNull
	refTrue
	refFalse
	refGlobal
	refFixed
)

// glue holds the JavaScript values that one call of the engine refers to.
type glue struct {
	values       []any
	panicMessage string // the engine's message before it panicked
}

func newGlue() glue {
	return glue{values: []any{jsUndefined{}, nil, true, false, jsObject{}}}
}

// sweepAt is how many values may accumulate before unused ones are discarded.
const sweepAt = 256

// forget returns a value and discards it.
func (g *glue) forget(ref uint64) any {
	value := g.value(ref)
	if ref >= refFixed {
		g.values[ref-refBase] = jsUndefined{}
	}
	return value
}

// keep discards all values except the permanent ones and those referred to.
func (g *glue) keep(refs map[uint64]bool) {
	last := int(refFixed - refBase)
	for n := last; n < len(g.values); n++ {
		if refs[refBase+uint64(n)] {
			last = n + 1
		} else {
			g.values[n] = nil
		}
	}
	g.values = g.values[:last]
}

func (g *glue) ref(value any) uint64 {
	switch v := value.(type) {
	case jsUndefined:
		return refUndefined
	case nil:
		return refNull
	case bool:
		if v {
			return refTrue
		}
		return refFalse
	}
	g.values = append(g.values, value)
	return refBase + uint64(len(g.values)-1)
}

func (g *glue) value(ref uint64) any {
	if ref == 0 {
		return jsUndefined{}
	}
	index := ref - refBase
	if index >= uint64(len(g.values)) {
		panic(fmt.Errorf("the engine used an unknown reference %#x", ref))
	}
	return g.values[index]
}
