package plan

import (
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/proof"
)

// proofs are what a feed tells about an endpoint's queries. A proved query is not due under any
// policy. A query that an event matched is armed: it is asked until an answer is known to include
// the event. Where the endpoint tells its position, that is when the position says so: until then
// its data are those for which the result was proved, so the query is not due either. Elsewhere, and
// where several servers answer, it is asked at growing gaps, by what was learnt about the endpoint's lag. Hints by hand arm
// queries in the second way, from the time of their arrival.
//
// Every hundredth execution that a proof saves is made all the same, as an audit.
type proofs struct {
	view       *proof.View // nil if the endpoint has no feed
	told       bool        // it tells its position, and no other server answers for it
	lag        time.Duration
	refusal    string  // of the view, when the queries were last placed
	list       []*item // proved ones, in no order
	armed      map[*item]time.Time
	saved      float64 // executions that proofs have saved since the last audit
	unrecorded bool    // view.Endpoint has to be recorded
	doubted    bool    // at once, because earlier answers prove less than they did
	// position is the endpoint's, as it told it last, and pending are the queries that an event reached, or
	// that a gap concerns, since their answers.
	position feed.Before
	toldAt   time.Time
	movedAt  time.Time // when it was another one last
	pending  map[*item]struct{}
	// hintedAll is when the last hint by hand came that may concern any query.
	hintedAll time.Time
}

// Proofs is the part of a Planner that a feed concerns.
type Proofs struct{ *Planner }

// Proofs returns the part that a feed concerns.
func (p *Planner) Proofs() Proofs { return Proofs{p} }

// auditShare is how many executions are saved for one that is an audit.
const auditShare = 100

// Set sets what proofs depend on: view, nil if the endpoint has no feed; whether it tells
// its position; and by how much its data lag behind at most, 0 if hints do not arm queries.
func (p Proofs) Set(view *proof.View, told bool, lag time.Duration) {
	was, before, decided := p.view, p.refusal, p.told
	p.view, p.told, p.lag, p.refusal = view, told && !view.Several(), lag, ""
	if view == nil && was == nil {
		return
	}
	if view != nil {
		p.refusal = view.Refusal()
	}
	if was == nil || view == nil || before != p.refusal || was.Feed.Base != view.Feed.Base ||
		was.Feed.Any.Reached != view.Feed.Any.Reached || was.Feed.Mixed != view.Feed.Mixed ||
		was.Feed.Disorder != view.Feed.Disorder || decided != p.told ||
		was.Told(feed.Place{Offset: 1}) != view.Told(feed.Place{Offset: 1}) {
		p.placeAgain()
	}
}

// await notes whether a query waits for the endpoint's position to include an event.
func (p *queues) await(c *item) {
	if p.view == nil || !p.told || c.touch == nil || !p.view.Knows(c.Stats.Before) || p.view.Settled(*c.touch, c.Stats.Before) {
		delete(p.pending, c)
		return
	}
	if p.pending == nil {
		p.pending = map[*item]struct{}{}
	}
	p.pending[c] = struct{}{}
}

// lacks reports whether the data at a position of the endpoint lack all that may have changed a result since its
// answer.
func (p *queues) lacks(c *item, at feed.Before) bool {
	if !p.view.Knows(at) {
		return false
	}
	first, ok := p.view.Until(*c.touch, c.Stats.Before)
	stands := !at.Time.IsZero() && p.now.Sub(p.movedAt) >= standsAfter && (at.Time.Equal(first.Time) || p.now.Sub(first.Time) > p.lag)
	return ok && p.view.Lacks(at, first) && !stands
}

// standsAfter is how long a position that is a time has to stay that of an event, or an earlier one longer than the data are
// behind, before queries are asked that the event reached: the data may include it, and no later event comes to show that.
// Some feeds tell later times than endpoints do. Most positions move on before.
const standsAfter = 5 * time.Second

// placeAgain places all queries again, because other ones may be proved.
func (p Proofs) placeAgain() {
	for _, c := range p.order {
		if c.touch != nil || c.provedAt > 0 {
			p.lift(c)
			p.settle(c)
		}
		p.arm(c)
		p.await(c)
	}
}

