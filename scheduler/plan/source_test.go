package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/scheduler/internal/selection"
	"github.com/freshet/freshet/scheduler/policy"
)

// A shelf is a table that orders its queries by their estimates and returns three at a
// time.
type shelf struct {
	policy.Policy
	held, plan []*policy.Candidate
}

func (s *shelf) NewTable() policy.Table { return s }

func (s *shelf) Put(c *policy.Candidate) {
	if !slices.Contains(s.held, c) {
		s.held = append(s.held, c)
	}
}

func (s *shelf) Remove(c *policy.Candidate) {
	gone := func(o *policy.Candidate) bool { return o == c }
	s.held, s.plan = slices.DeleteFunc(s.held, gone), slices.DeleteFunc(s.plan, gone)
}

func (s *shelf) Plan(policy.Moment) policy.Ranking {
	s.plan = slices.Clone(s.held)
	slices.SortFunc(s.plan, func(a, b *policy.Candidate) int { return int(a.Estimate - b.Estimate) })
	return policy.Ranking{}
}

func (s *shelf) Next() (list []policy.Ranked) {
	n := min(3, len(s.plan))
	for _, c := range s.plan[:n] {
		list = append(list, policy.Ranked{Candidate: c, Key: policy.Key{Value: float64(c.Estimate)}})
	}
	s.plan = s.plan[n:]
	return list
}

func (s *shelf) Least() time.Duration                                        { return 0 }
func (s *shelf) Observe(*policy.Candidate, bool) bool                        { return false }
func (s *shelf) Explain(policy.Moment, *policy.Candidate) map[string]float64 { return nil }

// TestListWithTable inserts and removes queries at any time between, before and after
// the plans of a table, as executions outside the grid and questions do. After a plan,
// the table's order holds.
func TestListWithTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var order, in []*item
		list := waitList{source: newSource(&shelf{}, &order)}
		planned := true // nothing was inserted since the last plan
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); {
			case op < 4:
				id := fmt.Sprintf("q%d", len(order))
				c := &item{tier: TierRanked, key: policy.Key{Class: 2, Value: float64(rapid.IntRange(0, 9).Draw(t, "last"))}}
				c.Query.ID, c.Prefix, c.Number = id, selection.Prefix(id), int32(len(order))
				c.Stats.Last, c.Estimate = uint64(c.key.Value), time.Duration(len(order)*37%11)
				if op == 0 {
					c.tier, c.key.Class = TierRefresh, classRefresh
				}
				order, in, planned = append(order, c), append(in, c), false
				list.insert(c)
			case op < 6 && len(in) > 0:
				i := rapid.IntRange(0, len(in)-1).Draw(t, "which")
				list.remove(in[i])
				in = slices.Delete(in, i, i+1)
			case op == 6:
				list.source.begin(policy.Moment{})
				list.reload()
				planned = true
			case op == 7:
				list.first()
			default:
				all := list.all()
				if len(all) != len(in) || !slices.IsSortedFunc(all, func(a, b *item) int { return listEntryOf(a).compare(listEntryOf(b)) }) {
					t.Fatalf("%d of %d queries, in this order: %v", len(all), len(in), all)
				}
				for i := 1; planned && i < len(all); i++ {
					if a, b := all[i-1], all[i]; b.tier != TierRefresh && a.tier != TierRefresh && a.Estimate > b.Estimate {
						t.Fatalf("an estimate of %d is before one of %d", a.Estimate, b.Estimate)
					}
				}
			}
			if list.len() != len(in) {
				t.Fatalf("the list has %d queries, want %d", list.len(), len(in))
			}
		}
	})
}
