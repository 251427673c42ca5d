package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
)

// A Manager owns the loops of all endpoints. Its methods may be called
// concurrently. Errors about unknown endpoints and queries wrap
// registry.ErrNotFound.
type Manager struct {
	shared     Config // without Endpoint and Executor
	mu         sync.Mutex
	members    map[string]*member
	leftBehind []*member       // removed, but not ended within the grace period
	ctx        context.Context // of Run, nil before it
	failed     chan error
	ended      bool
}

// A member is an endpoint's loop and the goroutine that runs it.
type member struct {
	loop   *Loop
	cancel context.CancelFunc // nil before Run
	over   chan struct{}
}

// NewManager makes a manager without endpoints. All loops use Ledger, Clock, Wake
// and Logger of the configuration; Endpoint and Executor are ignored.
func NewManager(c Config) *Manager {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	return &Manager{shared: c, members: map[string]*member{}, failed: make(chan error, 1)}
}

// Add adds an endpoint. Its loop starts at once if Run has been called, otherwise
// with Run. The error wraps registry.ErrExists if the name is taken.
func (m *Manager) Add(e registry.Endpoint, x Executor) error {
	return m.AddWith(e, x, m.shared.Ledger)
}

// AddWith is Add for a loop with a ledger of its own. A loop whose ledger returns ErrFenced ends
// alone; its endpoint remains until it is removed.
func (m *Manager) AddWith(e registry.Endpoint, x Executor, ledger Ledger) error {
	c := m.shared
	c.Endpoint, c.Executor, c.Ledger = e, x, ledger
	l, err := NewLoop(c)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return ErrStopped
	}
	if m.members[e.Name] != nil {
		return fmt.Errorf("endpoint %s: %w", e.Name, registry.ErrExists)
	}
	k := &member{loop: l, over: make(chan struct{})}
	m.members[e.Name] = k
	if m.ctx != nil {
		m.start(k)
	}
	return nil
}

// start runs a loop. The caller holds the lock.
func (m *Manager) start(k *member) {
	ctx, cancel := context.WithCancel(m.ctx)
	k.cancel = cancel
	go func() {
		defer close(k.over)
		defer cancel()
		err := k.loop.Run(ctx)
		if errors.Is(err, ErrFenced) { // the node that has the lease goes on
			k.loop.log.Warn("the loop has ended", "reason", err)
			return
		}
		if err != nil {
			select {
			case m.failed <- err:
			default:
			}
		}
	}()
}

// Update changes an endpoint's settings, and its executor unless x is nil. It keeps
// what is known about the queries.
func (m *Manager) Update(e registry.Endpoint, x Executor) error {
	l, err := m.loop(e.Name)
	if err != nil {
		return err
	}
	return l.reconfigure(e, x)
}

// ErrLeftBehind means that a loop did not end in time and may still use the ledger.
var ErrLeftBehind = errors.New("a loop did not end in time and is left behind")

// wait waits for cancelled loops, at most for the grace period, and returns those
// that have not ended.
func (m *Manager) wait(list []*member) (left []*member) {
	grace, cancel := context.WithTimeout(context.Background(), m.shared.Grace)
	defer cancel()
	for _, k := range list {
		select {
		case <-k.over:
		case <-grace.Done():
			if !k.ended() {
				left = append(left, k)
				k.loop.log.Warn(ErrLeftBehind.Error(), "grace", m.shared.Grace)
			}
		}
	}
	return left
}

func (k *member) ended() bool {
	select {
	case <-k.over:
		return true
	default:
		return false
	}
}

// Remove ends an endpoint's loop and cuts its executions. It waits for the loop, at
// most for the grace period.
func (m *Manager) Remove(name string) error {
	m.mu.Lock()
	k := m.members[name]
	delete(m.members, name)
	m.mu.Unlock()
	if k == nil {
		return fmt.Errorf("endpoint %s: %w", name, registry.ErrNotFound)
	}
	if k.cancel == nil { // Run has not been called
		close(k.over)
	} else {
		k.cancel()
		left := m.wait([]*member{k})
		m.mu.Lock()
		m.leftBehind = append(slices.DeleteFunc(m.leftBehind, (*member).ended), left...)
		m.mu.Unlock()
	}
	return nil
}

// Run runs all loops until ctx is cancelled, and then waits until their results are
// recorded. If that takes longer than the grace period, the error wraps
// ErrLeftBehind: the ledger may still be in use. Any other error is the ledger's,
// and the process must end. Run is called once.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.mu.Lock()
	m.ctx = ctx
	for _, k := range m.members {
		m.start(k)
	}
	m.mu.Unlock()
	var err error
	select {
	case err = <-m.failed:
	case <-ctx.Done():
	}
	cancel()
	m.mu.Lock()
	m.ended = true
	rest := slices.Clone(m.leftBehind)
	for _, k := range m.members {
		rest = append(rest, k)
	}
	m.mu.Unlock()
	left := m.wait(rest)
	if err == nil {
		select {
		case err = <-m.failed:
		default:
		}
	}
	if len(left) > 0 {
		if err == nil {
			return ErrLeftBehind
		}
		err = errors.Join(err, ErrLeftBehind)
	}
	return err
}