// Touched adds what events have told about queries.
func (p Proofs) Touched(touches map[string]proof.Touch) {
	for id, t := range touches {
		c := p.all[id]
		if c == nil {
			continue
		}
		p.touchQuery(c, &t)
	}
}

// touchQuery sets which events reached a query.
func (p Proofs) touchQuery(c *item, t *proof.Touch) {
	c.touch = t
	p.await(c)
	if c.provedAt > 0 || c.in == &p.ranked {
		p.lift(c)
		p.settle(c)
	}
	p.arm(c)
}

// Watch looks at what the time changes about proofs: a feed can be silent for too long.
func (p Proofs) Watch(now time.Time) {
	if p.view == nil {
		return
	}
	p.view.Now = now
	if p.position != (feed.Before{}) && now.Sub(p.toldAt) > positionHolds {
		p.position = feed.Before{}
		p.placePending()
	}
	if r := p.view.Refusal(); r != p.refusal {
		p.refusal = r
		p.placeAgain()
	}
}

// positionHolds is how long the endpoint's data are believed to lack an event that they lacked.
const positionHolds = 30 * time.Second

// placePending places the queries again that wait for the position. Those that are in a list stay there: a Ranker has put
// them into the order of a slot that may have begun.
func (p Proofs) placePending() {
	for c := range p.pending {
		if !c.ran && c.planned && c.in == nil {
			p.lift(c)
			p.settle(c)
		}
	}
}

// stale reports whether the feed ends too early for a query's max_staleness, and otherwise when it will.
func (p *queues) stale(c *item) (is bool, from time.Time) {
	d := c.Query.MaxStaleness()
	if d == 0 || p.view == nil {
		return false, from
	}
	from = p.view.Feed.Complete().Add(d)
	return !from.After(p.now), from
}

// proves reports whether a query need not be asked because of a feed.
func (p *queues) proves(c *item) bool {
	if p.view == nil || c.touch == nil || c.audit || c.byHand() || c.Stats.Executions == 0 || p.refusal != "" {
		return false
	}
	if is, _ := p.stale(c); is {
		return false
	}
	if p.view.Holds(*c.touch, c.Stats.Before) {
		return true
	}
	return p.told && p.lacks(c, p.position)
}

// byHand reports whether somebody says that a query may have changed, whatever the feed says. Then it is asked
// although it is proved.
func (c *item) byHand() bool { return c.doubted || !c.hinted.IsZero() }

// cause is why a query is asked although the endpoint has a feed, one of the causes of proof, empty if it has none.
func (p *queues) cause(c *item) string {
	switch {
	case p.view == nil:
		return ""
	case c.Stats.Executions == 0:
		return proof.First
	case c.audit:
		return proof.Audit
	case c.asked > c.Stats.Served:
		return proof.Refresh
	case c.touch == nil:
		return proof.Open
	}
	if cause := p.view.Cause(*c.touch, c.Stats.Before); cause != "" {
		return cause
	}
	if c.byHand() {
		return proof.Hinted
	}
	return proof.Staleness
}

// noteProved adds a query to the list of proved ones, or removes it.
func (p *proofs) noteProved(c *item, is bool) {
	switch {
	case is && c.provedAt == 0:
		p.list = append(p.list, c)
		c.provedAt = int32(len(p.list))
	case !is && c.provedAt > 0:
		last := p.list[len(p.list)-1]
		p.list[c.provedAt-1], last.provedAt = last, c.provedAt
		p.list[len(p.list)-1], p.list = nil, p.list[:len(p.list)-1]
		c.provedAt = 0
	}
}

// Proved counts the queries that need not be asked because of a feed.
func (p Proofs) Proved() int { return len(p.list) }

// isArmed reports whether an event, or a hint, matched a query that no answer is known to include.
// event is when it was published, or the hint arrived.
func (p *queues) isArmed(c *item) (event time.Time, armed bool) {
	if !c.hinted.IsZero() {
		if r := &c.Stats.LastRun; c.Stats.Executions > 0 && r.Outcome.Complete() && !r.At.Add(-r.Elapsed-p.lag).Before(c.hinted) {
			c.hinted = time.Time{}
		} else {
			event, armed = c.hinted, true
		}
	}
	if p.matched(c) && c.touch.Matched.Time.After(event) {
		event, armed = c.touch.Matched.Time, true
	}
	return event, armed
}

