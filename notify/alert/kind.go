package alert

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// A Kind describes a kind of receivers to people.
type Kind struct {
	Name  string // the member of a receiver in JSON that is its address
	Usage string // what the address is, and what is sent there
}

// A kind is a kind of receivers.
type kind struct {
	Kind
	// check completes an address, or returns why it cannot be used.
	check func(o *Options, address string) (string, error)
	// secret completes a secret, or returns why it cannot be used; nil: the kind has none.
	secret func(given string) (string, error)
	// send sends messages to a receiver. Its reply is about the first message that the receiver
	// has not taken, or about all if they go in one request.
	send func(o *Options, to *registry.Receiver, list []registry.AlertMessage) (send, error)
	// batch is the largest number of messages in a call. They go in one request if together is
	// set, and else one after another.
	batch    int
	together bool
	// repeats says that firing alerts are sent again and again, also if that is not asked for.
	repeats bool
	service bool // people read its messages, and its addresses say of which kind they are
	people  bool // people read its messages, and may want quiet
}

// A send makes the requests of a call.
type send = func(context.Context, *deliver.Client) deliver.Reply

// countDelivered returns how many messages of a list the receiver has after a reply.
func (k *kind) countDelivered(list []registry.AlertMessage, r deliver.Reply) int {
	if k.together && r.OK() {
		return len(list)
	}
	return r.Settled
}

// size returns the number of messages of the next call to a receiver.
func (k *kind) size(s *registry.Subscription) int { return cmp.Or(s.Again, s.Batch, k.batch) }

// resize changes the size of the next call after the reply to one with n messages. It reports whether one of several
// is refused, which is searched for in halves.
func (k *kind) resize(s *registry.Subscription, n int, r deliver.Reply) (searches bool) {
	switch {
	case r.OK():
		if s.Batch *= 2; s.Batch >= k.batch {
			s.Batch = 0
		}
	case k.together && n > 1 && r.Refused():
		s.Batch, s.Refusals, s.NextTry = n/2, 0, nil
		return true
	}
	return false
}

// kinds are the kinds of receivers by their names. The file of each adds it.
var kinds = map[string]*kind{}

func known(k *kind) *kind {
	kinds[k.Name] = k
	return k
}

// Kinds returns the kinds of receivers, ordered by their names. Those of services that people read are one.
func Kinds() (list []Kind) {
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		if !kinds[name].service {
			list = append(list, kinds[name].Kind)
		}
	}
	return append(list, Kind{registry.Notify, "address of a service that people read, such as https://ntfy.sh/TOPIC"})
}
