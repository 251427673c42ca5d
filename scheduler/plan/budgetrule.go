package plan

import "time"

// The budget rules. Endpoints may have strict and debt, replays all three.
const (
	// RuleStrict admits queries that fit and cuts them at the end of the budget.
	RuleStrict = "strict"
	// RuleDebt admits queries that fit and lets them finish. Later slots repay what a
	// slot takes beyond its budget.
	RuleDebt = "debt"
	// RuleOverrun admits queries that do not fit, lets them finish and repays nothing.
	RuleOverrun = "overrun"
)

// Rules lists the budget rules of a replay.
func Rules() []string { return []string{RuleStrict, RuleDebt, RuleOverrun} }

// A Rule says which queries may start in a slot and whether they may exceed its
// budget.
type Rule string

// fits reports whether a query has to fit what is left.
func (r Rule) fits() bool { return r != RuleOverrun }

// share is what refresh requests and new queries have in any slot: half of its budget.
// Under debt a slot that repays may have only half of the budget.
func (r Rule) share(budget time.Duration) time.Duration {
	if r == RuleDebt {
		return budget / 4
	}
	return budget / 2
}

// credit is the time by which the executions of a slot that owes nothing may together
// exceed its budget.
func (r Rule) credit(timeout time.Duration) time.Duration {
	switch r {
	case RuleDebt:
		return timeout
	case RuleOverrun:
		return boundless
	}
	return 0
}

// boundless is longer than any execution. Adding two of it does not overflow.
const boundless time.Duration = 1 << 61

// repayment is what a slot repays of a debt: all of it, but at most half the budget.
// The half is rounded up so that even the smallest budget repays something.
func repayment(debt, budget time.Duration) time.Duration { return min(debt, budget-budget/2) }