// matched reports whether an event matched a query that no answer is known to include.
func (p *queues) matched(c *item) bool {
	return p.view != nil && c.touch != nil && c.touch.Feed == p.view.Name && c.Stats.Executions > 0 && p.view.Armed(*c.touch, c.Stats.Before)
}

// arm notes when a query is asked next because an event matched it. One that is no longer armed is
// forgotten.
func (p *queues) arm(c *item) {
	event, armed := p.isArmed(c)
	if !armed {
		delete(p.armed, c)
		return
	}
	if c.unsettled.IsZero() {
		c.unsettled = event
	}
	if p.told && c.hinted.IsZero() && p.view.Knows(c.Stats.Before) { // the position decides
		delete(p.armed, c)
		return
	}
	at := p.endpointProofs().Wait(event, p.now, p.lag)
	if inFuture(event, p.now) { // the clock was set back
		at = p.now.Add(p.lag / 4)
	}
	if was, ok := p.armed[c]; ok && was.After(p.now) && was.Before(at) {
		at = was
	}
	if p.armed == nil {
		p.armed = map[*item]time.Time{}
	}
	p.armed[c] = at
}

func (p *queues) endpointProofs() *proof.Endpoint {
	if p.view == nil {
		return &proof.Endpoint{}
	}
	return &p.view.Endpoint
}

// forget removes what is known about a query that is removed.
func (p *proofs) forget(c *item) {
	p.noteProved(c, false)
	delete(p.armed, c)
	delete(p.pending, c)
}

// AwaitsPosition reports whether a query is to be asked once the endpoint's position includes an event.
func (p Proofs) AwaitsPosition() bool {
	switch {
	case p.view == nil || !p.told:
		return false
	case p.view.Untrusted():
		return len(p.order) > 0
	case p.refusal != "":
		return false
	}
	for c := range p.pending {
		waits := c.planned && (c.why == proved || c.why == notDue || c.why == eligible)
		first, ok := p.view.Until(*c.touch, c.Stats.Before)
		if waits && ok && first != (feed.Place{}) && !p.view.Includes(p.position, first) {
			return true
		}
	}
	return false
}

