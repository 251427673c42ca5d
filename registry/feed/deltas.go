package feed

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/freshet/freshet/registry/sparql"
)

// mostObjects is the maximum number of events of a message.
const mostObjects = 10_000

// mostDeltas is the maximum number of triples of an event. With more it may have changed anything.
const mostDeltas = 50_000

// A delta is one element of a message of deltas.
type delta struct {
	Inserts []deltaTriple `json:"inserts"`
	Deletes []deltaTriple `json:"deletes"`
}

type deltaTriple struct {
	Subject   *deltaTerm `json:"subject"`
	Predicate *deltaTerm `json:"predicate"`
	Object    *deltaTerm `json:"object"`
	Graph     *deltaTerm `json:"graph"`
}

// A deltaTerm is a term of SPARQL results in JSON.
type deltaTerm struct {
	Type  string  `json:"type"`
	Value *string `json:"value"`
}

// ReadDeltas reads a message of the kind deltas that came at a time: a JSON array of objects with inserts
// and deletes, whose triples have terms as in SPARQL results. Each object is an event. A message is read whole
// or not at all.
func ReadDeltas(body []byte, at time.Time) ([]Event, error) {
	bad := func(err error) error {
		return fmt.Errorf("not a JSON array of objects with inserts and deletes: %w", err)
	}
	if !json.Valid(body) || !bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		var list []delta
		return nil, bad(cmp.Or(json.Unmarshal(body, &list), errors.New("it is null")))
	}
	in := json.NewDecoder(bytes.NewReader(body))
	_, _ = in.Token() // the bracket
	events := []Event{}
	for in.More() {
		var d delta
		if err := in.Decode(&d); err != nil {
			return nil, bad(err)
		}
		if len(events) == mostObjects {
			return nil, fmt.Errorf("the message has more than %d objects: send several messages", mostObjects)
		}
		if d.Inserts == nil && d.Deletes == nil {
			return nil, fmt.Errorf("object %d has neither inserts nor deletes, so it would be lost: give one of them, as a list "+
				"of triples", len(events)+1)
		}
		e := Event{Place: Place{Time: at}}
		for from, to := range map[*[]deltaTriple]*[]sparql.Pattern{&d.Inserts: &e.Added, &d.Deletes: &e.Removed} {
			for _, t := range *from {
				p, err := t.pattern()
				if err != nil {
					return nil, err
				}
				*to = append(*to, p)
			}
		}
		if len(e.Added)+len(e.Removed) > mostDeltas {
			e = Event{Place: e.Place, All: true}
		}
		events = append(events, e)
	}
	return events, nil
}

func (t deltaTriple) pattern() (p sparql.Pattern, err error) {
	if t.Subject == nil || t.Predicate == nil || t.Object == nil {
		return p, errors.New("a triple has no subject, predicate or object")
	}
	terms := [4]*deltaTerm{t.Subject, t.Predicate, t.Object, t.Graph}
	for i, to := range []*string{&p.Subject, &p.Predicate, &p.Object, &p.Graph} {
		if terms[i] == nil {
			continue
		}
		switch x := terms[i]; {
		case x.Value == nil:
			return p, fmt.Errorf("a term of the type %.40q has no value", x.Type)
		case x.Type == "uri":
			*to = "<" + *x.Value + ">"
		case x.Type == "literal", x.Type == "typed-literal":
			*to = `"` + *x.Value
		case x.Type == "bnode":
			*to = "_"
		default:
			return p, fmt.Errorf("%.40q is none of the types uri, literal, typed-literal, bnode", x.Type)
		}
	}
	if p.Predicate[0] != '<' || p.Subject[0] == '"' || p.Graph != "" && p.Graph[0] == '"' {
		return p, fmt.Errorf("a triple has a term where its type is not allowed: %s %s %s", p.Subject, p.Predicate, p.Object)
	}
	return p, nil
}
