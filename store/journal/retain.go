package journal

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Limits of what a journal keeps.
const (
	KeepAge   = 24 * time.Hour // for members that lag
	KeepBytes = 16 << 30       // for members that lag
	KeepIDs   = time.Hour      // at least, so that commands are recognised by their ids
)

// A Retention says which entries of a journal may be dropped. Its zero value is ready for use. An entry counts
// as old once the Retention has seen it for as long, since the clocks of the engine may be wrong.
type Retention struct {
	mu   sync.Mutex
	seen []sighting // in order, the first of which may be older than KeepAge
}

// A sighting is an end of the journal.
type sighting struct {
	at  time.Time
	seq uint64
}

// Droppable returns up to which entry a journal may be dropped, 0 for none: what all members have
// applied and is older than KeepIDs, and what is beyond KeepAge or KeepBytes. applied has the
// number of the last entry that each member has applied.
func (r *Retention) Droppable(ctx context.Context, j Journal, applied ...uint64) (uint64, error) {
	head, err := j.Head(ctx)
	if err != nil {
		return 0, err
	}
	r.see(head.Seq)
	large, err := j.Old(ctx, KeepBytes)
	if err != nil {
		return 0, err
	}
	upTo := max(large, r.old(KeepAge))
	if len(applied) > 0 {
		upTo = max(upTo, min(r.old(KeepIDs), slices.Min(applied)))
	}
	return upTo, nil
}

// old returns the last entry that was seen that long ago, 0 for none.
func (r *Retention) old(age time.Duration) (seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.seen {
		if time.Since(s.at) >= age {
			seq = s.seq
		}
	}
	return seq
}

// see notes the end of the journal, and forgets those that no longer matter.
func (r *Retention) see(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, sighting{time.Now(), seq})
	for len(r.seen) > 1 && time.Since(r.seen[1].at) >= KeepAge {
		r.seen = r.seen[1:]
	}
}
