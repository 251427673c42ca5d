package formats

import (
	"encoding/xml"
	"strconv"
	"strings"

	"github.com/freshet/freshet/diff"
)

// readRDFXML reads RDF 1.1 XML. It is written here because knakk/rdf reports
// the end of the document at any element without a triple, and everything after
// it would look deleted. It refuses two things: XML literals, and a document
// whose root is not rdf:RDF. The latter is legal if the root is the only node;
// but every XML document looks like that, including the error page that a proxy
// sends with status 200, which would replace the result.
func readRDFXML(body []byte, g *tripleSink) error {
	dec := newXMLDecoder(body, g.stop)
	x := &rdfXMLReader{dec: dec, tripleSink: g}
	root, err := firstElement(dec)
	if err == nil && root.Name != (xml.Name{Space: rdfSpace, Local: "RDF"}) {
		err = malformed("the root element is %q, not rdf:RDF", Bounded(OneLine(root.Name.Local)))
	}
	if err == nil {
		var here xmlScope
		if here, err = x.in(xmlScope{}, root); err != nil {
			return err
		}
		err = x.children(func(e xml.StartElement) error {
			_, err := x.node(e, here)
			return err
		})
	}
	if err == nil {
		err = nothingMore(dec)
	}
	return xmlError(err)
}

type rdfXMLReader struct {
	dec *xml.Decoder
	*tripleSink
	depth int
}

// An xmlScope holds xml:base and xml:lang in force at an element.
type xmlScope struct {
	base *iriBase
	lang string
}

func (x *rdfXMLReader) in(s xmlScope, e xml.StartElement) (xmlScope, error) {
	for _, a := range e.Attr {
		switch {
		case a.Name == xml.Name{Space: itsSpace, Local: "dir"}:
			return s, diff.NotRDF11("base direction (its:dir)")
		case a.Name.Space == rdfSpace && strings.HasPrefix(a.Name.Local, "annotation"):
			return s, diff.NotRDF11("reifier or an annotation of a triple")
		}
		if a.Name.Space != xmlSpace && a.Name.Space != "xml" {
			continue
		}
		switch a.Name.Local {
		case "base":
			if abs, err := x.resolve(s.base, a.Value); err == nil {
				s.base = baseOf(abs)
			} else if limited(err) {
				return s, err
			}
		case "lang":
			s.lang = a.Value
		}
	}
	return s, nil
}

// children is eachChild with a limit to the depth.
func (x *rdfXMLReader) children(f func(xml.StartElement) error) error {
	if x.depth++; x.depth > deepest {
		return malformed("more than %d elements deep", deepest)
	}
	defer func() { x.depth-- }()
	return eachChild(x.dec, f)
}

// syntaxNames must not name a property or a class.
var syntaxNames = map[string]bool{
	"RDF": true, "ID": true, "about": true, "parseType": true, "resource": true, "nodeID": true, "datatype": true,
	"bagID": true, "aboutEach": true, "aboutEachPrefix": true,
}

// named returns the IRI of an element's or attribute's name.
func named(n xml.Name) (diff.Term, error) {
	iri := n.Space + n.Local
	if scheme(iri) == "" || n.Space == rdfSpace && syntaxNames[n.Local] {
		return diff.Term{}, malformed("name %q is not allowed here", Bounded(OneLine(n.Local)))
	}
	return diff.Term{Kind: diff.IRI, Value: iri}, nil
}

// node reads a node element with its properties.
func (x *rdfXMLReader) node(e xml.StartElement, out xmlScope) (diff.Term, error) {
	here, err := x.in(out, e)
	if err != nil {
		return diff.Term{}, err
	}
	s, err := x.subject(e, here, "about")
	if err != nil {
		return s, err
	}
	if s.Kind == diff.Unbound {
		s = x.fresh()
	}
	if e.Name != (xml.Name{Space: rdfSpace, Local: "Description"}) {
		class, err := named(e.Name)
		if err == nil {
			err = x.add(s, rdfTerm("type"), class)
		}
		if err != nil {
			return s, err
		}
	}
	if err := x.attributes(e, s, here); err != nil {
		return s, err
	}
	return s, x.properties(s, here)
}

func (x *rdfXMLReader) properties(s diff.Term, here xmlScope) error {
	items := 0
	return x.children(func(e xml.StartElement) error {
		if e.Name == (xml.Name{Space: rdfSpace, Local: "li"}) {
			items++
			e.Name.Local = "_" + strconv.Itoa(items)
		}
		return x.property(e, s, here)
	})
}

// subject returns the node that attributes name: an IRI by the given attribute
// or rdf:ID, or a blank node by rdf:nodeID. Without any of them it is unbound.
func (x *rdfXMLReader) subject(e xml.StartElement, here xmlScope, by string) (t diff.Term, err error) {
	n := 0
	for _, a := range e.Attr {
		if a.Name.Space != rdfSpace {
			continue
		}
		switch {
		case a.Name.Local == by:
			t.Kind = diff.IRI
			t.Value, err = x.resolve(here.base, a.Value)
		case a.Name.Local == "ID" && by == "about":
			t.Kind = diff.IRI
			t.Value, err = x.resolve(here.base, "#"+a.Value)
		case a.Name.Local == "nodeID":
			t = diff.Term{Kind: diff.Blank, Value: "l" + a.Value}
		default:
			continue
		}
		if n++; err != nil {
			return t, err
		}
	}
	if n > 1 {
		return t, malformed("an element that names two nodes")
	}
	return t, nil
}

