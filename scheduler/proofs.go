package scheduler

// This file asks endpoints for their positions in a feed, and draws conclusions from events.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/proof"
)

// proofs is what a loop knows about its endpoint's position. The loop's lock guards it.
type proofs struct {
	positions proof.Positions
	query     string     // that positions belong to
	executors int        // that were replaced: an answer of an earlier one tells nothing
	place     feed.Place // as told last, zero if it is not known
	asked     time.Time  // when it was asked for last
	took      time.Duration
	more      int           // how often it is to be asked for again at once
	polled    time.Duration // what positions took since the last slot
}

// maxSuspects bounds what waits for the feed.
const maxSuspects = 20

// hear updates the plan with what feeds have told. The plan is complete.
func (l *loopData) hear(news *News, now time.Time) {
	e := l.set.endpoint
	lag := time.Duration(e.Lag)
	switch {
	case e.Feed == "":
		l.planner.Proofs().Set(nil, false, lag)
	default:
		recorded := news.Proof
		if l.loaded && l.planner.Proofs().Exist() { // what is known here may not be recorded yet
			recorded = l.planner.Proofs().Endpoint()
		}
		v := proof.NewView(e, news.Feeds[e.Feed], news.Space, recorded, now)
		l.planner.Proofs().Set(v, e.PositionQuery() != "" && !v.Sent(), lag)
	}
	for i := range news.Entries { // one that was registered again is new to the feed
		if id := news.Entries[i].Query.ID; news.Touched[id].Feed == "" {
			l.planner.Proofs().Untouched(id)
		}
	}
	l.planner.Proofs().Touched(news.Touched)
	if off := now.Add(proof.OffFor); l.planner.Proofs().Endpoint().Off.After(off.Add(time.Minute)) { // the clock was set back
		l.planner.Proofs().Change(func(e *proof.Endpoint) { e.Off = off.UTC() })
	}
	l.judge(now)
}

// position is what is known about the endpoint's position before an answer that was true at
// checked, as far as its Age says. A cache may have answered from before the position.
func (x *observation) position(checked time.Time) feed.Before {
	b := x.before
	if b == (feed.Before{}) {
		return b
	}
	b.Answered = x.at
	if aged := x.answer.Age > 0; !b.Assumed.IsZero() {
		b.Assumed = b.Assumed.Add(-x.answer.Age)
	} else if aged {
		return feed.Before{}
	}
	return b
}

// before is the position for executions that begin now.
func (s *proofs) before(l *loopData, now time.Time) feed.Before {
	e := l.set.endpoint
	switch {
	case e.Feed == "":
		return feed.Before{}
	case l.positionText() == "":
		return l.planner.Proofs().Assumed(now, time.Duration(e.Lag))
	}
	return l.planner.Proofs().Told(s.place)
}

// positionText is the position query of the endpoint, empty if there is none, or the feed has no positions.
func (l *loopData) positionText() string {
	if l.planner.Proofs().Sent() {
		return ""
	}
	return l.set.endpoint.PositionQuery()
}

// askPositions asks for the endpoint's position at the start of a slot that executes something, several times until it
// is believed. The budget pays for it.
func (r *runner) askPositions() {
	for n := 1; r.askPosition() && n < proof.Burst; n++ {
	}
}

