package web

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
)

// Documents share the bodies of responses, so that slow clients do not hold copies.
type Documents interface {
	// Open returns the document that write produces for a key. write may be called
	// again; it must then write the same bytes or return an error, which ends the
	// transfer. The number of concurrent writes per class is limited.
	Open(class, key string, write func(io.Writer) (about any, err error)) (Document, error)
}

// A Document is the body of one response. WriteTo sends it in pieces at the reader's
// pace; Close releases it.
type Document interface {
	io.WriterTo
	Size() int
	About() any
	Close()
}

// lent answers with a document. describe, unless nil, sets headers once the document
// exists.
func (c *call) lent(status int, typ, class, key string, describe func(), write func(io.Writer) error) error {
	doc, err := c.Documents.Open(class, key, func(w io.Writer) (any, error) { return nil, write(w) })
	if err != nil {
		return err
	}
	defer doc.Close()
	if describe != nil {
		describe()
	}
	return c.send(status, typ, doc)
}

func (c *call) send(status int, typ string, doc Document) error {
	h := c.w.Header()
	h.Set("Content-Type", typ)
	h.Set("Content-Length", strconv.Itoa(doc.Size()))
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	c.w.WriteHeader(status)
	if c.r.Method == http.MethodHead {
		return nil
	}
	if _, err := doc.WriteTo(c.patient()); err != nil {
		panic(http.ErrAbortHandler) // the client has disconnected, or the document cannot be completed
	}
	return nil
}

// Unshared gives each reader a document of its own.
type Unshared struct{}

type held struct {
	bytes.Buffer
	about any
}

func (Unshared) Open(_, _ string, write func(io.Writer) (any, error)) (Document, error) {
	var h held
	var err error
	h.about, err = write(&h.Buffer)
	return &h, err
}

func (h *held) Size() int  { return h.Len() }
func (h *held) About() any { return h.about }
func (h *held) Close()     {}
