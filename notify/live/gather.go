package live

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/freshet/freshet/notify"
	"github.com/gorilla/websocket"
)

// A gathering collects the frames of a WebSocket connection and writes them together. A
// goroutine enters, adds frames, and leaves; the last one to leave writes. A wake-up enters
// all subscriptions that it wakes, so the changes of a commit are one write. While the client
// reads slowly, subscriptions wait here, and each costs its cursor.
type gathering struct {
	wire *wire
	ctx  context.Context // ends with the connection
	pool *sync.Pool      // of *[]byte
	fail func(error)

	busy    atomic.Int64 // how many have entered
	writing sync.Mutex   // before mu
	failed  bool         // guarded by writing: nothing is written any more
	mu      sync.Mutex
	frames  *[]byte // that are not written yet; nil: none
}

// largeMessage is the number of bytes beyond which a message is announced. A client that takes it as slowly as it may, a
// notify.Chunk in the time of a write, is silent for less than two pings.
const largeMessage = 128 << 10

// flushAt is the number of collected bytes at which frames are written.
const flushAt = 32 << 10

// Enter implements Turn.
func (g *gathering) Enter() { g.busy.Add(1) }

// Leave implements Turn. It writes what was collected if no other has still something to add.
func (g *gathering) Leave() {
	if g.busy.Add(-1) == 0 {
		g.flush()
	}
}

// add adds a message, given in parts.
func (g *gathering) add(parts ...[]byte) { g.frame(websocket.TextMessage, parts...) }

func (g *gathering) frame(kind byte, parts ...[]byte) {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	g.mu.Lock()
	b := appendHeader(g.bytes(), kind, n)
	for _, p := range parts {
		b = append(b, p...)
	}
	*g.frames = b
	full := len(b) >= flushAt
	g.mu.Unlock()
	if full {
		g.flush()
	}
}

// full reports whether enough waits for the write that is under way. A message that is not
// small is then added as a document, because a goroutine that waits must hold little.
func (g *gathering) full() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.frames != nil && len(*g.frames) >= flushAt
}

// endOfMessage closes a message whose last member is a document.
var endOfMessage = []byte("}")

// document adds a message with a large middle, and writes it from where it is shared. If it is large, what announce returns for
// its size comes before it, with nothing in between. An error means that nothing was added: the connection ends, or the content was
// dropped during the wait and is gone.
func (g *gathering) document(before []byte, doc *notify.Document, after []byte, announce func(size int) []byte) error {
	doc.During(g.writing.Lock)
	defer g.writing.Unlock()
	if g.ctx.Err() != nil { // only what is collected already comes before the close frame
		return errGone
	}
	if err := doc.Have(); err != nil {
		return err
	}
	size := len(before) + doc.Size() + len(after)
	g.mu.Lock()
	b := g.bytes()
	if size > largeMessage && announce != nil {
		first := announce(size)
		b = append(appendHeader(b, websocket.TextMessage, len(first)), first...)
	}
	b = append(appendHeader(b, websocket.TextMessage, size), before...)
	*g.frames = b
	frames := g.take() // before another frame can be added
	g.mu.Unlock()
	g.write(frames, doc, after)
	return nil
}

func (g *gathering) flush() {
	g.writing.Lock()
	defer g.writing.Unlock()
	g.mu.Lock()
	frames := g.take()
	g.mu.Unlock()
	if frames != nil {
		g.write(frames, nil, nil)
	}
}

// take returns what was collected, nil for nothing. The caller holds mu.
func (g *gathering) take() (frames *[]byte) {
	frames, g.frames = g.frames, nil
	return frames
}

// write writes what was collected, and a document after it. The caller holds writing.
func (g *gathering) write(frames *[]byte, doc *notify.Document, after []byte) {
	var err error
	if !g.failed {
		err = g.wire.send(*frames, doc, after)
		g.failed = err != nil || g.wire.slow.Load()
	}
	if cap(*frames) <= 2*flushAt {
		*frames = (*frames)[:0]
		g.pool.Put(frames)
	}
	switch {
	case err != nil:
		g.fail(fmt.Errorf("%w: %w", errGone, err))
	case g.failed:
		g.fail(&closing{CloseSlow, "reader too slow"})
	}
}

// bytes returns the collected frames. The caller holds mu.
func (g *gathering) bytes() []byte {
	if g.frames == nil {
		g.frames = g.pool.Get().(*[]byte)
	}
	return *g.frames
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
