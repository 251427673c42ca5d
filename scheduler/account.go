package scheduler

import "time"

// An account records what executions outside slots use: trial runs, and executions for
// hints. The next slots pay for them.
type account struct {
	charge   time.Duration // used by them and not paid yet
	reserved time.Duration // for those in progress
	ended    time.Time     // end of the last execution, those of slots included
	over     bool          // no more executions

	pays   uint64        // the number of the slot that pays for what begins now
	beside time.Duration // of charge and reserved: for trial runs and positions
	lent   time.Duration // what the ledger knows of beside, and may be used before it is written again
}

// besideShare is the part of a budget that the ledger lends beyond what is asked for, so that not every position that is
// asked for waits for a commit.
const besideShare = 8

// A Beside is what trial runs and positions may have used for which a slot is to pay.
type Beside struct {
	Slot    uint64  `json:"slot"`
	Seconds float64 `json:"seconds"`
}

// lend reserves a time for a trial run or a position. It returns what the ledger has to know before, nil if it knows enough.
func (a *account) lend(limit, budget time.Duration) *Beside {
	a.reserved += limit
	if a.beside += limit; a.beside <= a.lent {
		return nil
	}
	a.lent = max(a.beside, min(a.beside+budget/besideShare, budget))
	return &Beside{a.pays, a.lent.Seconds()}
}

// used replaces what was lent by what was used.
func (a *account) used(lent, used time.Duration) {
	a.chargeUsed(lent, used)
	a.beside += used - lent
}

// rest returns what the ledger has to know in the end, nil if it knows it.
func (a *account) rest() *Beside {
	if a.lent == a.beside {
		return nil
	}
	a.lent = a.beside
	return &Beside{a.pays, a.lent.Seconds()}
}

// begin is called when a slot begins and has been charged.
func (a *account) begin(slot uint64) { a.pays, a.beside, a.lent = slot+1, a.reserved, 0 }

// left returns what the next slot can still pay. unowed is the part of its budget that
// repays no debt.
func (a *account) left(unowed time.Duration) time.Duration { return unowed - a.charge - a.reserved }

// Together with positions, trial runs may use half of what the next slot can pay, so that those who ask for them without end
// do not stop all slots. What remains of that half is lent if it is at least an eighth of it.
const (
	trialShare = 2
	leastTrial = 8
)

// leftForTrials returns what another trial run may use, 0 if it is not worth a request.
func (a *account) leftForTrials(unowed time.Duration) time.Duration {
	share := unowed / trialShare
	limit := min(a.left(unowed), share-a.beside)
	if limit < share/leastTrial {
		return 0
	}
	return limit
}

// chargeUsed replaces what was reserved for executions by what they used.
func (a *account) chargeUsed(reserved, used time.Duration) {
	a.reserved -= reserved
	a.charge += used
}

// executed notes that an execution ended.
func (a *account) executed(at time.Time) {
	if at.After(a.ended) { // otherwise a trial run ended later
		a.ended = at
	}
}

// gapEnd returns the end of the gap after the last execution; zero if there is none.
func (a *account) gapEnd(gap time.Duration) time.Time {
	if gap <= 0 || a.ended.IsZero() {
		return time.Time{}
	}
	return a.ended.Add(gap)
}
