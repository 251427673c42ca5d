// Package engine has what the engines of journals share: a writer that gathers commands and commits
// them together, and a reader that verifies entries.
package engine

import (
	"context"
	"time"

	"github.com/freshet/freshet/store/journal"
)

// An Engine says where the entries of a journal are. Errors of its functions that are neither damage
// nor the end of a context are taken for an outage.
type Engine struct {
	Name string        // of the journal
	Poll time.Duration // between two looks for what other nodes have appended

	// Commit appends items in one step and returns their numbers, in the order of items. Items whose
	// ids the journal contains already keep their numbers. After an error that is not final, any of
	// the items may have become an entry.
	Commit func(ctx context.Context, items []Item) ([]uint64, error)
	// Span returns the number of the first entry, or of the next one if there is none, and the
	// position of the last entry. An engine whose answer may be out of date makes sure that it is not
	// if the last entry is before a number.
	Span func(ctx context.Context, atLeast uint64) (first uint64, head journal.Position, err error)
	// Page returns some entries after a number, none if there are none at the moment. Without insist, a
	// server may be asked that lags.
	Page func(ctx context.Context, after uint64, insist bool) ([]journal.Entry, error)
}

// An Item is a command to append.
type Item struct {
	ID      string
	Command []byte
}

// A Node is the access of one node to a journal: the part of journal.Journal that all engines share.
type Node struct {
	*Writer
	Mark Watermark // raised by what is read and committed

	engine Engine
}

// Open begins the access of a node.
func (e Engine) Open() *Node { return &Node{Writer: NewWriter(e.Commit), engine: e} }

// Wake says that another node has appended something, so that Read need not wait for the next look.
func (n *Node) Wake() { n.Mark.wake() }
