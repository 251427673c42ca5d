// Commands: every write to the store, decided on first and then applied.

package store

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/replica"
	"go.etcd.io/bbolt"
)

// A command is one write to the store. It is decided on first, from what the file contains,
// and then applied. Applying uses only the command and the file. Without a journal both
// happen in one transaction. With a journal (see package replica) the command is decided on in a
// read transaction, appended, and applied by every node from its form in the journal.
type command interface {
	replica.Command
	kind() byte
	// touch adds what an applied command has changed to o.
	touch(o *others)
	// frees reports whether the command may be tried on a full disk, as it only deletes.
	frees() bool
}

// errMoved is the result of a command for which something else was decided in the meantime.
var errMoved = replica.ErrMoved

// errUnchanged ends a transaction that has nothing to write.
var errUnchanged = replica.ErrUnchanged

// Kinds of commands. They are part of the journal and never get another meaning: what is applied
// in another way, or has another form, gets another kind. A node of an older version stops at a
// kind that it does not know, and continues there after its update.
const (
	kindBegin         byte = 'B'
	kindBatch         byte = 'R'
	kindQueries       byte = 'q'
	kindEndpoint      byte = 'e'
	kindProfile       byte = 'p'
	kindSubscriptions byte = 's'
	kindToken         byte = 't'
	kindPurge         byte = 'd'
	kindNode          byte = 'n'
	kindLease         byte = 'l'
	kindRules         byte = 'a'
)

// commandVersion is the version of the forms of all commands.
const commandVersion = 1

// newCommand returns an empty command of a kind, nil if there is no such kind.
func (d *boltFile) newCommand(kind byte) command {
	switch kind {
	case kindBegin:
		return &beginning{file: d}
	case kindBatch:
		return &writer{epoch: d.epoch}
	case kindQueries:
		return new(queryEdit)
	case kindEndpoint:
		return new(endpointEdit)
	case kindProfile:
		return new(profileEdit)
	case kindSubscriptions:
		return new(subscriptionWrites)
	case kindToken:
		return new(tokenEdit)
	case kindPurge:
		return new(purgeStep)
	case kindNode:
		return new(nodeEdit)
	case kindLease:
		return new(leaseEdit)
	case kindRules:
		return &ruleEdit{new(registry.RuleEdit)}
	}
	return nil
}

// A compact is a command whose form in the journal is not the JSON of its exported fields.
type compact interface {
	append(b []byte) ([]byte, error)
	decode(in *scan) // may refer to the bytes of in
}

// encodeCommand returns the form of a command in the journal.
func encodeCommand(c command) ([]byte, error) {
	head := []byte{commandVersion, c.kind()}
	if x, ok := c.(compact); ok {
		return x.append(head)
	}
	text, err := compactJSON(c)
	return append(head, text...), err
}

// decodeCommand reads the output of encodeCommand. The command may refer to b.
func (d *boltFile) decodeCommand(b []byte) (c command, err error) {
	if len(b) < 2 || b[0] != commandVersion {
		return nil, fmt.Errorf("%w: a command has a form that this program does not know: update this node", ErrDamaged)
	}
	if c = d.newCommand(b[1]); c == nil {
		return nil, fmt.Errorf("%w: a command has the unknown kind %q: update this node", ErrDamaged, b[1])
	}
	if x, ok := c.(compact); ok {
		in := &scan{b: b[2:]}
		x.decode(in)
		err = in.end(fmt.Sprintf("a command of kind %q", b[1]))
	} else if err = json.Unmarshal(b[2:], c); err != nil {
		err = fmt.Errorf("%w: a command of kind %q cannot be read: %w", ErrDamaged, b[1], err)
	}
	return c, err
}

// execute decides on a command and applies it. With a journal, decide is called again if what
// it has read changes before the command is applied. It must have no other effect than on
// what it decides. The applied command is returned; it has been decoded from its form in the
// journal, if there is one.
func (d *boltFile) execute(decide func(tx *bbolt.Tx) (command, error)) (c command, err error) {
	if d.replica != nil {
		applied, err := d.replica.Execute(func(tx *bbolt.Tx) (replica.Command, error) { return decide(tx) })
		c, _ = applied.(command)
		return c, err
	}
	err = d.edit(func(tx *bbolt.Tx) (frees bool, err error) {
		if c, err = decide(tx); err != nil {
			return false, err
		}
		return c.frees(), c.Apply(tx)
	})
	if err == nil {
		d.refresh(c)
	}
	return c, err
}

// A revision identifies the stored form of an entry. It is empty if there is no entry.
type revision string

func revisionOf(stored []byte) revision {
	if stored == nil {
		return ""
	}
	sum := sha256.Sum256(stored)
	return revision(base64.RawStdEncoding.EncodeToString(sum[:15]))
}