// askPosition asks for the endpoint's position once, and reports whether to ask again.
func (r *runner) askPosition() (again bool) {
	l := r.l
	l.mu.Lock()
	e, x, now := l.set.endpoint, r.executor, l.clock.Now()
	text := l.positionText()
	asks := e.Feed != "" && text != "" && r.stopped == "" && l.ends() == "" && r.budget.MayStart()
	if !asks {
		r.before = l.proofs.before(l, now)
		l.mu.Unlock()
		return false
	}
	wait := l.account.gapEnd(r.gap)
	limit := min(time.Duration(e.Timeout), r.budget.Left()/4)
	executors := l.proofs.executors
	l.mu.Unlock()
	if wait.After(now) && l.clock.Sleep(r.ctx, wait) != nil || limit <= 0 {
		return false
	}
	l.mu.Lock()
	// A trial run may use the place, or have used it meanwhile. Without a position nothing is proved.
	if sends := l.ends() == "" && !l.account.gapEnd(r.gap).After(l.clock.Now()) && l.limiter.tryAcquire(); !sends {
		l.mu.Unlock()
		return false
	}
	l.mu.Unlock()
	sent := l.clock.Now()
	a := x.Execute(r.ctx, positionQuery(e, text), Memory{}, limit)
	l.mu.Lock()
	defer l.mu.Unlock()
	now = l.clock.Now()
	l.account.executed(now)
	l.limiter.release()
	if r.ctx.Err() != nil {
		return false
	}
	r.budget.Spend(min(a.Elapsed, limit))
	if executors == l.proofs.executors {
		again = l.positioned(a, text, sent, now) && a.Elapsed+r.gap <= limit/proof.Burst
	}
	r.before = l.proofs.before(l, now)
	l.planner.Proofs().Positioned(now, r.before)
	return again
}

func positionQuery(e registry.Endpoint, text string) *registry.Query {
	return &registry.Query{
		ID: "position", Endpoint: e.Name, Text: text, Form: diff.Select, Limit: -1, DefaultGraphs: e.DefaultGraphURI,
		NamedGraphs: e.NamedGraphURI, Beside: true,
	}
}

// positioned takes the answer to a position query that was sent at a time, and reports whether the endpoint told its position
// and was not believed yet. The caller holds the lock.
func (l *loopData) positioned(a Answer, text string, sent, now time.Time) (doubted bool) {
	s := &l.proofs
	if s.query != text {
		s.positions, s.query = proof.Positions{}, text
	}
	s.asked, s.took = now, a.Elapsed
	p, err := placeOf(a)
	if err == nil && p.Time.After(now.Add(time.Minute)) {
		err = fmt.Errorf("position: %s is in the future; let the query return a time in UTC, with a Z", p.Time.Format(time.RFC3339))
	}
	failing := ""
	if err != nil {
		failing, s.place = err.Error(), feed.Place{}
	}
	if was := l.planner.Proofs().Endpoint(); was.Failing != failing {
		l.planner.Proofs().Change(func(e *proof.Endpoint) { e.Failing = failing })
		if failing != "" {
			l.log.Warn("the endpoint does not tell its position, so nothing is proved", "error", failing)
		}
	}
	if err != nil {
		s.took = max(s.took, 4*time.Second) // it is asked for again after a minute
		return false
	}
	was := l.planner.Proofs().Endpoint()
	before := was
	s.place = s.positions.Take(&was, p, now, time.Duration(l.set.endpoint.Lag))
	// Where events have the times at which they were read, those are of this clock, and the endpoint's may be ahead.
	if s.place.Time.After(sent) && !l.planner.Proofs().Dated() {
		s.place.Time = sent.UTC()
	}
	if was.Back != before.Back || was.Rebuilt != before.Rebuilt {
		l.planner.Proofs().Change(func(e *proof.Endpoint) { e.Back, e.Rebuilt = was.Back, was.Rebuilt })
	}
	doubted = l.planner.Proofs().Untrusted()
	l.planner.Proofs().Tell()
	return doubted
}

