// Package cluster decides which node of a cluster does what only one node may do: ask an
// endpoint, or call the callbacks of a shard.
//
// Every node knows all members and all leases, because they are part of the store that the nodes
// share. For each key, rendezvous hashing names the node that should have its lease among those
// that live, so all nodes agree without a vote, and a node that joins or leaves moves only its
// own keys. A node takes a lease that is free or whose owner is gone, and gives one back that
// another node should have.
//
// # Time
//
// A node sends a heartbeat every third of the TTL: a command in the journal. It works under its leases
// only until two thirds of the TTL after it sent the last one that was applied. Another node takes a
// lease after it has seen no heartbeat of its owner for the whole TTL. It saw the last one after the
// owner had sent it, so the owner has stopped by then. Each node measures by its own monotonic clock,
// and no two clocks are compared. As that clock does not advance while a machine is suspended, the
// owner adds the time of the suspension. Where the system does not report that, the owner also stops
// when so much time has passed by the wall clock.
//
// A hypervisor that pauses a machine may stop all its clocks. The owner cannot know that. After the
// machine has resumed, it works until it has applied that others took its leases, or until two thirds
// of the TTL have passed by its own clock. Meanwhile two nodes may ask an endpoint.
//
// The last requests of an owner that is gone may still run at an endpoint. The next owner waits
// until they have timed out (Config.Linger). If the timeout of the endpoint was made shorter
// meanwhile, or the endpoint was removed and made again, the lease says how long that takes.
//
// While the journal takes nothing, all nodes are silent. So a node whose own heartbeats were not
// applied for long waits for those of the others, a tenth of the TTL, before it takes a lease of
// theirs.
//
// A node that comes back after it was killed does not know how long its earlier session has been
// silent. The node that comes next in the order does. It takes the lease when that session has been
// silent for the TTL, and gives it to the node that came back.
//
// What an owner writes has the token of its lease and is refused once the lease has another one
// (see package store). So even an owner that was stopped for long, and does not know yet that it
// lost its lease, changes nothing.
//
// # Sources
//
// Rendezvous hashing is from D. Thaler and C. Ravishankar, "Using name-based mappings to increase
// hit rates" (IEEE/ACM Transactions on Networking, 1998). Leases are from C. Gray and D. Cheriton,
// "Leases: an efficient fault-tolerant mechanism for distributed file cache consistency" (SOSP,
// 1989).
package cluster

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/store"
)

// A Config configures a Keeper.
type Config struct {
	Leases *store.LeaseStore
	Node   registry.Node // its name, its role, its API and its TTL
	// Keys returns the keys of all leases that there should be.
	Keys func() ([]string, error)
	// Work does what a lease allows until ctx ends. The lease is given back after it has returned.
	Work func(ctx context.Context, h *Hold)
	// Linger is how long requests of an owner that is gone may still run. That of a lease counts if it
	// is longer.
	Linger func(key string) time.Duration
	// Report sets what this node reports with each heartbeat: Applied, Fenced and Files.
	Report func(*registry.Node)
	Logger *slog.Logger
	// Now reads the clock of the machine, which may be set at any time.
	Now func() time.Time
	// Asleep returns how long the machine has been suspended since it was started, and whether the system reports that.
	Asleep func() (asleep time.Duration, known bool)
}

// A Hold is a lease that this node has.
type Hold struct {
	store.Lease
	keeper *Keeper
	ctx    context.Context // of the work
	begun  atomic.Bool
}

// Valid reports whether work may begin now.
func (h *Hold) Valid() bool { return h.ctx.Err() == nil && h.keeper.Valid() }

// Begin says that the work is prepared, so that Held returns h until the work ends.
func (h *Hold) Begin() { h.begun.Store(true) }

// A Keeper takes and keeps the leases of one node.
type Keeper struct {
	conf      Config
	node      registry.Node
	ttl       time.Duration
	heartbeat atomic.Pointer[timestamp] // when the last heartbeat that was applied was sent
	trip      atomic.Int64              // how long it took until that one was applied, in nanoseconds
	overdue   atomic.Pointer[timestamp] // when the first one after it was sent; nil if there is none
	takeovers atomic.Uint64

	mu   sync.Mutex
	seen map[string]lastHeartbeat // by session
	work map[string]*work         // by key; only the goroutine of Run changes it

	// The goroutine of Run uses these alone.
	earliest map[string]time.Time // when work under a lease that was taken over may begin
	given    map[string]uint64    // tokens of leases that may be given back at any time
	proposed chan struct{}        // closed when the last proposal is settled; nil if there is none
	differs  map[string]string    // by node: what was logged about its settings
	workers  []string             // who may own something, as of the last turn
	lapsed   bool                 // Valid was false at the last turn
	patient  time.Time            // until then the silence of other nodes does not count
}

