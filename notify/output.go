package notify

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// An output collects the frames of a WebSocket connection and writes them. Its
// methods belong to the goroutine that works for the session.
type output struct {
	wire *wire
	pool *sync.Pool // of *[]byte
	wait waiter     // hands off before a write waits for the client

	frames *[]byte   // that are not written yet; nil: none
	doc    *Document // the rest of the last frame, without the closing brace
}

// errGone reports that the connection is broken, so no close frame can be sent.
var errGone = errors.New("connection is gone")

// endOfMessage closes a message whose last member is a document.
var endOfMessage = []byte("}")

// flushAt is the number of collected bytes at which frames are written.
const flushAt = 32 << 10

// write adds a message, and flushes when enough is collected.
func (o *output) write(b []byte) error {
	if o.doc != nil {
		if err := o.flush(); err != nil {
			return err
		}
	}
	o.add(len(b), b)
	return o.flushFull()
}

// add adds a message of n bytes, given in parts.
func (o *output) add(n int, parts ...[]byte) {
	b := appendHeader(o.bytes(), websocket.TextMessage, n)
	for _, p := range parts {
		b = append(b, p...)
	}
	*o.frames = b
}

func (o *output) addPing() { *o.frames = appendHeader(o.bytes(), websocket.PingMessage, 0) }

// addDocument adds a message with a large middle, which is written from where it is
// shared. Nothing may be added before it is written: see full.
func (o *output) addDocument(before []byte, doc *Document) {
	b := appendHeader(o.bytes(), websocket.TextMessage, len(before)+doc.Size()+len(endOfMessage))
	*o.frames = append(b, before...)
	o.doc = doc
}

func (o *output) bytes() []byte {
	if o.frames == nil {
		o.frames = o.pool.Get().(*[]byte)
	}
	return *o.frames
}

// appendHeader begins an unmasked frame of n bytes (RFC 6455, section 5.2).
func appendHeader(b []byte, kind byte, n int) []byte {
	const final = 0x80
	b = append(b, final|kind)
	switch {
	case n <= 125:
		return append(b, byte(n))
	case n <= 1<<16-1:
		return binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
}

// full reports whether the collected output must be written before more is added.
func (o *output) full() bool {
	return o.frames != nil && (o.doc != nil || len(*o.frames) >= flushAt)
}

func (o *output) flushFull() error {
	if !o.full() {
		return nil
	}
	return o.flush()
}

// flush writes what was collected. The caller must not hold large values, because
// flush may wait for the client.
func (o *output) flush() error {
	if o.frames != nil {
		err := o.wire.send(*o.frames, o.doc, endOfMessage, o.wait)
		o.drop()
		if err != nil {
			return fmt.Errorf("%w: %w", errGone, err)
		}
	}
	if o.wire.slow.Load() {
		return &closing{CloseSlow, "reader too slow"}
	}
	return nil
}

// drop discards what was collected.
func (o *output) drop() {
	o.doc = nil
	if o.frames == nil {
		return
	}
	if cap(*o.frames) <= 2*flushAt {
		*o.frames = (*o.frames)[:0]
		o.pool.Put(o.frames)
	}
	o.frames = nil
}

// close writes what was collected and a close frame after it, and reports whether
// the client can read it.
func (o *output) close(conn *websocket.Conn, c *closing, timeout time.Duration) bool {
	if o.frames != nil {
		if err := o.wire.send(*o.frames, o.doc, endOfMessage, nil); err != nil {
			return false
		}
	}
	err := conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(c.code, c.reason), time.Now().Add(timeout))
	return err == nil || errors.Is(err, websocket.ErrCloseSent)
}