// placeOf reads the answer to a position query.
func placeOf(a Answer) (feed.Place, error) {
	switch {
	case a.Outcome == registry.Cut:
		return feed.Place{}, fmt.Errorf("position: no answer in %s, which is a quarter of the budget: raise budget, or leave position out",
			a.Elapsed.Round(time.Millisecond))
	case a.Outcome == registry.Timeout:
		return feed.Place{}, fmt.Errorf("position: no answer in %s: raise timeout, or leave position out", a.Elapsed.Round(time.Millisecond))
	case !a.Outcome.Complete():
		return feed.Place{}, fmt.Errorf("position: %s %s; correct the setting position, or leave it out", a.Outcome, a.Error)
	case a.Result == nil:
		return feed.Place{}, errNothing
	}
	if n, columns := a.Result.Len(), len(a.Result.Vars()); n != 1 || columns != 1 {
		return feed.Place{}, fmt.Errorf("position: the answer has %d rows and %d columns; write a SELECT with one of each", n, columns)
	}
	t := a.Result.Terms(0)[0]
	p, err := proof.ParsePosition(t.Value, t.Datatype)
	if err != nil {
		return p, fmt.Errorf("position: %w", err)
	}
	return p, nil
}

// pollAt is when the position is asked for next while events wait for it: at most every two
// seconds, and for at most a sixteenth of the time. Until it is believed, it is asked for several times then. The gap
// between two requests is kept here, so that nothing waits for it.
func (l *loopData) pollAt(now time.Time) time.Time {
	s := &l.proofs
	if s.asked.After(now) { // the clock was set back
		s.asked = now
	}
	at := s.asked
	if s.more == 0 {
		at = at.Add(max(2*time.Second, 16*s.took))
	}
	if free := l.account.gapEnd(time.Duration(l.set.endpoint.MinGap)); free.After(at) {
		return free
	}
	return at
}

// armedTime returns when an armed query, or the endpoint's position, is asked for next, if that is
// before until. It is zero if none is.
func (p *pacer) armedTime(until time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	at := p.planner.Proofs().NextArmed()
	if at.Sub(now) > time.Duration(p.set.endpoint.Lag)+plan.ClockCheck { // the clock was set back
		at = now
	}
	if p.planner.Proofs().AwaitsPosition() {
		if poll := p.pollAt(now); at.IsZero() || poll.Before(at) {
			at = poll
		}
	}
	if at.IsZero() || until.IsZero() || p.halted != nil || p.set.endpoint.Pause != nil {
		return time.Time{}
	}
	if at = shown(at, now); !at.Before(until) {
		return time.Time{}
	}
	return at
}

// shown returns what the clock will show at a time, which it may have been set since to another one. Grid times are what it shows.
func shown(at, now time.Time) time.Time { return now.Add(at.Sub(now)) }

// followFeed reads the news, and marks the queries that are to be asked because of events. While
// events wait for the endpoint's position, it is asked for, and the next slot pays.
func (p *pacer) followFeed(ctx context.Context, next time.Time) error {
	now := p.clock.Now()
	p.mu.LockPlan()
	e, err := p.set.endpoint, p.update(now)
	p.planner.Proofs().Wake(now)
	if e.Feed == "" {
		p.mu.Unlock()
		return err
	}
	limit, end := p.offGridLimit(now, next)
	limit = min(limit, end.Sub(now), time.Duration(e.Budget)/pollShare-p.proofs.polled)
	polls := p.planner.Proofs().AwaitsPosition() && !now.Before(p.pollAt(now))
	more := p.proofs.more
	if polls {
		p.proofs.asked, p.proofs.more = now, 0
	}
	polls = polls && err == nil && limit > 0 && p.limiter.tryAcquire() // a trial run may use it
	executors := p.proofs.executors
	p.mu.Unlock()
	if !polls {
		return errors.Join(err, p.recordDoubts())
	}
	text, sent := e.PositionQuery(), p.clock.Now()
	a, err := p.poller.runWithin(ctx, positionQuery(e, text), limit)
	if err != nil { // such as: the next slot can pay for no more
		p.log.Debug("the position was not asked for", "error", err)
		return p.recordDoubts()
	}
	if b := p.polled(a, text, sent, limit, executors, more); b.Proof != nil {
		if _, err := p.ledger.Record(e.Name, b); err != nil {
			return err
		}
	}
	return p.recordDoubts()
}

