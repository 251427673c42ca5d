// The judges of the nemesis test. They are functions of what was seen: they look at no clock and at no
// cluster, so TestNemesisJudges can show each of them a wrong history.

package trial

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// An ending is what one query has at each node in the end, and what its followers have received.
type ending struct {
	fact     *fact
	nodes    []string
	finals   [][]byte      // results, by node
	logs     []*transcript // changes, by node
	received []*transcript
}

// judge returns what is wrong, and the hashes of the results on the way, by position.
func (o *ending) judge(j *judge) (hashes map[uint64]string, wrong []string) {
	object := func(format string, args ...any) {
		wrong = append(wrong, o.fact.Name+fmt.Sprintf(format, args...))
	}
	for i, log := range o.logs {
		log.by = "log of " + o.nodes[i]
		if err := slotsAscend(log); err != nil {
			object(" at %s: %v", o.nodes[i], err)
		}
	}
	hashes = map[uint64]string{}
	for _, s := range slices.Concat(o.logs, o.received) {
		if err := j.judge(s, o.finals[0], hashes); err != nil {
			object(" by %s: %v", s.by, err)
		}
		if s.repeats > 0 {
			object(" by %s: %d changes came again to a follower that had them", s.by, s.repeats)
		}
	}
	for i, final := range o.finals {
		if err := isVersion(o.fact, final, uint64(len(o.fact.versions))); err != nil || string(final) != string(o.finals[0]) {
			object(" at %s has another result: %v", o.nodes[i], err)
		}
	}
	return hashes, wrong
}

// slotsAscend returns an error if a later change of a query comes from an earlier slot.
func slotsAscend(s *transcript) error {
	last := uint64(0)
	for _, r := range s.records {
		var c struct{ Slot uint64 }
		if err := json.Unmarshal(r.raw[0], &c); err != nil || c.Slot < last {
			return fmt.Errorf("change %d comes from slot %d, after slot %d: %v", r.seq, c.Slot, last, err)
		}
		last = c.Slot
	}
	return nil
}

// sameLog returns an error unless the shorter one of two logs is how the longer one begins.
func sameLog(a, b []string) error {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Errorf("change %d of all is\n%.500s\nand at another node\n%.500s", i+1, a[i], b[i])
		}
	}
	return nil
}

// asksForRebuild reports whether a node that does not start says how to mend it.
func asksForRebuild(err error) bool { return strings.Contains(err.Error(), "cluster rebuild") }

// A slotUse is what a node has recorded about the budget of a slot.
type slotUse struct {
	Slot    uint64
	Used    float64 `json:"used_seconds"`
	Budget  float64 `json:"budget_seconds"`
	OffGrid struct {
		Used float64 `json:"used_seconds"`
	} `json:"off_grid"`
}

// slotsKept returns what is wrong with recorded slots, the newest first: they count down, and none has
// used more than its budget.
func slotsKept(slots []slotUse) (wrong []string) {
	for i, s := range slots {
		if s.Used+s.OffGrid.Used > s.Budget+1e-6 {
			wrong = append(wrong, fmt.Sprintf("slot %d used %v s and %v s after it of %v s", s.Slot, s.Used, s.OffGrid.Used, s.Budget))
		}
		if i > 0 && s.Slot >= slots[i-1].Slot {
			wrong = append(wrong, fmt.Sprintf("slot %d is listed after slot %d", s.Slot, slots[i-1].Slot))
		}
	}
	return wrong
}

