package scheduler

import (
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/merge"
	"github.com/freshet/freshet/scheduler/cohort"
)

// audits holds the merged answers that are compared with the answers of the queries
// alone, by query. A held answer is not recorded: what the query alone answers counts.
type audits map[string]*audit

// An audit compares twice: the data may have changed between the first two requests.
// Only two pairs of the same two answers prove that a merged answer is wrong.
type audit struct {
	kind     cohort.Kind
	merged   [2]string // hashes, of the first and the second look
	alone    [2]string
	document *diff.Result // the merged answer of the second look; nil for a probe
	digest   merge.Digest // in the first probe
	salt     string       // of that probe
	looks    int          // merged answers held
	waits    bool         // for the answer of the query alone
}

// hold keeps the merged answer of a member.
func (s audits) hold(m *askMember, k *ask) {
	a := s[m.q.ID]
	if a == nil || a.looks != 1 || a.waits || !k.again {
		a = &audit{}
		s[m.q.ID] = a
	}
	a.kind, a.waits = k.kind, true
	if k.again { // many first looks may wait
		a.document = m.answer.Result
	}
	a.merged[a.looks] = m.was.Hash
	switch {
	case !m.differ:
	case m.answer.Result != nil:
		a.merged[a.looks] = m.answer.Result.Hash()
	case m.digest == a.digest: // the result of the first look, whatever is known since
		a.merged[a.looks] = a.merged[0]
	default:
		a.merged[a.looks] = ""
	}
	a.digest, a.salt = m.digest, k.salt
	a.looks++
}

func (s audits) drop(query string) { delete(s, query) }

// A finding is the result of an audit.
type finding int

const (
	nothing   finding = iota
	same              // both answers are equal
	suspected         // they differ, look again
	different         // they differ again
)

// compare compares the answer of a query alone, whose outcome is out, with the held one.
func (s audits) compare(query string, out *Outcome) (finding, *audit) {
	a := s[query]
	if a == nil {
		return nothing, nil
	}
	if !a.waits || !out.Stats.LastRun.Outcome.Complete() {
		s.drop(query)
		return nothing, nil
	}
	i := a.looks - 1
	a.waits, a.alone[i] = false, out.Stats.Hash
	switch {
	case a.alone[i] == a.merged[i]:
		s.drop(query)
		return same, a
	case a.looks == 1:
		return suspected, a
	}
	s.drop(query)
	if a.alone[0] == a.alone[1] && a.merged[0] == a.merged[1] {
		return different, a
	}
	return nothing, a
}
