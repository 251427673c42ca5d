package notify

import (
	"bufio"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"

	"github.com/freshet/freshet/notify/loan"
)

// readBuffer is the size of a connection's read buffer. Larger frames are read past
// it. The library accepts none of 256 bytes or less.
const readBuffer = 288

// A wire is a client's connection with bounded writes. Data that the kernel accepts
// at once costs one system call and no timer. If nothing can be written for the
// timeout, the reader is too slow: the wire calls onSlow and allows the same time
// again for the rest of the frame, so that a close code can follow and be read.
type wire struct {
	net.Conn
	in      *bufio.Reader // what has been read and not been used yet
	timing  *Timing
	onSlow  func()        // called once when slow is set
	slow    atomic.Bool   // a write was blocked for the timeout
	blocked atomic.Bool   // a write took long enough to fall behind; cleared when changes are folded
	closeBy atomic.Int64  // when the client's time to close is over, in ns since 1970; 0: no close frame is out
	lags    atomic.Uint64 // number of slow writes

	frames  frames        // of the client; used by its reader
	limiter *rate.Limiter // of them, nil: not counted

	mu sync.Mutex // one message after the other
	at attempt    // guarded by mu
}

// lag is the duration of a write above which its reader counts as lagging.
const lag = loan.Lag

// A waiter hands off before its goroutine waits for a client.
type waiter interface{ handOff() }

func newWire(c net.Conn, t *Timing, onSlow func()) *wire {
	w := &wire{Conn: c, timing: t, onSlow: onSlow}
	w.in = bufio.NewReaderSize(w, readBuffer)
	if sys, ok := c.(syscall.Conn); ok { // TLS is none
		if raw, err := sys.SyscallConn(); err == nil {
			w.at.init(raw)
		}
	}
	return w
}

// Read reads from the client. The error is errFrames once there are too many small
// frames; later input can be read to be discarded.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if small := w.frames.count(p[:n]); small > 0 && w.limiter != nil && !w.limiter.AllowN(time.Now(), small) {
		w.limiter = nil
		return 0, errFrames
	}
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	if err := w.send(p, nil, nil, nil); err != nil {
		return 0, err
	}
	return len(p), nil
}

// send writes p, doc and tail without other data in between. Before it waits, it
// calls first.handOff unless first is nil.
func (w *wire) send(p []byte, doc *Document, tail []byte, first waiter) error {
	if !w.mu.TryLock() {
		if first != nil {
			first.handOff()
		}
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	var waits time.Time // since when
	write := func(p []byte) error {
		n, err := w.at.write(p)
		if err != nil || n == len(p) {
			return err
		}
		if waits.IsZero() {
			waits = time.Now()
			if first != nil {
				first.handOff()
			}
		}
		return w.wait(p[n:])
	}
	err := write(p)
	if err == nil && doc != nil {
		if err = doc.each(write); err == nil {
			err = write(tail)
		}
	}
	if err == nil && !waits.IsZero() && time.Since(waits) > lag {
		w.blocked.Store(true)
		w.lags.Add(1)
	}
	return err
}

// wait writes p at the pace of the reader.
func (w *wire) wait(p []byte) error {
	defer w.Conn.SetWriteDeadline(time.Time{})
	for len(p) > 0 {
		n, err := w.piece(p[:min(chunk, len(p))])
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (w *wire) piece(p []byte) (int, error) {
	w.Conn.SetWriteDeadline(time.Now().Add(w.timing.Write))
	n, err := w.Conn.Write(p)
	if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || w.slow.Swap(true) {
		return n, err
	}
	w.onSlow()
	m, err := w.piece(p[n:])
	return n + m, err
}

// await waits until a client sends something.
func (w *wire) await() error {
	_, err := w.in.Peek(1)
	return err
}

// skipPongs discards answers to pings, which are nearly all input of an idle client.
// It returns true if there is other input.
func (w *wire) skipPongs() (bool, error) {
	const pong, masked, mask = 0x80 | websocket.PongMessage, 0x80, 4
	for w.in.Buffered() > 0 {
		b, err := w.in.Peek(2)
		if err != nil {
			return false, err
		}
		size := int(b[1] &^ masked)
		if b[0] != pong || b[1]&masked == 0 || size > 125 {
			return true, nil // the library reads it, or complains
		}
		if _, err := w.in.Discard(2 + mask + size); err != nil {
			return false, err
		}
	}
	return false, nil
}

// alive extends the read deadline. After a close frame the deadline stays as it is.
func (w *wire) alive() {
	w.SetReadDeadline(time.Now().Add(w.timing.Read))
	if end := w.closeBy.Load(); end != 0 {
		w.SetReadDeadline(time.Unix(0, end))
	}
}

// startClosing limits the time in which the client may read and answer a close frame.
func (w *wire) startClosing() {
	end := time.Now().Add(w.timing.Close)
	w.closeBy.Store(end.UnixNano())
	w.SetReadDeadline(end)
}

// SetWriteDeadline does nothing, because the wire sets its own write deadlines.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline sets the read deadline only, for the same reason.
func (w *wire) SetDeadline(t time.Time) error { return w.Conn.SetReadDeadline(t) }

// An attempt is a write that does not wait. Without init it writes nothing.
type attempt struct {
	raw  syscall.RawConn
	once func(fd uintptr) bool // made once, because each would be an allocation
	p    []byte
	n    int
	err  error
}

func (a *attempt) init(raw syscall.RawConn) {
	a.raw = raw
	a.once = func(fd uintptr) bool {
		a.n, a.err = writeNow(fd, a.p)
		return true
	}
}

// write writes as much of p as the kernel accepts at once. The error reports the end
// of the connection, never a full buffer.
func (a *attempt) write(p []byte) (int, error) {
	if a.raw == nil || len(p) == 0 {
		return 0, nil
	}
	a.p, a.n, a.err = p, 0, nil
	err := a.raw.Write(a.once)
	a.p = nil
	if err == nil && a.err != nil {
		err = os.NewSyscallError("write", a.err)
	}
	return a.n, err
}

// A hijacker hands the upgrader a wire instead of the bare connection.
type hijacker struct {
	http.ResponseWriter
	timing *Timing
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