// AwaitLoaded returns once every loop has read its queries or has ended, or when
// ctx ends. Loops that are added meanwhile are not waited for.
func (m *Manager) AwaitLoaded(ctx context.Context) {
	for _, k := range m.all() {
		select {
		case <-k.loop.up:
		case <-k.over:
		case <-ctx.Done():
			return
		}
	}
}

// Starting counts the loops that run and have not read their queries yet.
func (m *Manager) Starting() (n int) {
	for _, k := range m.all() {
		select {
		case <-k.loop.up:
		default:
			if !k.ended() {
				n++
			}
		}
	}
	return n
}

func (m *Manager) all() []*member {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.members))
}

func (m *Manager) loop(name string) (*Loop, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.members[name]; k != nil {
		return k.loop, nil
	}
	return nil, fmt.Errorf("endpoint %s: %w", name, registry.ErrNotFound)
}

// with calls f with the loop of an endpoint.
func with[T any](m *Manager, endpoint string, f func(*Loop) (T, error)) (T, error) {
	l, err := m.loop(endpoint)
	if err != nil {
		var none T
		return none, err
	}
	return f(l)
}

// Tick runs a slot of the endpoint now; see Loop.Tick.
func (m *Manager) Tick(ctx context.Context, endpoint string) (Slot, error) {
	return with(m, endpoint, func(l *Loop) (Slot, error) { return l.Tick(ctx) })
}

// State reports the state of an endpoint's loop. The error wraps
// registry.ErrNotFound while the loop is starting, because its queries, health and
// debt are not known yet.
func (m *Manager) State(endpoint string) (LoopState, error) {
	return with(m, endpoint, func(l *Loop) (LoopState, error) {
		if !isUp(l.loopData) {
			return LoopState{}, fmt.Errorf("endpoint %s is starting: %w", endpoint, registry.ErrNotFound)
		}
		return l.State(), nil
	})
}

// Answers is Loop.Answers for an endpoint's loop.
func (m *Manager) Answers(endpoint string) {
	if l, err := m.loop(endpoint); err == nil {
		l.Answers()
	}
}

// Trial executes a query once at its endpoint; see Loop.Trial.
func (m *Manager) Trial(ctx context.Context, q *registry.Query) (Answer, error) {
	return with(m, q.Endpoint, func(l *Loop) (Answer, error) { return l.Trial(ctx, q) })
}

// Explain explains a query's place in its endpoint's plan; see Loop.Explain.
func (m *Manager) Explain(endpoint, query string) (Explanation, error) {
	return with(m, endpoint, func(l *Loop) (Explanation, error) { return l.Explain(query) })
}

// Templates describes how the queries of an endpoint are asked; see Loop.Templates.
func (m *Manager) Templates(endpoint string) ([]cohort.Snapshot, error) {
	return with(m, endpoint, func(l *Loop) ([]cohort.Snapshot, error) { return l.Templates(), nil })
}

// Asked returns the requests of an endpoint since the start.
func (m *Manager) Asked(endpoint string) (Asked, error) {
	return with(m, endpoint, func(l *Loop) (Asked, error) { return l.Asked(), nil })
}

// InForce returns the current settings of an endpoint, including defaults, and the
// policy that orders its ranked queries.
func (m *Manager) InForce(endpoint string) (registry.Endpoint, policy.Policy, error) {
	l, err := m.loop(endpoint)
	if err != nil {
		return registry.Endpoint{}, nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.set.endpoint.WithDefaults(), l.set.policy, nil
}

// InForce returns the settings with which a loop of an endpoint runs, including defaults, and the
// policy that orders its ranked queries.
func InForce(e registry.Endpoint) (registry.Endpoint, policy.Policy, error) {
	s, err := read(e)
	return s.endpoint, s.policy, err
}

// Due is Loop.Due of an endpoint; all zero when it has no loop.
func (m *Manager) Due(endpoint string, queries []string) ([]time.Time, error) {
	m.mu.Lock()
	var l *Loop
	if k := m.members[endpoint]; k != nil {
		l = k.loop
	}
	m.mu.Unlock()
	if l == nil {
		return make([]time.Time, len(queries)), nil
	}
	return l.Due(queries)
}

// NextRound is Loop.NextRound of the profile's endpoint.
func (m *Manager) NextRound(p registry.Profile) time.Time {
	l, err := m.loop(p.Endpoint)
	if err != nil {
		return time.Time{}
	}
	return l.NextRound(p)
}

// Hint is Loop.Hint for an endpoint's loop.
func (m *Manager) Hint(endpoint string, h registry.Hint) (plan.Hinted, error) {
	return with(m, endpoint, func(l *Loop) (plan.Hinted, error) { return l.Hint(h) })
}
