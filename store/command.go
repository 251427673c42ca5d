// Commands: every write to the store, decided on first and then applied.

package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

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
	touch(o *Others)
	// frees reports whether the command may be tried on a full disk, as it only deletes.
	frees() bool
}

// errMoved is the result of a command for which something else was decided in the meantime.
var errMoved = replica.ErrMoved

// errUnchanged ends a transaction that has nothing to write.
var errUnchanged = replica.ErrUnchanged

// commandVersion is the version of the forms of all commands. Nothing that was released has written an older one.
const commandVersion = 2

func encodeCommand(c command) ([]byte, error) {
	head := []byte{commandVersion, c.kind()}
	if x, ok := c.(*writer); ok { // its rows would be long as JSON
		return x.append(head)
	}
	text, err := compactJSON(c)
	return append(head, text...), err
}

// decodeCommand reads the output of encodeCommand. The command may refer to b.
func (d *boltFile) decodeCommand(b []byte) (c command, err error) {
	switch {
	case len(b) < 2:
		return nil, fmt.Errorf("%w: a command without a kind", ErrDamaged)
	case b[0] != commandVersion:
		return nil, replica.ErrForm
	}
	if c = newCommand(d, b[1]); c == nil {
		return nil, fmt.Errorf("%w: kind %q", replica.ErrForm, b[1])
	}
	if x, ok := c.(*writer); ok {
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
func (d *boltFile) execute(decide func(tx *bbolt.Tx) (command, error)) (command, error) {
	if d.replica != nil {
		applied, err := d.replica.Execute(func(tx *bbolt.Tx) (replica.Command, error) { return decide(tx) })
		c, _ := applied.(command)
		return c, err
	}
	x := &decision{decide: decide}
	d.decisions.Do(x, d.writeTogether)
	if x.panic != nil {
		panic(x.panic)
	}
	return x.made, x.err
}

// A decision is a call of execute without a journal. Those that come while a transaction runs share the next one.
type decision struct {
	decide func(tx *bbolt.Tx) (command, error)
	made   command
	err    error
	panic  any // of decide
}

// mostTogether is the number of commands that share a transaction.
const mostTogether = 256

var errPanic = errors.New("a command panicked")

// call calls decide. A panic in it is kept for its caller, as the transaction may be run by another one. One that says
// that the file is damaged ends the transaction.
func (x *decision) call(tx *bbolt.Tx) {
	defer func() {
		switch r := recover(); {
		case r == nil:
		case pagesFault():
			panic(r)
		default:
			x.panic, x.err = r, errPanic
		}
	}()
	x.made, x.err = x.decide(tx)
}

// writeTogether runs waiting decisions in one transaction. If that fails, each gets a transaction of its own, so
// that the error of one is not that of others.
func (d *boltFile) writeTogether() {
	var list []*decision
	failure := errPanic
	defer func() {
		if list == nil { // the transaction did not begin
			list = d.decisions.Take(mostTogether)
		}
		for _, x := range list {
			x.err = cmp.Or(x.err, failure)
		}
	}()
	failure = d.write(func() []*decision {
		most := mostTogether
		if d.disk.refusal() != nil {
			most = 1 // it may be written if it frees space
		}
		list = d.decisions.Take(most)
		return list
	})
	if failure == nil || len(list) < 2 {
		return
	}
	failure = nil
	for i, x := range list {
		if err := d.write(func() []*decision { return list[i : i+1] }); err != nil {
			x.err = err
		}
	}
}

// write runs decisions in one transaction, and sets their commands and errors. It returns the error of the transaction.
func (d *boltFile) write(take func() []*decision) error {
	var done []command
	err := d.edit(func(tx *bbolt.Tx) (frees bool, err error) {
		frees = true
		for _, x := range take() {
			if x.call(tx); x.err == nil {
				x.err = x.made.Apply(tx)
				if x.err != nil && x.err != errUnchanged {
					err, x.err = x.err, nil
					return false, err
				}
			}
			switch x.err {
			case nil:
				frees = frees && x.made.frees()
				done = append(done, x.made)
			case errUnchanged:
				x.err = nil
			}
		}
		if len(done) == 0 {
			return false, errUnchanged
		}
		return frees, nil
	})
	if err == nil && len(done) > 0 {
		d.refresh(done...)
		d.wakePurge()
	}
	return err
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

// Kinds of commands. They are part of the journal and never get another meaning: what is applied
// in another way, or has another form, gets another kind. A node of an older version stops at a
// kind that it does not know, and continues there after its update.
const (
	kindBegin        byte = 'B'
	kindBatch        byte = 'W'
	kindQueries      byte = 'Q'
	kindEndpoint     byte = 'e'
	kindProfile      byte = 'P'
	kindSubscription byte = 'S'
	kindToken        byte = 't'
	kindPurge        byte = 'd'
	kindNode         byte = 'n'
	kindLease        byte = 'l'
	kindRules        byte = 'a'
	kindSecret       byte = 'k'
	kindFeed         byte = 'F'
)
