package merge

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/freshet/freshet/diff"
)

// A Digest describes the rows of a result. The addends of the two sums have 12 decimal
// digits, so that sums over thousands of rows stay exact where an endpoint adds in doubles.
type Digest struct {
	Rows, High, Low int64
}

// Probes reports whether a probe can confirm results of the template: those of
// a SELECT without ORDER BY that has rows of its own.
func (t *Template) Probes() bool { return t.Form == diff.Select && !t.Ordered && !t.single }

// Probe returns the text that asks for the digests of all members at once. The hash is a
// column of a sub-select, because Virtuoso computes the expression of a BIND again in every
// place where its variable occurs. The text is short, because endpoints take as long to
// compile it as to hash a few hundred rows.
func (t *Template) Probe(members [][]string) string {
	w := t.writer(members)
	n, high, low, m := t.fresh("n"), t.fresh("high"), t.fresh("low"), t.fresh("m")
	w.words("SELECT", w.number, "( COUNT( * ) AS "+n+" )", "( SUM( "+number(m, 0)+" ) AS "+high+" )", "( SUM( "+number(m, digits)+" ) AS "+low+" )")
	w.parts(t.dataset) // a sub-select has no FROM
	w.words("WHERE { { SELECT", w.number, "( REPLACE( MD5( CONCAT( \"\"")
	for _, v := range t.Vars {
		w.words(",", termText("?"+v))
	}
	w.words(") ) , \"[a-f]+\" , \"7\" ) AS", m, ") WHERE {")
	if t.plain {
		w.values()
		w.parts(t.pattern)
	} else {
		w.words("{", t.query(members, nil), "}")
	}
	w.words("} } } GROUP BY", w.number)
	return w.String()
}

// digits is the number of decimal digits in each sum's addends.
const digits = 12

// number is an expression for the digits of m after the first ones.
func number(m string, after int) string {
	return fmt.Sprintf("<%sinteger>( SUBSTR( %s , %d , %d ) )", xsd, m, after+1, digits)
}

// termText is an expression for the text of a variable's term. It is injective on lists
// of terms, because IRIs and language tags have no spaces and the length of a literal
// precedes it. All blank nodes have one text, which no other term has.
func termText(v string) string {
	kind := "IF( LANG( " + v + " ) = \"\" , CONCAT( \"^\" , STR( DATATYPE( " + v + " ) ) ) , CONCAT( \"@\" , LCASE( LANG( " + v + " ) ) ) )"
	literal := "CONCAT( " + kind + " , \" \" , STR( STRLEN( STR( " + v + " ) ) ) , \":\" , STR( " + v + " ) )"
	term := "IF( ISIRI( " + v + " ) , CONCAT( \"<\" , STR( " + v + " ) , \" \" ) , " + literal + " )"
	return "IF( BOUND( " + v + " ) , IF( ISBLANK( " + v + " ) , \"_\" , " + term + " ) , \"?\" )"
}

// Digests reads the answer of a probe. known is false for members with sums that the
// endpoint could not compute. The error is ErrAnswer.
func (t *Template) Digests(answer *diff.Result, members int) (list []Digest, known []bool, err error) {
	list, known = make([]Digest, members), make([]bool, members)
	for m := range known {
		known[m] = true
	}
	columns := make([]int, 4)
	for k, name := range []string{"i", "n", "high", "low"} {
		if columns[k] = slices.Index(answer.Vars(), t.fresh(name)[1:]); columns[k] < 0 {
			return nil, nil, fmt.Errorf("%w: no column %s", ErrAnswer, t.fresh(name))
		}
	}
	for row := range answer.Len() {
		terms, whole := answer.Terms(row), true
		var values [4]int64
		for k, c := range columns {
			if k >= 2 && terms[c].Kind == diff.Unbound {
				whole = false
				continue
			}
			if values[k], err = wholeNumber(terms[c].Value); err != nil {
				return nil, nil, fmt.Errorf("%w: %q is not a number", ErrAnswer, terms[c].Value)
			}
		}
		m := values[0]
		if m < 0 || m >= int64(members) || list[m] != (Digest{}) {
			return nil, nil, fmt.Errorf("%w: %d is not the number of a member, or occurs twice", ErrAnswer, m)
		}
		list[m], known[m] = Digest{values[1], values[2], values[3]}, whole
	}
	return list, known, nil
}

// wholeNumber reads a sum, which endpoints write as an integer, a decimal or a
// double.
func wholeNumber(s string) (int64, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && f != float64(int64(f)) {
		err = strconv.ErrSyntax
	}
	return int64(f), err
}

// letters matches what is replaced in the hexadecimal digits of a hash. Casting decimal
// digits is far cheaper than decoding hexadecimal ones, and the first 24 characters that
// are left still tell more than 48 bits.
var letters = regexp.MustCompile("[a-f]+")

// Digest computes what a probe returns if the endpoint would still answer with
// r. ok is false if r has a blank node. A digest that differs from the probe's
// says only that the member must be asked in full.
func (t *Template) Digest(r *diff.Result) (d Digest, ok bool) {
	order := make([]int, len(t.Vars))
	for i, v := range t.Vars {
		order[i] = slices.Index(r.Vars(), v)
	}
	var text []byte
	for row := range r.Len() {
		terms := r.Terms(row)
		text = text[:0]
		for _, c := range order {
			if c >= 0 && terms[c].Kind == diff.Blank {
				return Digest{}, false
			}
			if c >= 0 {
				text = appendTermText(text, terms[c])
			}
		}
		sum := md5.Sum(text)
		m := letters.ReplaceAllLiteralString(hex.EncodeToString(sum[:]), "7")
		if len(m) <= digits { // one row in billions: the endpoint cannot add nothing
			return Digest{}, false
		}
		high, _ := strconv.ParseInt(m[:digits], 10, 64)
		low, _ := strconv.ParseInt(m[digits:min(len(m), 2*digits)], 10, 64)
		d = Digest{d.Rows + 1, d.High + high, d.Low + low}
	}
	return d, true
}

// appendTermText appends what termText evaluates to.
func appendTermText(b []byte, t diff.Term) []byte {
	switch t.Kind {
	case diff.Unbound:
		return append(b, '?')
	case diff.IRI:
		return append(append(append(b, '<'), t.Value...), ' ')
	}
	switch {
	case t.Lang != "":
		b = append(append(b, '@'), t.Lang...)
	case t.Datatype == "":
		b = append(b, "^"+xsd+"string"...)
	default:
		b = append(append(b, '^'), t.Datatype...)
	}
	b = strconv.AppendInt(append(b, ' '), int64(utf8.RuneCountInString(t.Value)), 10)
	return append(append(b, ':'), t.Value...)
}
