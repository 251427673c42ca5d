package merge

import (
	"slices"
	"strings"

	"github.com/freshet/freshet/registry/sparql"
)

// columns sets what the projection of a SELECT needs.
func (p *parser) columns(t *Template, a *sparql.Analysis) {
	if a.Star {
		p.star(t)
	} else {
		p.projected(t)
	}
	for i, v := range t.Vars {
		if slices.Contains(t.Vars[:i], v) {
			p.refuse(Columns, "?"+v+" is projected twice")
		}
	}
	for _, k := range t.OrderKeys {
		if !slices.Contains(t.Vars, k) {
			p.refuse(Order, "?"+k+" is not projected")
		}
	}
	for _, part := range slices.Concat(t.having, t.orderBy) {
		if inexact[part.text] || isAggregate[part.text] && len(t.groupBy) == 0 {
			p.refuse(Aggregate, part.text+" outside of the projection")
		}
	}
	if len(t.having) > 0 && len(t.groupBy) == 0 {
		p.refuse(Aggregate, "HAVING without GROUP BY")
	}
}

// star writes the columns of SELECT * out.
func (p *parser) star(t *Template) {
	if len(p.scope) == 0 {
		p.refuse(Columns, "SELECT * without variables")
	}
	for _, x := range t.pattern { // Virtuoso makes columns of such variables
		if x.isVariable() && !slices.Contains(p.scope, x.text) {
			p.refuse(Columns, "SELECT * with "+x.text+" in a condition only")
		}
	}
	t.projection = nil
	for _, v := range p.scope {
		t.projection = append(t.projection, part{sparql.Variable, v, -1})
		t.Vars = append(t.Vars, v[1:])
	}
}

// outside refuses variables outside of the pattern that it never binds.
func (p *parser) outside(lists ...[]part) {
	named := ""
	for _, list := range lists {
		for i, x := range list {
			if i > 0 && list[i-1].text == "AS" {
				named += x.text + " "
			}
			if x.isVariable() && !slices.Contains(p.scope, x.text) && !strings.Contains(named, x.text+" ") {
				p.refuse(Unbound, "no part of the pattern binds "+x.text)
			}
		}
	}
}

var isAggregate = map[string]bool{
	"COUNT": true, "SUM": true, "MIN": true, "MAX": true, "AVG": true, "SAMPLE": true, "GROUP_CONCAT": true,
}

// inexact aggregates depend on the sequence in which the endpoint finds
// solutions, at least for some values.
var inexact = map[string]bool{"SUM": true, "AVG": true, "SAMPLE": true, "GROUP_CONCAT": true}

// projected reads the columns of a projection: variables, and expressions in
// brackets.
func (p *parser) projected(t *Template) {
	aggregates, others := false, false
	for i := 0; i < len(t.projection); i++ {
		text := t.projection[i].text
		if t.projection[i].isVariable() {
			t.Vars = append(t.Vars, text[1:])
			others = true
			continue
		}
		n := closing(t.projection[i:])
		if text != "(" || n < 4 {
			p.refuse(Dialect, "unexpected "+text+" in the projection")
		}
		expression := t.projection[i+1 : i+n]
		as := len(expression) - 2
		if expression[as].text != "AS" || !expression[as+1].isVariable() {
			p.refuse(Dialect, "an expression without a name in the projection")
		}
		if p.aggregate(t, expression[:as]) {
			aggregates = true
		} else {
			others = true
		}
		t.Vars = append(t.Vars, expression[as+1].text[1:])
		i += n
	}
	t.single = aggregates && len(t.groupBy) == 0
	if t.single && others {
		p.refuse(Aggregate, "an aggregate beside another column without GROUP BY")
	}
}

// aggregate examines one projected expression and reports whether it
// aggregates.
func (p *parser) aggregate(t *Template, expression []part) bool {
	found := false
	for _, e := range expression {
		found = found || isAggregate[e.text]
		switch e.text {
		case "SAMPLE", "GROUP_CONCAT":
			p.refuse(Aggregate, e.text)
		case "SUM", "AVG":
			t.sums = append(t.sums, len(t.Vars))
		}
	}
	if found && len(t.groupBy) == 0 {
		f := expression[0].text
		if f != "COUNT" && f != "SUM" || len(expression) < 2 || closing(expression[1:]) != len(expression)-2 {
			p.refuse(Aggregate, "the value over no rows is up to the endpoint")
		}
	}
	return found
}

// closing returns the index of the bracket that closes the one at the
// beginning, -1 if there is none.
func closing(list []part) int {
	depth := 0
	for i, p := range list {
		switch p.text {
		case "(", "{", "[":
			depth++
		case ")", "}", "]":
			if depth--; depth == 0 {
				return i
			}
		}
		if depth == 0 {
			return -1
		}
	}
	return -1
}

// constructed reads the template of a CONSTRUCT. Constants that are parameters
// of the pattern are the same parameters here.
func (p *parser) constructed(t *Template, template *sparql.Group) {
	for _, e := range template.Elements {
		if e.Word != "" {
			p.refuse(Dialect, "unexpected "+e.Word+" in the template of CONSTRUCT")
		}
		subject := p.created(e.Subject.Token)
		for _, x := range e.Properties {
			if x.Path.To > x.Path.From+1 {
				p.refuse(Dialect, "a path in the template of CONSTRUCT")
			}
			verb := p.created(x.Path.From)
			if verb.text == "a" {
				verb = part{sparql.IRI, rdfType, -1}
			}
			for _, o := range x.Objects {
				triple := [3]part{subject, verb, p.created(o.Token)}
				t.triples = append(t.triples, triple)
				for _, c := range triple {
					if c.isVariable() && !slices.Contains(t.Vars, c.text[1:]) {
						t.Vars = append(t.Vars, c.text[1:])
					}
				}
			}
		}
	}
}

// created returns a term of the template of a CONSTRUCT.
func (p *parser) created(i int) part {
	c := &p.list[i]
	if slot, ok := p.slots[c.text]; ok {
		c.param = slot
	}
	switch {
	case c.text == "[", c.text == "(", c.kind == sparql.BlankNode:
		p.refuse(BlankTemplate, "")
	case c.kind == sparql.Name:
		p.refuse(Dialect, "unexpected "+c.text+" in the template of CONSTRUCT")
	}
	return *c
}
