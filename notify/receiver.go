package notify

import (
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"
)

// A receiver reads what the client of a session sends. It is one goroutine: parked
// in a shallow read while the client is silent, replaced by a fresh one to handle
// input.
type receiver struct {
	session inputHandler
	conn    *websocket.Conn
	wire    *wire
	limiter *rate.Limiter
}

// An inputHandler handles the messages of a client.
type inputHandler interface {
	take(in *inbound) (more bool)
	disconnected()
	close()
}

// An inbound is a message of the client with its error, or the error that ended
// reading.
type inbound struct {
	request
	err error
}

func (r *receiver) open(lim Limits) {
	watchReads(r.conn, r.wire, lim)
	r.conn.SetCloseHandler(func(int, string) error { return nil }) // finish answers
	r.limiter = rate.NewLimiter(rate.Limit(lim.Rate), lim.Burst)
	r.wire.limiter = r.limiter
}

// wait waits for input and hands over to another goroutine: this one's stack stays
// as small as stacks begin, and one that has grown is not kept.
func (r *receiver) wait() {
	err := r.wire.await()
	go r.read(err)
}

// read handles what the client has sent, and goes back to waiting for more.
func (r *receiver) read(err error) {
	for more := false; err == nil; {
		r.wire.alive()
		if more, err = r.wire.skipPongs(); err != nil {
			break
		}
		if !more {
			go r.wait()
			return
		}
		if !r.session.take(r.next()) {
			r.session.close()
			return
		}
	}
	r.session.disconnected()
	r.session.take(&inbound{err: readError(err)})
	r.session.close()
}

func (r *receiver) next() *inbound {
	frame, err := readFrame(r.conn)
	if err != nil {
		r.session.disconnected()
		return &inbound{err: err}
	}
	req, err := parseRequest(frame)
	if req.Type != "ack" && !r.limiter.AllowN(time.Now(), 1) {
		return &inbound{err: &closing{CloseRate, "too many messages"}}
	}
	return &inbound{req, err}
}