// recordDoubts records at once that a proof was wrong, or that earlier positions are worth nothing: what is said to be proved
// goes by what is recorded.
func (p *pacer) recordDoubts() error {
	p.mu.LockPlan()
	name, space := p.set.endpoint.Name, p.space
	e, is := p.planner.Proofs().Doubted()
	p.mu.Unlock()
	if !is {
		return nil
	}
	_, err := p.ledger.Record(name, Batch{Space: space, Proof: &e})
	return err
}

// polled takes the answer to a position query between two slots. Once the endpoint is believed, that is to be recorded,
// because nothing is said to be proved before.
func (p *pacer) polled(a Answer, text string, sent time.Time, limit time.Duration, executors, more int) (b Batch) {
	p.mu.LockPlan()
	defer p.mu.Unlock()
	now, proofs := p.clock.Now(), p.planner.Proofs()
	if executors != p.proofs.executors || text != p.set.endpoint.PositionQuery() {
		return b
	}
	p.proofs.polled += min(a.Elapsed, limit)
	if a.Outcome == registry.Cut { // the rest of the share was too short, which says nothing about the endpoint
		p.proofs.asked, p.proofs.took = now, a.Elapsed
		return b
	}
	doubted := p.positioned(a, text, sent, now)
	if doubted && proofs.Untrusted() && a.Elapsed+time.Duration(p.set.endpoint.MinGap) <= limit/proof.Burst {
		p.proofs.more = (more + proof.Burst - 1) % proof.Burst
	}
	proofs.Positioned(now, p.proofs.before(p.loopData, now))
	if doubted && !proofs.Untrusted() {
		if e, changed := proofs.Learnt(); changed {
			b.Space, b.Proof = p.space, &e
		}
	}
	return b
}

// pollShare is the part of a budget that may be spent on positions between two slots.
const pollShare = 4

// suspect keeps a result that has changed although it was proved. It is recorded with the answer. The caller holds the
// lock.
func (l *loopData) suspect(out *Outcome, was policy.Stats) {
	proofs := l.planner.Proofs()
	if out.Delta == nil || out.Delta.Baseline || !was.Before.Known() || len(proofs.Endpoint().Suspects) >= maxSuspects ||
		!proofs.WasProved(out.Query, was.Before) {
		return
	}
	proofs.Change(func(e *proof.Endpoint) {
		e.Suspects = append(slices.Clip(e.Suspects), proof.Suspect{Before: was.Before, Wrong: proof.Wrong{
			Query: out.Query, At: out.At, Feed: l.set.endpoint.Feed,
			Was: "removed: " + short(out.Delta.Removed), Now: "added: " + short(out.Delta.Added),
		}})
	})
}

// short shows some rows.
func short(rows diff.Rows) string { return fmt.Sprintf("%.200q", rows[:min(len(rows), 5)]) }

// judge looks at the suspects whose events are all known.
func (l *loopData) judge(now time.Time) {
	proofs := l.planner.Proofs()
	var kept []proof.Suspect
	all := proofs.Endpoint().Suspects
	for _, x := range all {
		switch reached, told := proofs.Reached(x.Query, x.Before, x.At); {
		case reached:
		case !told:
			kept = append(kept, x)
		default:
			l.log.Error("a proof was wrong: a result differs although no event reached its query; nothing is proved for a day",
				"query", x.Query, "feed", x.Feed, "was", x.Was, "now", x.Now)
			proofs.Change(func(e *proof.Endpoint) { e.Off, e.Wrong, e.Suspects = now.Add(proof.OffFor).UTC(), &x.Wrong, nil })
			return
		}
	}
	if len(kept) < len(all) {
		proofs.Change(func(e *proof.Endpoint) { e.Suspects = kept })
	}
}

// Heard makes the loop look at what a feed has told.
func (l *Loop) Heard() { l.pacer.followHint() }

// Heard is Loop.Heard of an endpoint's loop, if it has one here.
func (m *Manager) Heard(endpoint string) {
	if l, err := m.loop(endpoint); err == nil {
		l.Heard()
	}
}
