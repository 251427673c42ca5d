package plan

// The limits on the effect of hints.
const (
	hintShare = 4      // hinted queries get at most 1/hintShare of the budget before their turn
	maxHinted = 10_000 // marked queries; more count as a hint about all queries
	maxEarly  = 1024   // queries not yet due that a hint about all queries brings into a slot
)

// hints are the queries that may have changed. They run at once in what the last slot
// has left of its budget (see BeginOffGrid). In the following slots they run before
// the other ranked queries, in at most a quarter of the budget, until each has run. A
// hint also brings a query into a slot in which its policy does not have it due yet,
// unless the query is paused, backs off or waits for its min_interval.
//
// A hint changes the order of other queries but never takes their share, whatever it
// says. Refresh requests and new queries come first. Three quarters of the rest follow
// the policy's order, and if the first query of that order is passed over, it begins
// the next slot. Hints are not recorded: after a restart only the policy's order
// applies.
//
// The index of constants is built when the first hint arrives and costs nothing
// before.
type hints struct {
	marked map[*item]struct{}
	all    bool
	fresh  bool    // new queries run at once, outside the grid
	order  []*item // marked queries that may run in the slot, in the order of their keys
}

// drop removes the mark of a query that starts or was removed.
func (t *hints) drop(c *item) {
	if t != nil {
		delete(t.marked, c)
	}
}

func (t *hints) has(c *item) bool {
	if t == nil {
		return false
	}
	_, marked := t.marked[c]
	return marked
}