// overspent returns the slots in which complete requests took longer than the budget. One request
// may have begun in the slot before, because it arrives here after it was sent. Trial runs are charged
// to the next slot, so they count over any number of consecutive slots and not for one.
func overspent(requests []*asked) (list []string) {
	type slot struct {
		used, all, longest time.Duration
		nodes              map[string]int
	}
	slots := map[int64]*slot{}
	longest := time.Duration(0)
	for _, a := range requests {
		if a.left || a.ended.IsZero() {
			continue
		}
		n := a.began.UnixNano() / int64(nemesisSlot)
		if slots[n] == nil {
			slots[n] = &slot{nodes: map[string]int{}}
		}
		s, d := slots[n], a.ended.Sub(a.began)
		if s.all += d; !a.trial {
			s.used, s.longest = s.used+d, max(s.longest, d)
		}
		s.nodes[a.node]++
		longest = max(longest, d)
	}
	var numbers []int64
	for n := range slots {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	above, before := time.Duration(0), int64(0) // what a run of slots has taken above its budgets
	for i, n := range numbers {
		s := slots[n]
		at := time.Unix(0, n*int64(nemesisSlot)).Format(time.TimeOnly)
		if s.used > nemesisBudget+s.longest {
			list = append(list, fmt.Sprintf("the slot at %s took %v, requests %v", at, s.used, s.nodes))
		}
		if i > 0 {
			above -= time.Duration(n-before-1) * nemesisBudget
		}
		above, before = max(0, above)+s.all-nemesisBudget, n
		if above > nemesisBudget+longest {
			list = append(list, fmt.Sprintf("slots up to %s took %v above their budgets", at, above))
			above = 0
		}
	}
	return list
}

// A hubDelivery is what a node has sent to a callback of the hub.
type hubDelivery struct{ node, body string }

// judgeTopic judges what a callback of the hub has received: versions of the topic, none of a node after
// a newer one of the same node, and the newest in the end. hashes are those of all versions, by position.
// It returns how many deliveries brought a version again, and how many an older one than another node.
func judgeTopic(got []hubDelivery, hashes map[uint64]string, final uint64) (repeats, late int, err error) {
	at, newest := map[string]uint64{}, map[string]uint64{}
	for seq, hash := range hashes {
		at[hash] = seq
	}
	last := uint64(0)
	for i, d := range got {
		seq, ok := at[fingerprint([]byte(d.body))]
		switch {
		case !ok:
			return repeats, late, fmt.Errorf("delivery %d is no version of the topic: %.300s", i, d.body)
		case seq < newest[d.node]:
			return repeats, late, fmt.Errorf("delivery %d of %s is version %d, after version %d", i, d.node, seq, newest[d.node])
		case seq < last:
			late++
		case seq == last:
			repeats++
		}
		newest[d.node], last = seq, max(last, seq)
	}
	if n := len(got); n == 0 && final == 1 { // the subscription was made after the first version
		return repeats, late, nil
	} else if n == 0 || at[fingerprint([]byte(got[n-1].body))] != final {
		return repeats, late, fmt.Errorf("the last delivery is not version %d, but version %d came", final, last)
	}
	return repeats, late, nil
}

// A sepaNote is one notification of a SEPA subscription.
type sepaNote struct {
	sequence       int
	added, removed []string // rows as the server wrote them
}

// judgeSEPA judges the notifications of one SEPA subscription: the whole result, then the steps to
// later versions. It returns the version that it ended with.
func judgeSEPA(f *fact, notes []sepaNote) (last uint64, err error) {
	var rows []string
	for i, n := range notes {
		added, err := f.texts(n.added)
		if err != nil {
			return last, err
		}
		removed, err := f.texts(n.removed)
		if err != nil {
			return last, err
		}
		rest := without(rows, removed)
		if n.sequence != i || len(rest) != len(rows)-len(removed) {
			return last, fmt.Errorf("notification %d in the place of %d removes %q from %q", n.sequence, i, removed, rows)
		}
		rows = sorted(slices.Concat(rest, added))
		is := slices.IndexFunc(f.versions, func(v edition) bool { return slices.Equal(sorted(v.rows), rows) })
		if is < 0 || uint64(is) < last {
			return last, fmt.Errorf("notification %d leads from version %d to %d (0: none): %.500q", i, last, is+1, rows)
		}
		last = uint64(is) + 1
	}
	return last, nil
}
