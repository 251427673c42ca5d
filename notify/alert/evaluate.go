// This file evaluates rules: it finds the queries to look at and folds what their logs have.

package alert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/notify/rule"
	"github.com/freshet/freshet/registry"
)

// mark marks queries that are to be looked at now.
func (e *Engine) mark(queries []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range queries {
		if e.queries[q] != nil {
			e.due[q] = time.Time{}
		}
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
func (e *Engine) evaluateOne(ctx context.Context, id string) {
	defer e.signal()
	var query string
	err := e.exclusive(func(token uint64) error {
		e.mu.Lock()
		x := e.rules[id]
		e.mu.Unlock()
		if x == nil || x.broken != "" || x.Paused {
			return nil
		}
		s := step{Engine: e, token: token}
		query = x.Query
		return errors.Join(s.bring(ctx, query, []*entry{x}), s.commit())
	})
	if err != nil {
		e.later([]string{query}, e.opts.Now())
	}
}

// evaluate evaluates the rules of queries, many in a transaction.
func (e *Engine) evaluate(ctx context.Context, queries []string) error {
	for len(queries) > 0 && ctx.Err() == nil {
		n := 0
		err := e.exclusive(func(token uint64) error {
			s := step{Engine: e, token: token}
			for n < len(queries) && !s.full() {
				if err := s.look(ctx, queries[n]); err != nil {
					return err
				}
				n++
			}
			if err := s.commit(); !errors.Is(err, errTrouble) || passing(err) || errors.Is(err, registry.ErrUnusable) {
				return err
			}
			return nil
		})
		if err != nil && ctx.Err() == nil {
			e.later(queries, e.opts.Now().Add(recheck))
			if passing(err) { // the store logs this once
				return nil
			}
			return fmt.Errorf("evaluate alert rules: %w", err)
		}
		queries = queries[n:]
	}
	return nil
}

// later sets when queries are looked at again, unless that is earlier already.
func (e *Engine) later(queries []string, at time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, q := range queries {
		if old, set := e.due[q]; e.queries[q] != nil && (!set || at.Before(old)) {
			e.due[q] = at
		}
	}
}

// look evaluates the rules of a query up to its newest answer. A query that cannot be read makes
// its rules failing. The caller holds turn.
func (s *step) look(ctx context.Context, query string) error {
	s.mu.Lock()
	rules := make([]*entry, 0, len(s.queries[query]))
	for _, x := range s.queries[query] {
		if x.trouble = ""; x.broken == "" && !x.State.Ended && !x.Paused {
			rules = append(rules, x)
		}
	}
	s.mu.Unlock()
	soon := s.opts.Now().Add(recheck)
	err := s.bring(ctx, query, rules)
	switch {
	case err == nil || passing(err) || errors.Is(err, registry.ErrUnusable) || ctx.Err() != nil:
		return err
	case errors.Is(err, errTrouble):
		s.later([]string{query}, soon)
	default:
		s.trouble(rules, err)
	}
	return nil
}

// bring evaluates rules of a query up to its newest answer.
func (s *step) bring(ctx context.Context, query string, rules []*entry) error {
	now := s.opts.Now()
	q, err := s.opts.Query(query)
	if errors.Is(err, registry.ErrNotFound) {
		for _, x := range rules {
			s.record(x, x.program.End(s.state(x), now))
			if err := s.commitFull(); err != nil {
				return err
			}
		}
		return nil
	} else if err != nil {
		return err
	}
	rules = slices.DeleteFunc(rules, func(x *entry) bool { return s.opts.deprived(x, &q) != nil })
	if err := s.follows(ctx, query, rules); err != nil {
		return err
	}
	var next time.Time
	for _, x := range rules {
		if at := x.program.Next(s.peek(x)); !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if next.IsZero() {
		return nil
	}
	wait := min(next.Sub(now), mostWait) // which a clock that is set does not change
	if wait <= 0 {
		wait = recheck
	}
	s.later([]string{query}, now.Add(wait))
	return nil
}

// deprived returns why the owner of a rule may not read its query any more.
func (o *Options) deprived(x *entry, q *registry.Query) error {
	who, err := o.Caller(x.Caller)
	if err == nil && !who.MayRead(q) {
		err = fmt.Errorf("the token %s may not read this query any more: renew the token, or remove the rule", x.Caller)
	}
	return err
}

// follows evaluates rules over the log, and confirms the newest result.
func (s *step) follows(ctx context.Context, query string, rules []*entry) error {
	for {
		status, _, err := s.opts.Log.Current(query, false)
		if errors.Is(err, registry.ErrNotFound) {
			return nil // the next wake-up finds it gone
		} else if err != nil {
			return err
		}
		behind := map[registry.Position][]*entry{}
		for _, x := range rules {
			state := s.peek(x)
			if state.At == status.Position && state.At.Seq == 0 {
				continue
			} else if state.At.Epoch == "" && status.Position.Seq == 0 {
				s.state(x).At = status.Position
			} else if state.At != status.Position {
				behind[state.At] = append(behind[state.At], x)
			} else if next := x.program.Next(state); !next.IsZero() && (!next.After(status.CheckedAt) || status.CheckedAt.Before(state.CheckedAt)) {
				s.fold(x, status.CheckedAt, func(state *registry.RuleState) []registry.RuleEvent {
					return x.program.Confirm(state, status.CheckedAt)
				})
				s.evaluated(x)
				if err := s.commitFull(); err != nil {
					return err
				}
			}
		}
		if len(behind) == 0 {
			return nil
		}
		for at, list := range behind {
			if err := s.catchUp(query, at, list); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// catchUp evaluates rules over the next changes after a position, or over the current
// result if the log does not lead there.
func (s *step) catchUp(query string, at registry.Position, rules []*entry) error {
	whole := slices.DeleteFunc(slices.Clone(rules), func(x *entry) bool { return !rule.NeedsResult(s.peek(x)) && at.Epoch != "" })
	rules = slices.DeleteFunc(rules, func(x *entry) bool { return slices.Contains(whole, x) })
	if len(rules) > 0 {
		page, err := s.opts.Log.After(query, at, pageChanges)
		if gap := (*registry.GapError)(nil); errors.As(err, &gap) {
			whole, rules = append(whole, rules...), nil
		} else if errors.Is(err, registry.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		for _, x := range rules {
			for i := range page {
				if rule.NeedsResult(s.peek(x)) {
					break // the next call takes the whole result
				}
				s.fold(x, page[i].CheckedAt, func(state *registry.RuleState) []registry.RuleEvent { return x.program.Change(state, &page[i]) })
				s.evaluated(x)
				if err := s.commitFull(); err != nil {
					return err
				}
			}
		}
	}
	if len(whole) == 0 {
		return nil
	}
	status, result, err := s.opts.Log.Current(query, true)
	if errors.Is(err, registry.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	for _, x := range whole {
		if result == nil {
			s.state(x).At = status.Position
			continue
		}
		s.fold(x, status.CheckedAt, func(state *registry.RuleState) []registry.RuleEvent {
			return x.program.Reset(state, result, status.Position, status.CheckedAt)
		})
		s.evaluated(x)
		if err := s.commitFull(); err != nil {
			return err
		}
	}
	return nil
}
