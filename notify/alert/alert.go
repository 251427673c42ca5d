// Package alert runs alert rules: it evaluates them when results change, stores their
// states, and sends messages about their alerts.
//
// A rule is evaluated over the log of its query by package notify/rule. The state that it
// leaves and the messages about alerts that have fired or are resolved are stored in one
// transaction. A message is deleted after a receiver has accepted it. So a killed process
// loses no alert, and computes none twice: a message that was under way is sent again with
// the same id.
//
// One goroutine, the loop of Engine.Run, evaluates rules. It is woken by commits and reads
// the log afterwards. It holds no lock of a slot, and its transactions are small. A rule
// whose alert waits for time to pass is examined again when that time has come, until an
// answer has confirmed the result.
//
// A receiver of alerts is a subscription of the way registry.Alerts, which the store makes with
// the first message, or this package for alerts that fire already. Package deliver sends its messages in
// order, one request at a time. Each kind of receivers is a file: see kind.
package alert

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
)

// A Store stores rules.
type Store interface {
	// Rules returns all rules.
	Rules() ([]registry.StoredRule, error)
	// Rule returns one rule. It wraps registry.ErrNotFound.
	Rule(id string) (registry.StoredRule, error)
	// Applied returns a rule if this process knows it. In a cluster, Rule asks the other nodes about what is not there.
	Applied(id string) (r registry.StoredRule, is bool, err error)
	// EditRules makes all changes in one durable transaction, or none. An error that wraps
	// registry.ErrReadOnly or ErrAway is temporary, one that is registry.ErrUnusable ends the
	// engine, and any other makes the rules failing that it is about.
	EditRules(*registry.RuleEdit) error
}

// A Queue reads what waits for the receivers of alerts.
type Queue interface {
	// Messages returns at most limit messages to a receiver after a number, oldest first, and fewer if
	// they are large.
	Messages(receiver string, after uint64, limit int) ([]registry.AlertMessage, error)
	// Subscription returns the subscription of a receiver. It wraps registry.ErrNotFound.
	Subscription(id string) (registry.Subscription, error)
}

// Past reads past results.
type Past interface {
	Versions(query string, after uint64, limit int) ([]registry.Version, error)
	StateAt(ctx context.Context, query string, at registry.Position) (*diff.Result, error)
}

// Options of an Engine. All but Resend are required.
type Options struct {
	Store   Store
	Queue   Queue
	Log     notify.Log
	Past    Past
	Waker   *notify.Waker
	Guard   *deliver.Guard
	Query   func(id string) (registry.Query, error)
	Resolve func(c registry.Caller, ref string) (registry.Query, error)
	Caller  func(name string) (registry.Caller, error) // without a role if the name has no token any more

	// Proved returns until when the result of a query is known to be true without an answer, zero if it is not.
	Proved func(query string, at registry.Position) time.Time

	// Halted returns why the results of an endpoint may no longer be true, "" if it keeps them up to date.
	Halted func(endpoint string) string

	// Lease reports whether this process has the lease under which rules are evaluated and edited,
	// and the token of that lease. Reload must be called before Lease reports a
	// new one.
	Lease func() (token uint64, held bool)

	PublicURL string
	Mail      Mail
	PushKey   func() (string, error) // the key that signs messages to browsers
	// Names returns the labels that are known of what a watch at an endpoint shows.
	Names     func(endpoint string, languages []string) watch.Namer
	Logger    *slog.Logger
	Now       func() time.Time
	Machine   func() time.Time // the clock of the machine, also when Now does not go by it
	Resend    time.Duration    // between two messages about a firing alert to Alertmanager; 0: 1 min
	Most      int              // rules in all
	MostEach  int              // rules of one caller
	Bytes     int              // of the states of one caller's rules
	Rows      int              // that may meet a rule's condition at a time
	Receivers int              // of one rule
	Addresses int              // receivers of one caller
}

const (
	pageChanges = 50  // of the log at a time
	pageRules   = 500 // rules in one transaction
	tick        = time.Second
	recheck     = 5 * time.Second // between two looks at a result that is not confirmed yet
	mostWait    = time.Minute     // between two looks at a query with an alert that waits for time to pass
)

// An Engine evaluates rules and decides what receivers are sent. Its methods may be called concurrently.
type Engine struct {
	opts       Options
	follow     *notify.Follower
	deliveries *deliver.Engine

	turn  sync.Mutex // held by each evaluation and by edits of rules
	ahead forward    // guarded by turn

	mu        sync.Mutex // guards what follows
	rules     map[string]*entry
	queries   index
	receivers index                // by the ids of their subscriptions
	due       map[string]time.Time // queries that are to be looked at again
	count     [2]uint64            // evaluations without and with a problem
	work      chan struct{}
	trials    *registry.Places
	moved     atomic.Bool // what is in memory is not what is stored
}

// New returns an engine with all stored rules. Run starts it.
func New(o Options) (*Engine, error) {
	o.Resend = cmp.Or(o.Resend, time.Minute)
	e := &Engine{opts: o, follow: o.Waker.Follow(), rules: map[string]*entry{}, queries: index{}, receivers: index{},
		due: map[string]time.Time{}, work: make(chan struct{}, 1), trials: registry.NewPlaces(mostTrials)}
	e.ahead.note(o.Now())
	return e, Reload(e)
}

// Run evaluates until ctx ends. Its error is registry.ErrUnusable if the store failed.
func (e *Engine) Run(ctx context.Context) (err error) {
	defer e.follow.Close()
	timer := time.NewTicker(tick)
	defer timer.Stop()
	for ctx.Err() == nil && err == nil {
		if e.moved.Swap(false) {
			err = Reload(e)
		}
		if _, held := e.opts.Lease(); held {
			if err = e.evaluate(ctx, e.ripe()); err != nil {
				break
			}
		}
		select {
		case <-ctx.Done():
		case <-e.work:
		case <-timer.C:
			e.join()
		case <-e.follow.C():
			for _, q := range e.follow.Take() {
				e.later(q, time.Time{})
			}
		}
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (e *Engine) signal() {
	select {
	case e.work <- struct{}{}:
	default:
	}
}

// ErrAway is the error of an engine that does not have the lease of rules.
var ErrAway error = &registry.Problem{Kind: registry.KindUnavailable, Detail: "another node of the cluster takes over the " +
	"alert rules: try again in a few seconds"}

// exclusive runs do with the token of the lease, alone. What is in memory was read under that
// lease. It returns ErrAway without the lease.
func (e *Engine) exclusive(do func(token uint64) error) error {
	e.turn.Lock()
	defer e.turn.Unlock()
	token, held := e.opts.Lease()
	if !held {
		return ErrAway
	}
	return do(token)
}
