// Leases: which node of a cluster may do what only one node may do.

package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"go.etcd.io/bbolt"
)

// A Lease is the right of one session of a node to do what its key names. What is done under a
// lease carries its token. Each grant and each release gives the key a new token, so a command
// with an older one is refused.
//
// The applier knows no time. The node that takes a lease names the beats of its owner that it has
// seen, and is granted the lease only if there are no further ones. That node decides how long
// beats must be missing.
type Lease struct {
	Key     string `json:"-"`
	Node    string `json:"node,omitempty"` // "" if no node has it
	Session string `json:"session,omitempty"`
	Token   uint64 `json:"token"`
	// Linger is how long requests of the session may run at least, if they began before the endpoint
	// got a shorter timeout or was removed. The lease of a removed endpoint remains until its owner gives
	// it back, or is gone. So an endpoint of the same name is not asked by another node meanwhile.
	Linger time.Duration `json:"linger,omitempty"`
}

// EndpointLease returns the key of the lease under which an endpoint is asked.
func EndpointLease(endpoint string) string { return endpointPrefix + endpoint }

const endpointPrefix = "endpoint/"

// AlertsLease is the key of the lease under which alert rules are evaluated and edited.
const AlertsLease = "alerts"

// FeedLease returns the key of the lease under which a feed is read.
func FeedLease(feed string) string { return feedPrefix + feed }

const feedPrefix = "feed/"

// A LeaseStore stores the members of a cluster and their leases.
type LeaseStore struct {
	*boltFile
	nodes  readBefore[registry.Node]
	leases readBefore[Lease]
}

// A readBefore is what a bucket had when it was read last, by key. Nodes read all leases once a second.
type readBefore[T any] struct {
	mu    sync.Mutex
	known map[string]before[T]
}

type before[T any] struct {
	value T
	json  string
}

// read returns all that a bucket has. It decodes what has changed since it was called last.
func (r *readBefore[T]) read(tx *bbolt.Tx, bucket []byte, find func(*bbolt.Tx, string) (T, error)) (list []T, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]before[T]{}
	}
	err = tx.Bucket(bucket).ForEach(func(k, v []byte) error {
		x := r.known[string(k)]
		if x.json != string(v) {
			if x.value, err = find(tx, string(k)); err != nil {
				return err
			}
			x.json = string(v)
			r.known[string(k)] = x
		}
		list = append(list, x.value)
		return nil
	})
	if len(r.known) > len(list) { // some are gone
		r.known = nil
	}
	return list, err
}

// Changed returns a channel that gets a value after nodes or leases have changed. It has room
// for one value, and one reader.
func (d *LeaseStore) Changed() <-chan struct{} { return d.leased }

// Nodes returns all nodes that have joined, in the order of their names, and all leases, in the
// order of their keys.
func (d *LeaseStore) Nodes() (nodes []registry.Node, leases []Lease, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		if nodes, err = d.nodes.read(tx, bNodes, findNode); err != nil {
			return err
		}
		leases, err = d.leases.read(tx, bLeases, findLease)
		return err
	})
	return nodes, leases, err
}

// Join begins a session of a node. A session of the same node before it ends.
func (d *LeaseStore) Join(n registry.Node) error { return d.node(nodeEdit{Op: "join", Node: n}) }

// Beat records that a session lives, and what its node reports: Applied, Takeovers, Fenced, and
// Files unless that is empty. It returns scheduler.ErrFenced if another session of the node has
// begun.
func (d *LeaseStore) Beat(n registry.Node) error { return d.node(nodeEdit{Op: "beat", Node: n}) }

// Leave ends a session. The node is no longer a member until it joins again.
func (d *LeaseStore) Leave(n registry.Node) error { return d.node(nodeEdit{Op: "leave", Node: n}) }

// Drain makes a node give its leases away, or take some again. It wraps registry.ErrNotFound.
func (d *LeaseStore) Drain(name string, drains bool) error {
	return d.node(nodeEdit{Op: "drain", Node: registry.Node{Name: name, Drains: drains}})
}

func (d *LeaseStore) node(e nodeEdit) error {
	_, err := d.execute(func(tx *bbolt.Tx) (command, error) { return &e, e.Resume(tx) })
	return err
}

// A Claim names a lease that is to be taken as its taker has seen it: its token, and the beats
// of its owner.
type Claim struct {
	Key   string `json:"key"`
	Token uint64 `json:"token"`
	Beats uint64 `json:"beats,omitempty"`
}

// Take returns those of the leases that n's session was granted: those that have not changed.
func (d *LeaseStore) Take(n registry.Node, claims []Claim) ([]Lease, error) {
	return d.lease(leaseEdit{Node: n.Name, Session: n.Session, Take: claims})
}

// Release gives leases of n's session back, those that have the tokens given. A call whose outcome
// is unknown may still take effect, so no work may begin under such a token.
func (d *LeaseStore) Release(n registry.Node, leases []Lease) error {
	e := leaseEdit{Node: n.Name, Session: n.Session}
	for _, l := range leases {
		e.Release = append(e.Release, Claim{Key: l.Key, Token: l.Token})
	}
	_, err := d.lease(e)
	return err
}

func (d *LeaseStore) lease(e leaseEdit) ([]Lease, error) {
	c, err := d.execute(func(tx *bbolt.Tx) (command, error) { return &e, e.Resume(tx) })
	if err != nil || c == nil {
		return nil, err
	}
	return c.(*leaseEdit).granted, nil
}

func findNode(tx *bbolt.Tx, name string) (n registry.Node, err error) {
	found, err := getJSON(tx.Bucket(bNodes), []byte(name), &n, "node "+name)
	if !found {
		err = fmt.Errorf("node %s: %w", name, registry.ErrNotFound)
	}
	return n, err
}

