package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
)

// Under thirds, all queries are due in every third slot.
type thirds struct{ policy.Policy }

func (thirds) Rank(m policy.Moment, all []*policy.Candidate) policy.Ranking {
	keys := make([]policy.Key, len(all))
	for i := range keys {
		keys[i].Due = (m.Slot + 2) / 3 * 3
	}
	return policy.Ranking{Keys: keys}
}

// TestRestingIsExplained checks that, however long a query rests, its explanation names the slot in which the policy has
// it due next.
func TestRestingIsExplained(t *testing.T) {
	p := planned(t, "rr", registered(3))
	p.SetPolicy(thirds{named("rr")}, RuleStrict, time.Hour)
	for p.slot < 1010 {
		p.Refresh(began)
		x, ok := p.Explain("q0000000", began)
		due := (p.slot + 2) / 3 * 3
		code, why := CodeNotDue, fmt.Sprintf("due in slot %d", due)
		if due == p.slot {
			code, why = CodeOrder, ""
		}
		if !ok || x.Code != code || !strings.HasSuffix(x.Why, why) {
			t.Errorf("slot %d: %q, %q", p.slot, x.Code, x.Why)
		}
		p.Begin(began, Terms{Width: 1, Timeout: time.Minute})
		p.End(began, "")
	}
}
