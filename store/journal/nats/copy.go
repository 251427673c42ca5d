// Whether the member of this node keeps the journal.

package nats

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/nats-io/nats-server/v2/server"
)

const (
	copyPause   = time.Second // between two looks at the copy
	copyWaits   = 3           // how many times the patience a copy may stand still
	brokenLooks = 5           // after which a copy with a hole counts as damaged
)

// A copyWatch looks at the copy of a journal on the member of this node. A member whose files are damaged
// may have a hole in its copy, or keep no entries any more and answer with those of the other members. It
// must not go on as if it were a full member, because a majority may need what it lacks. No command leaves
// a hole in a copy.
type copyWatch struct {
	mu     sync.Mutex
	last   time.Time // of the looks
	end    uint64    // of the copy
	holes  int       // looks in a row that have found a hole
	some   bool      // only some of the members have a copy
	behind absence   // of what this node has read
	err    error     // for good
}

// damage returns a journal.ErrUnreadable once the copy is known not to be whole. read is the number of the
// last message that this node has read.
func (w *copyWatch) damage(s *Server, stream string, read uint64, patience time.Duration) error {
	if s == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || time.Since(w.last) < copyPause {
		return w.err
	}
	w.last = time.Now()
	state, kept, err := s.copy(stream)
	if err != nil { // JetStream is off, see mend
		return nil
	}
	if w.holes++; state.NumDeleted == 0 {
		w.holes = 0
	}
	if read <= state.LastSeq || state.LastSeq > w.end || !kept && w.some {
		w.behind = absence{}
	}
	w.end = state.LastSeq
	switch {
	case w.holes >= brokenLooks:
		w.err = journal.Unreadable(fmt.Sprintf("%d messages of stream %s are missing in %s", state.NumDeleted, stream, s.config.Dir))
	case w.behind.outlasts(copyWaits * patience):
		w.err = journal.Unreadable(fmt.Sprintf("stream %s in %s ends with message %d and does not grow, message %d exists",
			stream, s.config.Dir, w.end, read))
	}
	return w.err
}

// partly says that only some of the members have a copy. It returns false if that was known.
func (w *copyWatch) partly() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.some
	w.some = true
	return !known
}

// checkFirst returns a journal.ErrUnreadable if the copy on the member of this node begins after the one of the
// leader, which is the first to drop messages.
func (j *Journal) checkFirst(ctx context.Context) error {
	own := j.config.Own
	if own == nil {
		return nil
	}
	for looks := 1; ; looks++ {
		state, kept, err := own.copy(j.stream)
		if err != nil || !kept {
			return nil
		}
		leader, err := j.state(ctx)
		switch {
		case err != nil || state.FirstSeq <= leader.FirstSeq:
			return err
		case looks == brokenLooks:
			return journal.Unreadable(fmt.Sprintf("stream %s in %s begins with message %d, and messages from %d on exist",
				j.stream, own.config.Dir, state.FirstSeq, leader.FirstSeq))
		}
		time.Sleep(copyPause / brokenLooks)
	}
}

// copy returns the state of a stream on this member, and whether the member has it.
func (s *Server) copy(stream string) (state server.StreamState, kept bool, err error) {
	info, err := s.current().JszAccount(&server.JSzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Streams: true})
	for i := 0; err == nil && i < len(info.Streams); i++ {
		if info.Streams[i].Name == stream {
			return info.Streams[i].State, true, nil
		}
	}
	return state, false, err
}
