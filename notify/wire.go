package notify

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// chunk is the piece of a message that has to make progress within the write
// timeout. A large message over a thin line is slow, not blocked.
const chunk = 32 << 10

// A wire is a client's connection whose writes are watched. When nothing can be
// written for the timeout, the reader is too slow: the wire says so and gives it
// as long again to take the rest of the frame, so that a close code can follow
// and be read.
type wire struct {
	net.Conn
	timeout time.Duration
	onSlow  func()        // called once when slow is set
	slow    atomic.Bool   // a write was blocked for the timeout
	blocked atomic.Bool   // a write took long enough to fall behind; cleared by who folds
	lags    atomic.Uint64 // how often that was
}

// lag is the time of one write from which its reader counts as lagging.
const lag = 50 * time.Millisecond

func (w *wire) Write(p []byte) (int, error) {
	start, done := time.Now(), 0
	for done < len(p) {
		n, err := w.piece(p[done:min(done+chunk, len(p))])
		done += n
		if err != nil {
			return done, err
		}
	}
	if time.Since(start) > lag {
		w.blocked.Store(true)
		w.lags.Add(1)
	}
	return done, nil
}

func (w *wire) piece(p []byte) (int, error) {
	w.Conn.SetWriteDeadline(time.Now().Add(w.timeout))
	n, err := w.Conn.Write(p)
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || w.slow.Swap(true) {
		return n, err
	}
	w.onSlow()
	m, err := w.piece(p[n:])
	return n + m, err
}

// SetWriteDeadline does nothing: the wire has its own idea of time.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline sets the read deadline only, for the same reason.
func (w *wire) SetDeadline(t time.Time) error { return w.Conn.SetReadDeadline(t) }

// A hijacker hands the upgrader a wire instead of the bare connection.
type hijacker struct {
	http.ResponseWriter
	timeout time.Duration
	onSlow  func()
	wire    *wire
}

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.wire = &wire{Conn: c, timeout: h.timeout, onSlow: h.onSlow}
	return h.wire, rw, nil
}