// A lastHeartbeat is the number of the last heartbeat of a session, and when this node saw it.
type lastHeartbeat struct {
	beats uint64
	at    time.Time
}

// A work is what runs under a lease.
type work struct {
	hold   *Hold
	cancel context.CancelFunc
	done   chan struct{}
}

// New returns a keeper. Run makes it join the cluster.
func New(c Config) *Keeper {
	k := &Keeper{conf: c, node: c.Node, ttl: time.Duration(c.Node.TTL), seen: map[string]lastHeartbeat{}, work: map[string]*work{},
		earliest: map[string]time.Time{}, given: map[string]uint64{}, differs: map[string]string{}}
	k.node.Session = rand.Text()
	return k
}

// A timestamp is a time by the monotonic clock, with how long the machine had been suspended by then. Where the system does not
// report that, it is the time by the wall clock, too.
type timestamp struct {
	at, wall time.Time
	asleep   time.Duration
}

func (k *Keeper) now() *timestamp {
	at := k.conf.Now()
	asleep, known := k.conf.Asleep()
	if known {
		return &timestamp{at: at, asleep: asleep}
	}
	return &timestamp{at: at, wall: at.Round(0)}
}

// age returns the time since a timestamp. The monotonic clock does not advance while the machine is
// suspended. If only the wall clock shows that, the larger of the two times counts.
func (k *Keeper) age(t *timestamp) time.Duration {
	now := k.now()
	return max(now.at.Sub(t.at)+now.asleep-t.asleep, now.wall.Sub(t.wall))
}

// Valid reports whether this node may work under its leases now.
func (k *Keeper) Valid() bool {
	sent := k.heartbeat.Load()
	return sent != nil && k.age(sent) < k.ttl*2/3
}

// ErrCut means that a node must not be asked, because it is cut off from the journal or lags
// behind it.
var ErrCut = errors.New("cut off from the journal, or behind it")

// Bounds on heartbeats for Ready.
const (
	mostPause  = 5 * time.Second // between two
	mostBehind = 5 * time.Second // until one is applied
)

// Ready returns an error that wraps ErrCut if this node has not applied what the journal contained
// five seconds ago, as far as its heartbeats show that. It notices that within ten seconds.
func (k *Keeper) Ready() error {
	switch late := k.overdue.Load(); {
	case k.heartbeat.Load() == nil:
		return fmt.Errorf("%w: it has not joined the cluster yet", ErrCut)
	case late != nil && k.age(late) > mostBehind:
		return fmt.Errorf("%w for %v", ErrCut, k.age(late).Round(time.Second))
	case !k.Valid():
		return fmt.Errorf("%w: its leases have run out", ErrCut)
	case time.Duration(k.trip.Load()) > mostBehind:
		return fmt.Errorf("%w by %v", ErrCut, time.Duration(k.trip.Load()).Round(time.Second))
	}
	return nil
}

// Held returns the lease of a key under which this node works now, nil if there is none.
func (k *Keeper) Held(key string) *Hold {
	k.mu.Lock()
	defer k.mu.Unlock()
	if w := k.work[key]; w != nil && w.hold.begun.Load() && w.hold.ctx.Err() == nil {
		return w.hold
	}
	return nil
}

// Takeovers returns how many leases this node has taken from nodes that were gone.
func (k *Keeper) Takeovers() uint64 { return k.takeovers.Load() }

// Session returns the session of this process. Only members know it.
func (k *Keeper) Session() string { return k.node.Session }

