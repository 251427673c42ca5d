package alert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/rule"
	"github.com/freshet/freshet/registry"
)

// later sets when a query is looked at again, unless that is earlier already.
func (e *Engine) later(query string, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if old, set := e.due[query]; e.queries[query] != nil && (!set || at.Before(old)) {
		e.due[query] = at
	}
}

// ripe returns the queries that are to be looked at now.
func (e *Engine) ripe() (queries []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.opts.Now()
	for q, at := range e.due {
		if !at.After(now) || at.Sub(now) > mostWait { // then the clock was set back
			queries = append(queries, q)
			delete(e.due, q)
		}
	}
	return queries
}

// evaluateOne evaluates a rule that was made or edited. If that fails, Run does it.
func (e *Engine) evaluateOne(ctx context.Context, x *entry) {
	defer e.signal()
	err := e.exclusive(func(token uint64) error {
		s := step{Engine: e, token: token}
		return errors.Join(s.look(ctx, x.Query, []*entry{x}), s.commit())
	})
	if err != nil {
		e.later(x.Query, e.opts.Now())
	}
}

// evaluate evaluates the rules of queries, many in a transaction.
func (e *Engine) evaluate(ctx context.Context, queries []string) error {
	for len(queries) > 0 && ctx.Err() == nil {
		n := 0
		err := e.exclusive(func(token uint64) error {
			s := step{Engine: e, token: token}
			for n < len(queries) && !s.full() {
				if err := s.look(ctx, queries[n], e.rulesOf(queries[n])); err != nil {
					return err
				}
				n++
			}
			return s.commit()
		})
		if err != nil && ctx.Err() == nil {
			for _, q := range queries {
				e.later(q, e.opts.Now().Add(recheck))
			}
			if passing(err) { // the store logs this once
				return nil
			}
			return fmt.Errorf("evaluate alert rules: %w", err)
		}
		queries = queries[n:]
	}
	return nil
}

func (e *Engine) rulesOf(query string) (list []*entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.queries[query] {
		list = append(list, x)
	}
	return list
}

// look evaluates rules of a query up to its newest answer. Those for which that is not possible are
// failing. Its errors are about the whole store.
func (s *step) look(ctx context.Context, query string, rules []*entry) error {
	q, err := s.opts.Query(query)
	gone := errors.Is(err, registry.ErrNotFound)
	if err != nil && !gone {
		return s.fail(rules, err)
	}
	var open []*entry
	s.mu.Lock()
	for _, x := range rules {
		if x.trouble = ""; x.broken == "" && !x.State.Ended && !x.Paused {
			open = append(open, x)
		}
	}
	s.mu.Unlock()
	rules = open[:0]
	for _, x := range open {
		if gone {
			d := s.draft(x)
			s.weight += d.tell(&s.opts, x.program.End(d.state, s.opts.Now()))
			if err := s.commitFull(); err != nil {
				return err
			}
		} else if s.opts.deprived(&x.Rule, &q) == nil {
			rules = append(rules, x)
		} else {
			s.later(query, s.opts.Now().Add(mostWait)) // its owner may be given the right again
		}
	}
	for len(rules) > 0 {
		var behind []*entry
		log := &reading{Log: s.opts.Log, query: query}
		for _, x := range rules {
			more, err := s.follow(x, log)
			if err == nil {
				err = ctx.Err()
			}
			if err := s.fail([]*entry{x}, err); err != nil {
				return err
			}
			if x.trouble != "" {
				continue
			}
			if more {
				behind = append(behind, x)
			} else {
				s.remind(x)
			}
		}
		rules = behind
	}
	return nil
}

// fail makes rules failing that an error is about. It returns one that is about the whole store.
func (s *step) fail(rules []*entry, err error) error {
	if ofStore(err) || err == nil {
		return err
	}
	for _, x := range rules {
		s.trouble(x, err)
	}
	return nil
}

// deprived returns why the owner of a rule may not read its query any more.
func (o *Options) deprived(r *registry.Rule, q *registry.Query) error {
	who, err := o.Caller(r.Caller)
	if err == nil && !who.MayRead(q) {
		err = fmt.Errorf("the token %s may not read this query any more: renew the token, or remove the rule", r.Caller)
	}
	return err
}

