package merge

import (
	"strings"

	"github.com/freshet/freshet/registry/sparql"
)

// A Reason says why a query must be asked alone.
type Reason string

// The reasons why a query is asked alone.
const (
	Limit         Reason = "limit"          // LIMIT or OFFSET would apply to all members together
	Describe      Reason = "describe"       // what DESCRIBE returns is up to the endpoint
	Reduced       Reason = "reduced"        // how often REDUCED repeats rows is up to the endpoint
	NoParameter   Reason = "no-parameter"   // no constant can be replaced by a variable
	Dynamic       Reason = "dynamic"        // NOW, RAND, UUID and BNODE depend on the execution
	Path          Reason = "path"           // engines differ in how often a path repeats rows, and in paths from literals
	Order         Reason = "order"          // ORDER BY leaves ties whose order may differ
	Aggregate     Reason = "aggregate"      // the value over no rows, or the sequence of rows, matters
	Modifiers     Reason = "modifiers"      // GROUP BY, HAVING or ORDER BY of an ASK or CONSTRUCT
	BlankTemplate Reason = "blank-template" // CONSTRUCT creates blank nodes
	Columns       Reason = "columns"        // the columns of SELECT * are not known
	Nested        Reason = "nested"         // the pattern is not a list of triples with simple inner groups
	Unbound       Reason = "unbound"        // a variable is used where it may be unbound
	Repeated      Reason = "repeated"       // a term occurs twice in a triple pattern
	Disconnected  Reason = "disconnected"   // parts of the pattern share no variable or parameter
	Trivial       Reason = "trivial"        // a condition does not depend on the solution
	Dialect       Reason = "dialect"        // the query is outside of SPARQL 1.1, or depends on a pragma
)

// The rules by which a constant stays in the template.
const (
	keepClass    Reason = "class"    // the object of a and rdf:type
	keepPath     Reason = "path-end" // the end of a path with * + ? ! or |
	keepSearch   Reason = "search"   // the argument of an engine's search function
	keepOptional Reason = "optional" // in OPTIONAL or some alternatives of a UNION only
	keepHidden   Reason = "hidden"   // in EXISTS
	keepTyped    Reason = "typed"    // a literal with a language or datatype, which engines may compare by value
)

// keeps reports whether a constant stays because of the rule.
func (p *parser) keeps(rule Reason) bool { return rule != p.ignored }

// A Refusal is the error of Parse.
type Refusal struct {
	Reason Reason
	Detail string // may be empty
}

func (r *Refusal) Error() string {
	if r.Detail == "" {
		return "cannot be merged: " + string(r.Reason)
	}
	return "cannot be merged: " + string(r.Reason) + ": " + r.Detail
}

// refuse ends Parse.
func (p *parser) refuse(reason Reason, detail string) {
	if reason != p.ignored {
		panic(&Refusal{reason, detail})
	}
}

// check refuses what the analysis shows.
func (p *parser) check(a *sparql.Analysis) {
	switch {
	case a.Limit >= 0 || a.Offset >= 0:
		p.refuse(Limit, "")
	case a.Pragmas:
		p.refuse(Dialect, "a pragma of the endpoint")
	case len(a.SideEffects) > 0:
		p.refuse(Dialect, a.SideEffects[0])
	case len(a.NonDeterministic) > 0:
		p.refuse(Dynamic, strings.Join(a.NonDeterministic, ", "))
	case a.Ordered && a.OrderKeys == nil:
		p.refuse(Order, "a condition is not a plain variable")
	}
}
