package live

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/loan"
)

// A wire is a client's connection with bounded writes. If nothing can be written for the
// timeout, the reader is too slow: the wire calls onSlow and allows the same time
// again for the rest of the frame, so that a close code can follow and be read.
type wire struct {
	net.Conn
	in     *bufio.Reader // what has been read and not been used yet
	timing *notify.Timing
	onSlow func()        // called once when slow is set
	slow   atomic.Bool   // a write was blocked for the timeout
	lags   atomic.Uint64 // number of slow writes

	most  int64 // bytes of the client until the end of a message, the heads of its frames included; 0: any number
	left  int64 // of them; used by the reader, as is drops
	drops bool  // what comes is only read to be discarded

	mu    sync.Mutex // one message after the other
	until time.Time  // the write deadline, guarded by mu, as is began
	began time.Time  // when what is being sent began
}

// lag is the duration of a write above which its reader counts as lagging.
const lag = loan.Lag

func newWire(c net.Conn, t *notify.Timing, onSlow func()) *wire {
	w := &wire{Conn: c, timing: t, onSlow: onSlow}
	w.in = bufio.NewReaderSize(w, 288) // larger frames are read past it; the library accepts none of 256 bytes or less
	return w
}

// errFrames reports that a message consists of many frames with hardly any content, which the library does not bound.
var errFrames = errors.New("too many frames")

// Read reads from the client. The error is errFrames once a message takes too many bytes; later input can be read to
// be discarded.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if w.left -= int64(n); w.left < 0 && w.most > 0 && !w.drops {
		w.drops = true
		return 0, errFrames
	}
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	if err := w.send(p, nil, nil); err != nil {
		return 0, err
	}
	return len(p), nil
}

// send writes p, doc and tail without other data in between.
func (w *wire) send(p []byte, doc *notify.Document, tail []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.began = time.Now()
	err := w.wait(p)
	if err == nil && doc != nil {
		if err = doc.Each(w.wait); err == nil {
			err = w.wait(tail)
		}
	}
	if now := time.Now(); err == nil && w.lagging(now) {
		w.lags.Add(1)
	}
	return err
}

// lagging reports whether what is being sent takes long. The client has then taken a part of it, so it is not silent, although
// it answers no ping before it has all of it.
func (w *wire) lagging(now time.Time) bool {
	late := now.Sub(w.began) > lag
	if late {
		w.SetReadDeadline(now.Add(w.timing.Read))
	}
	return late
}

// wait writes p at the pace of the reader.
func (w *wire) wait(p []byte) error {
	for len(p) > 0 {
		n, err := w.piece(p[:min(notify.Chunk, len(p))])
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (w *wire) piece(p []byte) (int, error) {
	now := time.Now()
	w.lagging(now)
	if w.until.Sub(now) < w.timing.Write { // setting it for each message costs more
		w.until = now.Add(w.timing.Write + w.timing.Write/4)
		w.Conn.SetWriteDeadline(w.until)
	}
	n, err := w.Conn.Write(p)
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || w.slow.Swap(true) {
		return n, err
	}
	w.onSlow()
	m, err := w.piece(p[n:])
	return n + m, err
}

// await waits until the client sends something, on a smaller stack than the library does.
func (w *wire) await() error {
	_, err := w.in.Peek(1)
	return err
}

// alive extends the read deadline, and the number of bytes that may come until the next call.
func (w *wire) alive() {
	w.left = w.most
	w.SetReadDeadline(time.Now().Add(w.timing.Read))
}

// SetWriteDeadline does nothing, because the wire sets its own write deadlines.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// A hijacker hands the upgrader a wire instead of the bare connection.
type hijacker struct {
	http.ResponseWriter
	timing *notify.Timing
	onSlow func()
	wire   *wire
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.wire = newWire(c, h.timing, h.onSlow)
	if rw.Reader.Buffered() == 0 { // otherwise the upgrader refuses
		rw.Reader = h.wire.in
	}
	return h.wire, rw, nil
}
