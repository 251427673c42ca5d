package plan

import "time"

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
type Rule string

// fits reports whether what starts has to fit what is left.
func (r Rule) fits() bool { return r != RuleOverrun }

// share is what refresh requests and new queries have for certain in any slot:
// half of its budget, of which under debt only half may be there.
func (r Rule) share(budget time.Duration) time.Duration {
	if r == RuleDebt {
		return budget / 4
	}
	return budget / 2
}

// credit is how far the executions of a slot that owes nothing may together go
// beyond its budget.
func (r Rule) credit(timeout time.Duration) time.Duration {
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
