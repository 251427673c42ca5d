package store

import (
	"sync"
	"time"
)

// The queue of edits of queries: callers that edit at the same time share transactions.

// maxEdits is the number of edits that share a transaction.
const maxEdits = 64

// editQueue collects the edits that wait for a transaction. The caller of the oldest one
// runs it for all of them.
type editQueue struct {
	mu       sync.Mutex // guards the fields below
	waiting  []*queryEdit
	led      bool          // a caller runs a transaction or prepares to
	usual    int           // the number of edits that came together lately
	patience time.Duration // the longest wait for that many
	complete chan struct{} // closed when that many wait; nil if no caller waits for it
}

// enter adds an edit and returns when it is done, or when its caller has to run the next
// transaction. It reports the latter.
func (q *editQueue) enter(e *queryEdit) (leads bool) {
	q.mu.Lock()
	q.waiting = append(q.waiting, e)
	if q.complete != nil && len(q.waiting) >= q.usual {
		close(q.complete)
		q.complete = nil
	}
	leads, q.led = !q.led, true
	q.mu.Unlock()
	return leads || <-e.leads
}

// gather waits until as many edits wait as came together lately, at most for half of the
// time of a transaction. The callers that the last transaction has answered would otherwise
// miss the next one, and half of them would wait for the other half in turn.
func (q *editQueue) gather() {
	q.mu.Lock()
	if len(q.waiting) >= q.usual {
		q.mu.Unlock()
		return
	}
	complete := make(chan struct{})
	q.complete = complete
	late := time.NewTimer(q.patience)
	q.mu.Unlock()
	defer late.Stop()
	select {
	case <-complete:
	case <-late.C:
	}
}

// take removes and returns the oldest edits, at most n.
func (q *editQueue) take(n int) []*queryEdit {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.complete = nil
	n = min(n, len(q.waiting))
	list := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return list
}

// leave lets the callers of edits return that are done after a transaction of some length,
// and the oldest waiting one run the next. The caller of list[0] is the one that calls it.
func (q *editQueue) leave(list []*queryEdit, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.usual, q.patience = min(len(list)+len(q.waiting), maxEdits), took/2
	for _, e := range list[1:] {
		e.leads <- false
	}
	if q.led = len(q.waiting) > 0; q.led {
		q.waiting[0].leads <- true
	} else {
		q.waiting = nil
	}
}
