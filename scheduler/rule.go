package scheduler

import (
	"math"
	"time"
)

// The budget rules. Endpoints may have strict and debt, replays all three.
const (
	// RuleStrict: what starts has to fit, and is cut at the end of the budget.
	RuleStrict = "strict"
	// RuleDebt: what starts has to fit, and may finish; what a slot takes beyond
	// its budget is repaid from later ones.
	RuleDebt = "debt"
	// RuleOverrun: what starts need not fit, may finish, and repays nothing.
	RuleOverrun = "overrun"
)

// Rules lists the budget rules: all that a replay knows.
func Rules() []string { return []string{RuleStrict, RuleDebt, RuleOverrun} }

// A rule says what may start in a slot, and how far that may go.
type rule string

// fits reports whether what starts has to fit what is left.
func (r rule) fits() bool { return r != RuleOverrun }

// share is what refresh requests and new queries have for certain in any slot:
// half of its budget, of which under debt only half may be there.
func (r rule) share(budget time.Duration) time.Duration {
	if r == RuleDebt {
		return budget / 4
	}
	return budget / 2
}

// credit is how far the executions of a slot that owes nothing may together go
// beyond its budget.
func (r rule) credit(timeout time.Duration) time.Duration {
	switch r {
	case RuleDebt:
		return timeout
	case RuleOverrun:
		return boundless
	}
	return 0
}

// boundless is longer than anything takes, and can still be added to.
const boundless time.Duration = 1 << 61

// repayment is what a slot repays of a debt: all of it, at most half its budget,
// rounded up, so that even the smallest budget repays something.
func repayment(debt, budget time.Duration) time.Duration { return min(debt, budget-budget/2) }

// Owes is the debt that later slots have to repay, as far as this record tells.
// One that was not finished owes all that it might still have taken: nothing
// records for how long the endpoint went on with what was being executed.
func (s Slot) Owes() time.Duration { return exactly(s.Debt) + exactly(s.Lent) }

// exactly is the duration of which these are the seconds.
func exactly(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}
