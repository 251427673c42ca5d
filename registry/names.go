package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxNamesListed is the maximum number of ids that the problem of an ambiguous
// name lists.
const maxNamesListed = 8

// resolve finds an object by its id, by the caller's own name for it, or by the
// name that others gave to this object only. byID and find read the store; find
// lists the objects to which an owner, or any owner for "", gave the name. On a node of a
// cluster, byID asks the journal whether there is an id that this node does not know yet. So a
// name is looked up first, which also works while the journal does not answer.
func resolve[T any](c Caller, kind, ref string, byID func(id string) (T, error), find func(owner string, most int) ([]T, error),
	id func(*T) string) (T, error) {
	named := func() (T, error) { return resolveName(c, kind, ref, find, id) }
	if !strings.HasPrefix(ref, "q_") && !strings.HasPrefix(ref, "p_") {
		if x, err := named(); !errors.Is(err, ErrNotFound) {
			return x, err
		}
	}
	x, err := byID(ref)
	if !errors.Is(err, ErrNotFound) {
		return x, err
	}
	return named()
}

// resolveName finds an object by its name.
func resolveName[T any](c Caller, kind, ref string, find func(owner string, most int) ([]T, error), id func(*T) string) (T, error) {
	own, err := find(c.Name, 1)
	if err != nil || len(own) > 0 && c.Name != "" {
		return single(kind, ref, own, id, err)
	}
	all, err := find("", maxNamesListed)
	return single(kind, ref, all, id, err)
}

// single returns the only element of a list, or a problem if there is none or
// more than one.
func single[T any](kind, name string, list []T, id func(*T) string, err error) (T, error) {
	var none T
	switch {
	case err != nil:
		return none, err
	case len(list) == 0:
		return none, notFound("no %s has this id or name", kind)
	case len(list) == 1:
		return list[0], nil
	}
	p := &Problem{Kind: KindAmbiguousName}
	for i := range list {
		p.IDs = append(p.IDs, id(&list[i]))
	}
	p.Detail = fmt.Sprintf("%q is not one of your own names, and other callers use it for more than one %s: use an id, such as %s",
		name, kind, strings.Join(p.IDs, ", "))
	return none, p
}

// nameTaken is the problem of a name that the caller uses for another query.
func nameTaken(name string, others []*Query) *Problem {
	p := &Problem{Kind: KindNameTaken}
	for _, q := range others {
		p.IDs = append(p.IDs, q.ID)
	}
	p.Detail = fmt.Sprintf("you call %s %q: choose another name, or register with replace, which moves the name and releases "+
		"that one", strings.Join(p.IDs, ", "), name)
	p.Errors = []FieldError{{"/name", p.Detail}}
	return p
}

// A takeover says which of the caller's other queries a registration releases.
type takeover struct {
	caller, name string
	replace      bool   // release the query of this name
	instead      string // release this query
}

// apply checks the name and releases the caller's other queries, in a
// transaction that may edit them.
func (c takeover) apply(q *Query, others []*Query) error {
	had, _ := q.Holder(c.caller)
	if c.name != had.Name { // a name that is stored stays valid when the rules change
		if err := checkName(c.name); err != nil {
			return err
		}
	}
	var taken []*Query
	for _, o := range others {
		if c.replace || o.ID == c.instead {
			o.removeHolder(c.caller)
		} else {
			taken = append(taken, o)
		}
	}
	if len(taken) > 0 && c.name != had.Name {
		return nameTaken(c.name, taken)
	}
	return nil
}

func (c takeover) names(id string) Names {
	return Names{Query: id, Caller: c.caller, Name: c.name, Instead: c.instead}
}

// removeHolder ends a caller's registration and reports whether there was one.
func (q *Query) removeHolder(caller string) bool {
	n := len(q.Holders)
	q.Holders = slices.DeleteFunc(q.Holders, func(h Holder) bool { return h.Caller == caller })
	return len(q.Holders) < n
}
