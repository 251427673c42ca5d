package journal

import (
	"context"
	"slices"
	"time"
)

// Limits of what a journal keeps.
const (
	KeepAge   = 24 * time.Hour // for members that lag
	KeepBytes = 16 << 30       // for members that lag
	KeepIDs   = time.Hour      // at least, so that commands are recognised by their ids
)

// Droppable returns up to which entry a journal may be dropped, 0 for none: what all members have
// applied and is older than KeepIDs, and what is beyond KeepAge or KeepBytes. applied has the
// number of the last entry that each member has applied.
func Droppable(ctx context.Context, j Journal, applied ...uint64) (uint64, error) {
	beyond, err := j.Old(ctx, KeepAge, KeepBytes)
	if err != nil || len(applied) == 0 {
		return beyond, err
	}
	old, err := j.Old(ctx, KeepIDs, 0)
	return max(beyond, min(old, slices.Min(applied))), err
}