// Run joins the cluster and keeps leases until ctx ends. Then it ends all work, gives all leases
// back and leaves. Its error means that another process uses the name of this node.
func (k *Keeper) Run(ctx context.Context) error {
	beats := make(chan error, 1)
	beating, stop := context.WithCancel(ctx)
	defer stop()
	go func() { beats <- k.live(beating) }()
	timer := time.NewTicker(k.ttl / 20)
	defer timer.Stop()
	for changed := true; ; {
		if err := k.turn(ctx, changed); err != nil {
			k.conf.Logger.Warn("the leases cannot be read", "error", err)
		}
		changed = false
		select {
		case <-timer.C:
		case <-k.conf.Leases.Changed():
			changed = true
		case err := <-beats:
			stop()
			k.leave()
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// live joins and sends heartbeats until ctx ends.
func (k *Keeper) live(ctx context.Context) error {
	do, silent, files := k.conf.Leases.Join, false, ""
	for {
		n, sent, pause := k.report(), k.now(), min(k.ttl/3, mostPause)
		reported := n.Files
		if n.Files == files {
			n.Files = ""
		}
		k.overdue.CompareAndSwap(nil, sent)
		switch err := do(n); {
		case errors.Is(err, scheduler.ErrFenced):
			return err
		case err != nil:
			if !silent {
				k.conf.Logger.Warn("the journal does not take heartbeats of this node", "error", err)
			}
			pause, silent = k.ttl/20, true
		default:
			if silent {
				k.conf.Logger.Info("the journal takes heartbeats of this node again")
			}
			if !k.Valid() {
				k.endLost()
			}
			k.heartbeat.Store(sent)
			k.trip.Store(int64(k.age(sent)))
			k.overdue.Store(nil)
			do, silent, files = k.conf.Leases.Beat, false, reported
			pause -= k.age(sent) // one that was applied late has run out, or runs out soon
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// endLost ends the work under leases that others have taken while those of this node had run out. The goroutine of Run
// may do that later than the leases count again.
func (k *Keeper) endLost() {
	_, leases, err := k.conf.Leases.Nodes()
	if err != nil {
		k.conf.Logger.Warn("the leases cannot be read", "error", err)
	}
	tokens := map[string]uint64{}
	for _, l := range leases {
		tokens[l.Key] = l.Token
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, w := range k.work {
		if err != nil || tokens[key] != w.hold.Token {
			w.cancel()
		}
	}
}

// report returns this node with what it reports.
func (k *Keeper) report() registry.Node {
	n := k.node
	n.Takeovers = k.takeovers.Load()
	k.conf.Report(&n)
	return n
}

// turn compares what this node has with what it should have. changed is whether nodes or leases have changed.
func (k *Keeper) turn(ctx context.Context, changed bool) error {
	if !k.Valid() {
		for _, w := range k.work {
			w.cancel()
		}
		k.forget()
		k.lapsed = true
		return nil
	}
	if k.lapsed {
		k.lapsed, k.patient = false, k.conf.Now().Add(k.ttl/10)
	}
	nodes, leases, now, err := k.look()
	if err != nil {
		return err
	}
	keys, err := k.conf.Keys()
	if err != nil {
		return err
	}
	if changed {
		k.compare(nodes, now)
	}
	v := view{nodes: nodes, of: map[string]store.Lease{}, wanted: map[string]bool{}, now: now}
	for _, l := range leases {
		v.of[l.Key] = l
	}
	for _, key := range keys {
		v.wanted[key] = true
	}
	k.workers = k.owning(nodes, now)
	k.forget()
	for key, w := range k.work { // of keys that are gone, too
		if v.of[key].Token != w.hold.Token || !v.wanted[key] {
			w.cancel()
		}
	}
	for _, l := range leases {
		k.unwanted(&v, l)
	}
	for _, key := range keys {
		k.decide(ctx, &v, key)
	}
	k.propose(v.claims, v.free, v.of)
	return nil
}

// A view is what a turn sees, and what it proposes.
type view struct {
	nodes  []registry.Node
	of     map[string]store.Lease // by key
	wanted map[string]bool        // keys
	now    time.Time
	claims []store.Claim
	free   []store.Lease
}

// claim proposes to take a lease whose owner was judged to be gone after a number of heartbeats.
func (v *view) claim(l store.Lease, beats uint64) {
	v.claims = append(v.claims, store.Claim{Key: l.Key, Token: l.Token, Beats: beats})
}

// idle reports whether nothing runs under a lease of this node, and the next owner would not wait.
func (k *Keeper) idle(v *view, key string) bool {
	return k.work[key] == nil && !v.now.Before(k.earliest[key])
}

// unwanted gives back the lease of an endpoint that was removed, when no request runs.
func (k *Keeper) unwanted(v *view, l store.Lease) {
	switch {
	case !strings.HasPrefix(l.Key, store.EndpointLease("")) || l.Session == "" || v.wanted[l.Key]:
	case l.Session == k.node.Session:
		if k.idle(v, l.Key) {
			v.free = append(v.free, l)
		}
	case Owner(l.Key, k.workers) == k.node.Name:
		if beats, gone := k.gone(l, v.nodes, v.now.Add(-l.Linger)); gone {
			v.claim(l, beats)
		}
	}
}

// decide begins or ends the work of a key, or proposes to take or to give back its lease.
func (k *Keeper) decide(ctx context.Context, v *view, key string) {
	l, best := v.of[key], Owner(key, k.workers)
	l.Key = key
	switch {
	case l.Session == k.node.Session && k.given[key] == l.Token: // the outcome is not known yet
		v.free = append(v.free, l)
	case l.Session == k.node.Session && best != k.node.Name:
		if w := k.work[key]; w != nil {
			w.cancel()
		} else if k.idle(v, key) {
			v.free = append(v.free, l)
		}
	case l.Session == k.node.Session:
		if k.idle(v, key) {
			k.begin(ctx, l)
		}
	case k.work[key] != nil:
	case l.Session == "":
		if best == k.node.Name {
			v.claims = append(v.claims, store.Claim{Key: key, Token: l.Token})
		}
	default:
		beats, gone := k.gone(l, v.nodes, v.now)
		if gone && (best == k.node.Name || best == l.Node && k.next(key, best) == k.node.Name) {
			v.claim(l, beats)
		}
	}
}

// compare logs which nodes have other settings than this node.
func (k *Keeper) compare(nodes []registry.Node, now time.Time) {
	own := k.report().Files
	for _, n := range nodes {
		text := ""
		if k.lives(n, now) {
			text = strings.Join(differing(own, n.Files), ", ")
		}
		if text != k.differs[n.Name] && text != "" {
			k.conf.Logger.Warn("the settings of another node differ from those of this node", "node", n.Name, "settings", text,
				"remedy", "make them equal on all nodes: SIGHUP reloads endpoints, feeds and tokens, and a restart the others")
		}
		k.differs[n.Name] = text
	}
}

// look returns all nodes and leases, and remembers new heartbeats.
func (k *Keeper) look() (nodes []registry.Node, leases []store.Lease, now time.Time, err error) {
	nodes, leases, err = k.conf.Leases.Nodes()
	if now = k.conf.Now(); err != nil {
		return nil, nil, now, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known := map[string]bool{}
	for _, n := range nodes {
		known[n.Session] = true
		if s, ok := k.seen[n.Session]; !ok || s.beats != n.Beats {
			k.seen[n.Session] = lastHeartbeat{n.Beats, now}
		}
	}
	for _, l := range leases { // of sessions that another one has replaced
		known[l.Session] = true
		if _, ok := k.seen[l.Session]; !ok {
			k.seen[l.Session] = lastHeartbeat{at: now}
		}
	}
	for session := range k.seen {
		if !known[session] {
			delete(k.seen, session)
		}
	}
	return nodes, leases, now, nil
}

func (k *Keeper) last(session string) lastHeartbeat {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen[session]
}

// lives reports whether a node has sent a heartbeat lately.
func (k *Keeper) lives(n registry.Node, now time.Time) bool {
	return n.Session != "" && now.Sub(k.last(n.Session).at) < time.Duration(n.TTL)
}

// gone reports whether the owner of a lease has stopped its work, as far as its silence shows that, and after how many
// heartbeats. There may be more at any time, because others than the goroutine of Run look, too.
func (k *Keeper) gone(l store.Lease, nodes []registry.Node, now time.Time) (beats uint64, gone bool) {
	ttl := k.ttl
	for _, n := range nodes {
		if n.Name == l.Node {
			ttl = time.Duration(n.TTL)
		}
	}
	last := k.last(l.Session)
	return last.beats, now.Sub(last.at) >= ttl && !now.Before(k.patient)
}

// next returns the node that should have the lease of a key if another one did not exist.
func (k *Keeper) next(key, best string) string {
	return Owner(key, slices.DeleteFunc(slices.Clone(k.workers), func(n string) bool { return n == best }))
}

// owning returns the names of the nodes that may own something.
func (k *Keeper) owning(nodes []registry.Node, now time.Time) (names []string) {
	for _, n := range nodes {
		if !n.Gateway && !n.Drains && k.lives(n, now) {
			names = append(names, n.Name)
		}
	}
	return names
}

// Owner returns the node that should have the lease of a key, "" if there is none.
func Owner(key string, nodes []string) (best string) {
	var most uint64
	for _, n := range nodes {
		sum := sha256.Sum256([]byte(key + "\x00" + n))
		if h := binary.BigEndian.Uint64(sum[:]); best == "" || h > most || h == most && n < best {
			best, most = n, h
		}
	}
	return best
}

func (k *Keeper) begin(ctx context.Context, l store.Lease) {
	ctx, cancel := context.WithCancel(ctx)
	w := &work{hold: &Hold{Lease: l, keeper: k, ctx: ctx}, cancel: cancel, done: make(chan struct{})}
	k.mu.Lock()
	k.work[l.Key] = w
	k.mu.Unlock()
	go func() {
		defer close(w.done)
		defer cancel()
		k.conf.Work(ctx, w.hold)
	}()
}

// forget removes work that has ended.
func (k *Keeper) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for key, w := range k.work {
		select {
		case <-w.done:
			delete(k.work, key)
		default:
		}
	}
}

// propose appends commands that take and give back leases, one proposal at a time. It does not
// wait for them.
func (k *Keeper) propose(claims []store.Claim, free []store.Lease, of map[string]store.Lease) {
	if k.proposed != nil {
		select {
		case <-k.proposed:
		default:
			return
		}
	}
	if len(claims)+len(free) == 0 {
		return
	}
	for _, c := range claims {
		if l := of[c.Key]; l.Session != "" { // longer than necessary if the claim is refused
			k.earliest[c.Key] = k.conf.Now().Add(max(l.Linger, k.conf.Linger(c.Key)))
		}
	}
	for _, l := range free {
		k.given[l.Key] = l.Token
	}
	done := make(chan struct{})
	k.proposed = done
	go func() {
		defer close(done)
		if err := k.claim(claims, of); err != nil {
			k.conf.Logger.Warn("leases were not taken", "leases", len(claims), "error", err)
		}
		if len(free) > 0 {
			if err := k.conf.Leases.Release(k.node, free); err != nil {
				k.conf.Logger.Warn("leases were not given back", "leases", len(free), "error", err)
			}
		}
	}()
}

func (k *Keeper) claim(claims []store.Claim, of map[string]store.Lease) error {
	if len(claims) == 0 {
		return nil
	}
	granted, err := k.conf.Leases.Take(k.node, claims)
	leases, endpoints := map[string]int{}, map[string][]string{} // by node that is gone
	for _, l := range granted {
		was := of[l.Key]
		k.conf.Logger.Debug("took a lease", "lease", l.Key, "token", l.Token, "from", was.Node)
		if was.Session == "" {
			continue
		}
		k.takeovers.Add(1)
		leases[was.Node]++
		if name, ok := strings.CutPrefix(l.Key, store.EndpointLease("")); ok {
			endpoints[was.Node] = append(endpoints[was.Node], name)
		}
	}
	for _, node := range slices.Sorted(maps.Keys(leases)) {
		k.conf.Logger.Warn("took over from a node that is gone", "node", node, "leases", leases[node], "endpoints",
			strings.Join(endpoints[node], ", "))
	}
	return err
}

// leave ends all work, gives the leases back, and leaves the cluster. If work does not end, it
// keeps all leases until they run out.
func (k *Keeper) leave() {
	patience, cancel := context.WithTimeout(context.Background(), k.ttl)
	defer cancel()
	var ends []<-chan struct{}
	for _, w := range k.work {
		w.cancel()
		ends = append(ends, w.done)
	}
	if k.proposed != nil { // it may take leases still
		ends = append(ends, k.proposed)
	}
	for _, end := range ends {
		select {
		case <-end:
		case <-patience.Done():
			return
		}
	}
	_, leases, err := k.conf.Leases.Nodes()
	var mine []store.Lease
	for _, l := range leases {
		if l.Session == k.node.Session && !k.conf.Now().Before(k.earliest[l.Key]) {
			mine = append(mine, l)
		}
	}
	if err == nil && len(mine) > 0 {
		err = k.conf.Leases.Release(k.node, mine)
	}
	if err == nil {
		err = k.conf.Leases.Leave(k.node)
	}
	if err != nil {
		k.conf.Logger.Warn("the node has not left the cluster: others take over when its leases have run out", "error",
			fmt.Errorf("leave: %w", err))
	}
}
