package registry

import (
	"encoding/json"
	"testing"

	"github.com/freshet/freshet/diff"
)

// Numbers are what XSD writes as numbers. They are compared exactly, and nothing else is compared
// with a number.
func TestConditionNumbers(t *testing.T) {
	const xsd = "http://www.w3.org/2001/XMLSchema#"
	for _, c := range []struct {
		term diff.Term
		op   string
		than string
		met  bool
	}{
		{diff.Term{Value: "Infinity"}, ">", "100", false},
		{diff.Term{Value: "Infinity"}, "!=", "100", true},
		{diff.Term{Value: "NaN"}, ">", "100", false},
		{diff.Term{Value: "0x1p10"}, "=", "1024", false},
		{diff.Term{Value: "0x1p10"}, "!=", "1024", true},
		{diff.Term{Value: "1e400"}, ">", "100", true},
		{diff.Term{Value: "1e400"}, "=", "1e401", false},
		{diff.Term{Value: "-1e400"}, "<", "-1e399", true},
		{diff.Term{Value: "1e-400"}, "=", "0", false},
		{diff.Term{Value: "1e-400"}, ">", "0", true},
		{diff.Term{Value: "0e9"}, "=", "0", true},
		{diff.Term{Value: "9007199254740993"}, "=", "9007199254740992", false},
		{diff.Term{Value: "9007199254740993"}, "=", "9007199254740993", true},
		{diff.Term{Value: "9007199254740993e0"}, "=", "9007199254740992", false},
		{diff.Term{Value: "0.00125e3"}, "=", "1.25", true},
		{diff.Term{Value: "12E1"}, "=", "120.0", true},
		{diff.Term{Value: "1e99999999999999999999"}, ">", "1e9", true},
		{diff.Term{Value: "1_0"}, "=", "10", false},
		{diff.Term{Value: "9007199254740993", Datatype: xsd + "integer"}, "=", "9007199254740992", false},
		{diff.Term{Value: "9007199254740993", Datatype: xsd + "integer"}, ">", "9007199254740992", true},
		{diff.Term{Value: "-9007199254740993", Datatype: xsd + "integer"}, "<", "-9007199254740992", true},
		{diff.Term{Value: "+0012.50", Datatype: xsd + "decimal"}, "=", "12.5", true},
		{diff.Term{Value: "-0"}, "=", "0", true},
		{diff.Term{Value: ".5"}, "<", "0.51", true},
		{diff.Term{Value: "1e3", Datatype: xsd + "double"}, "=", "1000", true},
		{diff.Term{Value: "INF", Datatype: xsd + "double"}, ">", "1e308", true},
		{diff.Term{Value: "-INF", Datatype: xsd + "double"}, "<", "-1e308", true},
		{diff.Term{Value: "INF"}, ">", "1", false},
		{diff.Term{Value: "12", Lang: "en"}, ">", "1", false},
		{diff.Term{Kind: diff.IRI, Value: "12"}, ">", "1", false},
		{diff.Term{Value: "1979", Datatype: xsd + "gYear"}, ">", "1900", true},
	} {
		if c.term.Kind == diff.Unbound {
			c.term.Kind = diff.Literal
		}
		x := Condition{Var: "v", Op: c.op, Value: json.Number(c.than)}
		if err := x.Check(); err != nil {
			t.Error(err)
		}
		if got := x.Meets(c.term); got != c.met {
			t.Errorf("%+v %s %s: %v", c.term, c.op, c.than, got)
		}
	}
}