// findLease returns a lease, with token 0 if there is none.
func findLease(tx *bbolt.Tx, key string) (l Lease, err error) {
	_, err = getJSON(tx.Bucket(bLeases), []byte(key), &l, "lease "+key)
	l.Key = key
	return l, err
}

// fence returns scheduler.ErrFenced if a token is not that of a lease.
func fence(tx *bbolt.Tx, key string, token uint64) error {
	l, err := findLease(tx, key)
	if err == nil && l.Token != token {
		err = fmt.Errorf("%w: the lease %s has the token %d", scheduler.ErrFenced, key, l.Token)
	}
	return err
}

// A nodeEdit changes a node. It is a command.
type nodeEdit struct {
	Op   string
	Node registry.Node
	now  registry.Node
}

func (e *nodeEdit) kind() byte { return kindNode }

func (e *nodeEdit) frees() bool { return false }

func (e *nodeEdit) Resume(tx *bbolt.Tx) error {
	was, err := findNode(tx, e.Node.Name)
	if errors.Is(err, registry.ErrNotFound) && e.Op == "join" {
		err = nil
	}
	if err != nil {
		return err
	}
	e.now = was
	if e.Op != "join" && e.Op != "drain" && was.Session != e.Node.Session {
		return fmt.Errorf("%w: another process has joined the cluster as %s: give each a cluster.node of its own",
			scheduler.ErrFenced, e.Node.Name)
	}
	switch e.Op {
	case "join":
		e.now = e.Node
		e.now.Beats, e.now.Drains = was.Beats+1, false
	case "beat":
		e.now.Beats++
		e.now.Applied, e.now.Takeovers, e.now.Fenced = e.Node.Applied, e.Node.Takeovers, e.Node.Fenced
		if e.Node.Files != "" {
			e.now.Files = e.Node.Files
		}
	case "leave":
		e.now.Session = ""
	case "drain":
		e.now.Drains = e.Node.Drains
	}
	return nil
}

func (e *nodeEdit) Apply(tx *bbolt.Tx) error {
	return putJSON(tx.Bucket(bNodes), []byte(e.Node.Name), &e.now)
}

// A leaseEdit takes and gives back leases of a session. It is a command.
type leaseEdit struct {
	Node, Session string
	Take          []Claim
	Release       []Claim
	granted       []Lease
}

func (e *leaseEdit) kind() byte { return kindLease }

func (e *leaseEdit) frees() bool { return false }

func (e *leaseEdit) Resume(tx *bbolt.Tx) error {
	n, err := findNode(tx, e.Node)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	if n.Session == "" || n.Session != e.Session {
		return fmt.Errorf("%w: this session of the node %s has ended", scheduler.ErrFenced, e.Node)
	}
	return nil
}

func (e *leaseEdit) Apply(tx *bbolt.Tx) error {
	e.granted = nil
	for _, c := range e.Take {
		l, err := findLease(tx, c.Key)
		if err != nil {
			return err
		}
		lives, err := beatsSince(tx, &l, c.Beats)
		if err != nil {
			return err
		}
		switch {
		case l.Token != c.Token || lives:
			continue
		case removed(tx, c.Key): // and the requests of the owner have ended
			if err := forgetLease(tx, c.Key); err != nil {
				return err
			}
			continue
		}
		l.Node, l.Session = e.Node, e.Session
		if err := putLease(tx, &l); err != nil {
			return err
		}
		e.granted = append(e.granted, l)
	}
	for _, c := range e.Release {
		l, err := findLease(tx, c.Key)
		if err != nil {
			return err
		}
		if l.Session != e.Session || l.Token != c.Token {
			continue
		}
		if removed(tx, c.Key) {
			err = forgetLease(tx, c.Key)
		} else {
			l.Node, l.Session, l.Linger = "", "", 0
			err = putLease(tx, &l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removed reports whether a key is that of an endpoint that does not exist.
func removed(tx *bbolt.Tx, key string) bool {
	name, isEndpoint := strings.CutPrefix(key, endpointPrefix)
	return isEndpoint && tx.Bucket(bEndpoints).Get([]byte(name)) == nil
}

// beatsSince reports whether the session that has a lease lives longer than the beats tell.
func beatsSince(tx *bbolt.Tx, l *Lease, beats uint64) (bool, error) {
	if l.Session == "" {
		return false, nil
	}
	n, err := findNode(tx, l.Node)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return false, err
	}
	return n.Session == l.Session && n.Beats != beats, nil
}

// putLease stores a lease with the next token.
func putLease(tx *bbolt.Tx, l *Lease) error {
	m := tx.Bucket(bMeta)
	l.Token = number(m.Get(kTokens)) + 1
	return errors.Join(m.Put(kTokens, key8(l.Token)), putJSON(tx.Bucket(bLeases), []byte(l.Key), l))
}

func forgetLease(tx *bbolt.Tx, key string) error {
	return tx.Bucket(bLeases).Delete([]byte(key))
}

// Drop removes the entries from the journal that no member needs: those that all members have
// applied, as their heartbeats say, and those that are beyond what a journal keeps for members
// that lag. Members that have left count, because they may come back. A member that needs a dropped entry
// starts from the backup of another one.
func (d *LeaseStore) Drop() error {
	if d.replica == nil {
		return nil
	}
	nodes, _, err := d.Nodes()
	if err != nil {
		return err
	}
	var applied []uint64
	for _, n := range nodes {
		applied = append(applied, n.Applied)
	}
	return d.replica.Drop(applied...)
}

func (e *nodeEdit) touch(*Others) {}

func (e *leaseEdit) touch(*Others) {}