// attributes adds the properties that are written as attributes.
func (x *rdfXMLReader) attributes(e xml.StartElement, s diff.Term, here xmlScope) error {
	for _, a := range e.Attr {
		if !isProperty(a) {
			continue
		}
		p, err := named(a.Name)
		if err != nil {
			return err
		}
		o := diff.Term{Kind: diff.Literal, Value: a.Value, Lang: here.lang}
		if p.Value == rdfSpace+"type" {
			o = diff.Term{Kind: diff.IRI}
			if o.Value, err = x.resolve(here.base, a.Value); err != nil {
				return err
			}
		}
		if err := x.add(s, p, o); err != nil {
			return err
		}
	}
	return nil
}

func isProperty(a xml.Attr) bool {
	switch a.Name.Space {
	case xmlSpace, "xml", "xmlns":
		return false
	case "":
		return a.Name.Local != "xmlns"
	}
	return a.Name.Space != rdfSpace || !syntaxNames[a.Name.Local]
}

// property reads a property element with its value.
func (x *rdfXMLReader) property(e xml.StartElement, s diff.Term, out xmlScope) error {
	here, err := x.in(out, e)
	if err != nil {
		return err
	}
	p, err := named(e.Name)
	if err != nil {
		return err
	}
	var o diff.Term
	switch parse := attribute(e, rdfSpace, "parseType"); parse {
	case "":
		o, err = x.value(e, here)
	case "Resource":
		o = x.fresh()
		err = x.properties(o, here)
	case "Collection":
		o, err = x.collection(here)
	case "Triple":
		return diff.NotRDF11("triple term")
	default:
		return malformed("values of the kind %q are not supported", Bounded(OneLine(parse)))
	}
	if err == nil {
		err = x.add(s, p, o)
	}
	if id := attribute(e, rdfSpace, "ID"); err == nil && id != "" {
		err = x.reify(id, here, s, p, o)
	}
	return err
}

// reify describes the triple under the name that rdf:ID gives it.
func (x *rdfXMLReader) reify(id string, here xmlScope, s, p, o diff.Term) error {
	iri, err := x.resolve(here.base, "#"+id)
	if err != nil {
		return err
	}
	r := diff.Term{Kind: diff.IRI, Value: iri}
	for _, t := range [][2]diff.Term{{rdfTerm("type"), rdfTerm("Statement")}, {rdfTerm("subject"), s}, {rdfTerm("predicate"), p}, {rdfTerm("object"), o}} {
		if err := x.add(r, t[0], t[1]); err != nil {
			return err
		}
	}
	return nil
}

// value reads the content of a property element: a node named by attributes,
// one node element, or text.
func (x *rdfXMLReader) value(e xml.StartElement, here xmlScope) (diff.Term, error) {
	o, err := x.subject(e, here, "resource")
	if err != nil {
		return o, err
	}
	for _, a := range e.Attr {
		if o.Kind == diff.Unbound && isProperty(a) {
			o = x.fresh()
		}
	}
	if o.Kind != diff.Unbound {
		if err := x.attributes(e, o, here); err != nil {
			return o, err
		}
		return o, x.children(func(xml.StartElement) error { return malformed("a property with two values") })
	}
	return x.content(e, here)
}

func (x *rdfXMLReader) content(e xml.StartElement, here xmlScope) (o diff.Term, err error) {
	if x.depth++; x.depth > deepest {
		return o, malformed("more than %d elements deep", deepest)
	}
	defer func() { x.depth-- }()
	var text strings.Builder
	for {
		t, err := x.dec.Token()
		if err != nil {
			return o, err
		}
		switch t := t.(type) {
		case xml.CharData:
			text.Write(t)
		case xml.StartElement:
			if o.Kind != diff.Unbound {
				return o, malformed("a property with two values")
			}
			if o, err = x.node(t, here); err != nil {
				return o, err
			}
		case xml.EndElement:
			if o.Kind != diff.Unbound {
				if strings.TrimSpace(text.String()) != "" {
					return o, malformed("text beside a value")
				}
				return o, nil
			}
			o = diff.Term{Kind: diff.Literal, Value: text.String(), Lang: here.lang}
			if dt := attribute(e, rdfSpace, "datatype"); dt != "" {
				o.Lang = ""
				o.Datatype, err = x.resolve(here.base, dt)
			}
			return o, err
		}
	}
}

func (x *rdfXMLReader) collection(here xmlScope) (diff.Term, error) {
	l := list{tripleSink: x.tripleSink}
	err := x.children(func(e xml.StartElement) error {
		o, err := x.node(e, here)
		if err != nil {
			return err
		}
		return l.append(o)
	})
	if err != nil {
		return diff.Term{}, err
	}
	return l.end()
}