// A reading is what was read of the log of a query for one round of its rules, most of which are at one
// position.
type reading struct {
	notify.Log
	query  string
	status *registry.Status
	whole  *registry.Status // with result
	result *diff.Result
	at     registry.Position
	page   []registry.Change // after at
	gap    bool              // the log does not lead on from at
}

// after reads the page after a position.
func (r *reading) after(at registry.Position) (err error) {
	if r.at == at && (len(r.page) > 0 || r.gap) {
		return nil
	}
	r.at, r.gap = at, false
	r.page, err = r.After(r.query, at, pageChanges)
	if gap := (*registry.GapError)(nil); errors.As(err, &gap) {
		r.gap, err = true, nil
	}
	return err
}

// follow evaluates a rule over the next changes of the log, or over the current result if the log does
// not lead there. A rule that has the newest result takes its confirmation. It reports whether there may
// be more.
func (s *step) follow(x *entry, log *reading) (more bool, err error) {
	if log.status == nil {
		status, _, err := log.Current(log.query, false)
		if err != nil {
			return false, ignoreGone(err)
		}
		log.status = &status
	}
	state := s.peek(x)
	switch at := state.At; {
	case at == log.status.Position:
		checked, next := log.status.CheckedAt, x.program.Next(state)
		if next.After(checked) { // the result is true until it was checked, or as long as a feed proves it
			if until := s.opts.Proved(log.query, at); until.After(checked) {
				checked = until
			}
		}
		if x.lastAnswer == (answerTimes{}) { // an earlier process, or another node, has evaluated the last one
			x.lastAnswer.confirmed = log.status.CheckedAt
		}
		// Either the clock was set back, or a proof has ended. Then the answer is the one that was evaluated, and has no
		// time of another clock.
		back := checked.Before(state.CheckedAt)
		now, ended := s.opts.Now(), log.status.CheckedAt.Equal(x.lastAnswer.confirmed)
		if ended && state.CheckedAt.After(now) && !log.status.CheckedAt.After(now) {
			ended = false
		}
		if at.Seq == 0 || next.IsZero() || next.After(checked) && !back || back && ended {
			return false, nil
		}
		s.draft(x).confirmed = log.status.CheckedAt
		return false, s.fold(x, checked, func(state *registry.RuleState) []registry.RuleEvent { return x.program.Confirm(state, checked) })
	case at.Epoch == "" || rule.NeedsResult(state):
	default:
		err := log.after(at)
		for i := range log.page {
			if err != nil || x.trouble != "" || rule.NeedsResult(s.peek(x)) {
				break // the next call takes the whole result
			}
			c := &log.page[i]
			err = s.fold(x, c.CheckedAt, func(state *registry.RuleState) []registry.RuleEvent { return x.program.Change(state, c) })
		}
		if err != nil || !log.gap {
			return len(log.page) > 0, ignoreGone(err)
		}
	}
	if log.whole == nil {
		status, result, err := log.Current(log.query, true)
		if err != nil {
			return false, ignoreGone(err)
		}
		log.whole, log.result = &status, result
	}
	at, checked := log.whole.Position, log.whole.CheckedAt
	if log.result == nil {
		s.draft(x).state.At = at
		return false, nil
	}
	return true, s.fold(x, checked, func(state *registry.RuleState) []registry.RuleEvent {
		return x.program.Reset(state, log.result, at, checked)
	})
}

// ignoreGone drops the error about a query that is gone: the next wake-up ends its rules.
func ignoreGone(err error) error {
	if errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	return err
}

// remind has a rule looked at again when time alone may change its alerts.
func (s *step) remind(x *entry) {
	next, now := x.program.Next(s.peek(x)), s.opts.Now()
	if next.IsZero() {
		return
	}
	wait := min(next.Sub(now), mostWait) // which a clock that is set does not change
	if wait <= 0 {
		wait = recheck
	}
	s.later(x.Query, now.Add(wait))
}