// NextArmed returns when the next query is to be asked because of an event or a hint, zero if none
// waits for a time.
func (p Proofs) NextArmed() (next time.Time) {
	for _, at := range p.armed {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// Positioned tells the endpoint's position. Queries that an event reached which it includes are due,
// and marked if the event matched them.
func (p Proofs) Positioned(now time.Time, before feed.Before) {
	if before.Place != p.position.Place {
		p.movedAt = now
	}
	p.now, p.position, p.toldAt = now.Round(0), before, now
	if p.view == nil || !p.view.Knows(before) {
		p.placePending()
		return
	}
	for c := range p.pending {
		if p.lacks(c, before) {
			if !c.ran && c.planned && c.provedAt == 0 { // the position was not known for a while
				p.lift(c)
				p.settle(c)
			}
			continue
		}
		if !c.ran && c.in == nil { // as in placePending
			p.lift(c)
			p.settle(c)
		}
		if p.matched(c) && !p.askedInVain(c) {
			p.ownHints().mark(c, &p.roster)
		}
	}
	p.applyHints()
}

// Wake marks the armed queries whose time has come.
func (p Proofs) Wake(now time.Time) {
	p.now = now.Round(0)
	for c, at := range p.armed {
		switch {
		case !c.planned:
			delete(p.armed, c)
			continue
		case inFuture(at, now.Add(p.lag)): // the clock was set back
			delete(p.armed, c)
			p.arm(c)
			continue
		case at.After(now):
			continue
		default:
			p.armed[c] = now.Add(p.wakeAgain()) // unless it is asked before
		}
		if !p.askedInVain(c) {
			p.ownHints().mark(c, &p.roster)
		}
	}
}

// askedInVain reports whether a query was asked since the last slot began while an event had matched it, and had not
// changed: then it waits for its turn in the next one, or until lag has passed and the answer is known to include
// the event. So a query that is matched all the time is asked as often as polling asks it, or once in lag, until it
// changes. Where slots are rarer than lag, it is asked up to four times in lag. Where the endpoint tells no
// position, its turn in a slot was perhaps too early, and does not count. An answer
// from before a hint says nothing about that.
func (p *queues) askedInVain(c *item) bool {
	r := &c.Stats.LastRun
	early := r.At.Add(p.vainFor()).After(p.now) && !inFuture(r.At, p.now) && !r.At.Before(c.hinted)
	atOnce := r.Why == TierOffGrid || r.Why == TierHinted
	return c.vain && (p.told || atOnce) && r.Slot+1 >= p.slot && early
}

// vainFor is how long a query is not asked again at most that was asked in vain.
func (p *queues) vainFor() time.Duration {
	if p.lead > p.lag { // the next slot is too far
		return p.lag / 4
	}
	return p.lag
}

// wakeAgain is the time after which an armed query is looked at again that was not asked.
func (p *queues) wakeAgain() time.Duration { return max(p.lag/4, time.Second) }

// recordAnswer looks at a query whose answer is complete: whether it is still armed, and after which
// time an event has shown.
func (p Proofs) recordAnswer(c *item, changed, wasArmed bool, event, asked time.Time) {
	c.audit, c.doubted, c.vain = false, false, wasArmed && !changed
	if c.touch != nil {
		p.await(c)
	}
	if r := &c.Stats.LastRun; p.lag > 0 && c.hinted.IsZero() && r.At.Add(-r.Elapsed-p.lag).Before(p.hintedAll) {
		c.hinted = p.hintedAll
		p.arm(c)
	}
	if wasArmed && changed && p.view != nil && asked.After(event) {
		p.view.Endpoint.Learn(asked.Sub(event))
		p.unrecorded = true
	}
	if wasArmed || len(p.armed) > 0 {
		p.arm(c)
	}
	p.show(c, changed)
}

// show notes what an answer shows about the events and hints since c.unsettled, which count once.
func (p *queues) show(c *item, changed bool) {
	switch {
	case !changed && (c.Shown == policy.ShownTrue || c.Shown == policy.ShownLate): // by an earlier answer of the slot
	case c.shown || c.heard && !changed:
		c.Shown = policy.ShownAgain
	case !changed:
		c.Shown = 0
	case c.heard:
		c.Shown = policy.ShownLate
	default:
		c.Shown = policy.ShownTrue
	}
	c.shown = c.shown || changed
	event, armed := p.isArmed(c)
	if r := &c.Stats.LastRun; !armed || !r.At.Add(-r.Elapsed-p.lag).Before(c.unsettled) {
		c.unsettled, c.shown, c.heard = event, false, false
	}
}

// Learnt says whether what is known about proofs has to be recorded, and returns it.
func (p Proofs) Learnt() (e proof.Endpoint, changed bool) {
	if p.view == nil || !p.unrecorded {
		return proof.Endpoint{}, false
	}
	p.unrecorded, p.doubted = false, false
	return p.view.Endpoint, true
}

// Doubted is Learnt for what has to be recorded at once.
func (p Proofs) Doubted() (e proof.Endpoint, is bool) {
	if !p.doubted {
		return proof.Endpoint{}, false
	}
	return p.Learnt()
}

// Change changes what is known about proofs at the endpoint.
func (p Proofs) Change(change func(*proof.Endpoint)) {
	if p.view == nil {
		return
	}
	was, decided := p.view.Endpoint, p.told
	p.view.Change(change)
	p.unrecorded = true
	p.doubted = p.doubted || was.Rebuilt != p.view.Endpoint.Rebuilt || !was.Off.Equal(p.view.Endpoint.Off)
	p.told = p.told && !p.view.Several()
	if r := p.view.Refusal(); r != p.refusal || decided != p.told || was.Rebuilt != p.view.Endpoint.Rebuilt {
		p.refusal = r
		p.placeAgain()
	}
}

// Untrusted reports whether the endpoint has to tell its position more often before it is believed.
func (p Proofs) Untrusted() bool { return p.view != nil && p.view.Untrusted() }

// Tell counts a position that the endpoint has told.
func (p Proofs) Tell() {
	if p.view == nil || !p.view.Untrusted() {
		return
	}
	p.view.Tell(1)
	p.unrecorded = true
	if r := p.view.Refusal(); r != p.refusal {
		p.refusal = r
		p.placeAgain()
	}
}

// auditProved makes proved queries run in the slot that begins, one for a hundred executions that
// proofs save: those whose results were checked longest ago.
func (p Proofs) auditProved() {
	if len(p.list) == 0 {
		return
	}
	var cost time.Duration
	for _, c := range p.list[:min(len(p.list), 64)] {
		cost += c.Estimate
	}
	saves := float64(len(p.list))
	if mean := cost / time.Duration(min(len(p.list), 64)); mean > 0 {
		saves = min(saves, float64(p.budget)/float64(mean))
	}
	for p.saved += saves; p.saved >= auditShare && len(p.list) > 0; p.saved -= auditShare {
		c := slices.MinFunc(p.list, func(a, b *item) int { return a.Stats.CheckedAt.Compare(b.Stats.CheckedAt) })
		c.audit = true
		p.lift(c)
		p.settle(c)
		p.ownHints().marked[c] = struct{}{}
	}
}

// Untouched forgets what events have told about a query.
func (p Proofs) Untouched(query string) {
	if c := p.all[query]; c != nil && c.touch != nil {
		c.touch = nil
		p.await(c)
		p.lift(c)
		p.settle(c)
		p.arm(c)
	}
}

// Hint marks the queries that a hint may affect, which arrives at a time. Where the endpoint's data may lag behind, the
// queries are asked again until an answer is known to be later than the hint by that lag.
func (p Proofs) Hint(h registry.Hint, now time.Time) Hinted {
	p.now = now.Round(0)
	done, affected := p.hint(h)
	if p.lag == 0 {
		return done
	}
	if affected == nil {
		p.hintedAll = now
		for _, c := range slices.Clone(p.list) {
			c.doubted = true
			p.lift(c)
			p.settle(c)
		}
	}
	for c := range affected {
		if p.lag <= proof.Soon { // when it has passed
			delete(p.ownHints().marked, c)
		}
		if c.hinted = now; c.provedAt > 0 {
			p.lift(c)
			p.settle(c)
		}
		p.arm(c)
	}
	return done
}

// Told is View.Told, and Assumed is View.Assumed. They are zero without a feed.
func (p Proofs) Told(at feed.Place) feed.Before {
	if p.view == nil {
		return feed.Before{}
	}
	return p.view.Told(at)
}

// Assumed is the position of an endpoint that tells none.
func (p Proofs) Assumed(now time.Time, lag time.Duration) feed.Before {
	if p.view == nil {
		return feed.Before{}
	}
	return p.view.Assumed(now, lag)
}

// Sent reports whether the feed has no positions.
func (p Proofs) Sent() bool { return p.view != nil && p.view.Sent() }

// Dated is View.Dated, and true without a feed.
func (p Proofs) Dated() bool { return p.view == nil || p.view.Dated() }

// Exist reports whether the endpoint has a feed.
func (p Proofs) Exist() bool { return p.view != nil }

// Endpoint returns what is known about proofs at the endpoint.
func (p Proofs) Endpoint() proof.Endpoint { return *p.endpointProofs() }

// WasProved reports whether the result of an answer was proved until now.
func (p Proofs) WasProved(query string, before feed.Before) bool {
	c := p.all[query]
	return c != nil && c.touch != nil && p.view != nil && p.refusal == "" && p.view.Holds(*c.touch, before)
}

// Reached reports whether an event reached a query after an answer, or may have. told reports whether
// the feed has brought all events until a time.
func (p Proofs) Reached(query string, before feed.Before, until time.Time) (reached, told bool) {
	c := p.all[query]
	if c == nil || c.touch == nil || p.view == nil {
		return true, true
	}
	return !p.view.Settled(*c.touch, before), p.refusal == "" && p.view.HeardUntil(until)
}

// Spend charges a slot for a request that is no execution of a query.
func (s *SlotBudget) Spend(d time.Duration) { s.used += max(0, min(d, s.budget-s.used)) }

// Edits returns the edits that matched a query and that an answer is not known to include.
func (p Proofs) Edits(query string, before feed.Before) []feed.Edit {
	c := p.all[query]
	if c == nil || c.touch == nil || p.view == nil || c.touch.Feed != p.view.Name {
		return nil
	}
	return p.view.Edits(*c.touch, before)
}
