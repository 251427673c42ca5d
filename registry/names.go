package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNamesListed is the maximum number of ids that the problem of an ambiguous
// name lists.
const maxNamesListed = 8

// Resolve finds a query by its id, by the caller's own name for it, or by the
// name that other callers gave to this query only. A caller without the role
// read finds only public queries. A name that others gave to several queries is
// a Problem of type ambiguous-name with their ids.
func (r *Registry) Resolve(c Caller, ref string) (Query, error) {
	q, err := r.store.Query(ref)
	if !errors.Is(err, ErrNotFound) {
		return q, err
	}
	public := !c.MayRead(nil)
	own, err := r.store.FindName(c.Name, ref, public, 1)
	if err != nil || len(own) > 0 && c.Name != "" {
		return single("query", ref, own, idOfQuery, err)
	}
	all, err := r.store.FindName("", ref, public, maxNamesListed)
	return single("query", ref, all, idOfQuery, err)
}

func idOfQuery(q *Query) string { return q.ID }

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
	p.Detail = fmt.Sprintf("%q is not one of your own names, and other callers use it for several queries: use an id, such as %s", name, strings.Join(p.IDs, ", "))
	return none, p
}

// nameTaken is the problem of a name that the caller uses for another query.
func nameTaken(name string, others []*Query) *Problem {
	p := &Problem{Kind: KindNameTaken}
	for _, q := range others {
		p.IDs = append(p.IDs, q.ID)
	}
	p.Detail = fmt.Sprintf("you call %s %q: choose another name, or register with replace, which moves the name and releases that one", strings.Join(p.IDs, ", "), name)
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

// pathMarks are the punctuation characters that a path may contain unescaped
// (RFC 3986, pchar).
const pathMarks = "-._~!$&'()*+,;=:@"

// checkName returns a problem if a query must not have this name. Names are
// visible, and part of URL paths without escapes.
func checkName(name string) error {
	bad := func(format string, a ...any) error {
		return wrongField(KindBadSetting, "/name", format, a...)
	}
	switch {
	case name == "":
		return nil
	case len(name) > maxName:
		return bad("a name has at most %d bytes", maxName)
	case strings.HasPrefix(name, "q_"):
		return bad("a name does not begin with q_, as ids do")
	case name == "validate", name == ".", name == "..":
		return bad("%q cannot be a name: /v1/queries/%s is something else", name, name)
	case !utf8.ValidString(name):
		return bad("a name is UTF-8")
	}
	for i, r := range name {
		if !nameRune(r) || i == 0 && unicode.IsMark(r) {
			return bad("a name consists of letters, digits and %s; it cannot hold %q, because it is part of addresses", pathMarks, r)
		}
	}
	return nil
}

func nameRune(r rune) bool {
	if r < 0x80 && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
		return strings.ContainsRune(pathMarks, r)
	}
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd) && !invisible(r)
}

// invisible reports whether a letter or mark has no visible form.
func invisible(r rune) bool {
	return unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// printable reports whether a text is valid UTF-8 without characters that break
// a line or hide text, such as marks of direction.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		const joiner, nonJoiner = 0x200d, 0x200c // of Arabic, Indic scripts and emoji
		return r != joiner && r != nonJoiner && (!unicode.IsGraphic(r) || r == 0x2028 || r == 0x2029)
	})
}

// visible reports whether a text has a visible character.
func visible(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !invisible(r) })
}
