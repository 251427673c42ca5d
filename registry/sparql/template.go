package sparql

// OneTriple reports whether a CONSTRUCT makes one triple of a solution at most, as far as its template shows.
func OneTriple(text string) bool {
	t := Parse(text)
	if t.Err != nil || t.Tokens[t.Query.Form].keyword() != "CONSTRUCT" {
		return false
	}
	g := t.Query.Template
	if g == nil { // CONSTRUCT WHERE
		g = t.Query.Where
	}
	if g == nil || g.Select != nil || len(g.Elements) != 1 {
		return false
	}
	e := g.Elements[0]
	if e.Word != "" || !e.Subject.plain() || len(e.Properties) != 1 || len(e.Properties[0].Objects) != 1 {
		return false
	}
	p := e.Properties[0]
	return p.Path.To == p.Path.From+1 && p.Objects[0].plain()
}

// plain reports whether a node is a term without triples of its own.
func (n Node) plain() bool { return len(n.Properties)+len(n.Items) == 0 }
