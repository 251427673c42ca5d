package merge

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// Probe returns the text that asks for the digests of all members at once. Each hash begins with
// the salt, letters and digits: an author of data could otherwise prepare two values with the
// same digest, and exchange them unseen. The hash is a column of a sub-select, because Virtuoso
// computes the expression of a BIND again in every place where its variable occurs.
func (t *Template) Probe(members [][]string, salt string) string {
	w := &writer{}
	i, n, high, low, opaque := t.fresh("i"), t.fresh("n"), t.fresh("high"), t.fresh("low"), t.fresh("opaque")
	m, y := t.fresh("m"), t.fresh("y")
	w.words("SELECT", i)
	w.words("( COUNT( * ) AS "+n+" )", "( SUM( "+number(m, 0)+" ) AS "+high+" )", "( SUM( "+number(m, digits)+" ) AS "+low+" )")
	w.words("( SUM( IF( BOUND( " + m + " ) , " + y + " , 1 ) ) AS " + opaque + " )")
	w.parts(t.dataset) // a sub-select has no FROM
	w.words("WHERE { { SELECT", i, "( REPLACE( MD5( CONCAT( \""+salt+"\"")
	for _, v := range t.Vars {
		w.words(",", termText("?"+v))
	}
	w.words(") ) , \"[a-f]\" , \"7\" ) AS", m, ")", "( IF( "+t.opaque()+" , 1 , 0 ) AS", y, ")")
	w.words("WHERE { {", t.query(t.writer(members), nil), "} } } } GROUP BY", i)
	return w.String()
}

// digits is the number of decimal digits in each sum's addends.
const digits = 12

// number is an expression for the digits of m after the first ones.
func number(m string, after int) string {
	return fmt.Sprintf("<%sinteger>( SUBSTR( %s , %d , %d ) )", xsd, m, after+1, digits)
}

// termText is an expression for the text of a variable's term. It is injective,
// except that blank nodes have the text of unbound variables.
func termText(v string) string {
	s := "STR( " + v + " )"
	sized := func(text string) string { return "STR( STRLEN( " + text + " ) ) , \":\" , " + text }
	iri := "CONCAT( \"I\" , " + sized(s) + " )"
	plain := "CONCAT( \"L\" , " + sized(s) + " , \"^\" , " + sized("STR( DATATYPE( "+v+" ) )") + " )"
	tagged := "CONCAT( \"L\" , " + sized(s) + " , LCASE( LANG( " + v + " ) ) , \"^\" )"
	term := "IF( ISIRI( " + v + " ) , " + iri + " , IF( LANG( " + v + " ) = \"\" , " + plain + " , " + tagged + " ) )"
	return "IF( BOUND( " + v + " ) , IF( ISBLANK( " + v + " ) , \"U\" , " + term + " ) , \"U\" )"
}

// opaque is a condition for rows with a blank node, which their text does not identify.
func (t *Template) opaque() string {
	var list []string
	for _, v := range t.Vars {
		list = append(list, "BOUND( ?"+v+" ) && ISBLANK( ?"+v+" )")
	}
	return strings.Join(list, " || ")
}

// Digests reads the answer of a probe. known is false for members with rows
// that a probe cannot identify. The error is ErrAnswer.
func (t *Template) Digests(answer *diff.Result, members int) (list []Digest, known []bool, err error) {
	list, known = make([]Digest, members), make([]bool, members)
	for m := range known {
		known[m] = true
	}
	columns := make([]int, 5)
	for k, name := range []string{"i", "n", "high", "low", "opaque"} {
		if columns[k] = slices.Index(answer.Vars(), t.fresh(name)[1:]); columns[k] < 0 {
			return nil, nil, fmt.Errorf("%w: no column %s", ErrAnswer, t.fresh(name))
		}
	}
	for row := range answer.Len() {
		terms := answer.Terms(row)
		var values [5]int64
		for k, c := range columns {
			if values[k], err = wholeNumber(terms[c].Value); err != nil {
				return nil, nil, fmt.Errorf("%w: %q is not a number", ErrAnswer, terms[c].Value)
			}
		}
		m := values[0]
		if m < 0 || m >= int64(members) || list[m] != (Digest{}) {
			return nil, nil, fmt.Errorf("%w: %d is not the number of a member, or occurs twice", ErrAnswer, m)
		}
		list[m], known[m] = Digest{values[1], values[2], values[3]}, values[4] == 0
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

// decimals makes a decimal number of a hexadecimal one. Casting it is far cheaper than
// decoding hexadecimal digits, and 24 of these digits still tell as much as 51 bits.
var decimals = strings.NewReplacer("a", "7", "b", "7", "c", "7", "d", "7", "e", "7", "f", "7")

// Digest computes what a probe with the salt returns if the endpoint would still answer with
// r. ok is false if r has a blank node. A digest that differs from the probe's
// says only that the member must be asked in full.
func (t *Template) Digest(r *diff.Result, salt string) (d Digest, ok bool) {
	order := make([]int, len(t.Vars))
	for i, v := range t.Vars {
		order[i] = slices.Index(r.Vars(), v)
	}
	var text []byte
	for row := range r.Len() {
		terms := r.Terms(row)
		text = append(text[:0], salt...)
		for _, c := range order {
			if c >= 0 && terms[c].Kind == diff.Blank {
				return Digest{}, false
			}
			if c >= 0 {
				text = appendTermText(text, terms[c])
			}
		}
		sum := md5.Sum(text)
		m := decimals.Replace(hex.EncodeToString(sum[:]))
		high, _ := strconv.ParseInt(m[:digits], 10, 64)
		low, _ := strconv.ParseInt(m[digits:2*digits], 10, 64)
		d = Digest{d.Rows + 1, d.High + high, d.Low + low}
	}
	return d, true
}

// appendTermText appends what termText evaluates to.
func appendTermText(b []byte, t diff.Term) []byte {
	sized := func(s string) {
		b = strconv.AppendInt(b, int64(utf8.RuneCountInString(s)), 10)
		b = append(append(b, ':'), s...)
	}
	switch t.Kind {
	case diff.Unbound:
		return append(b, 'U')
	case diff.IRI:
		b = append(b, 'I')
		sized(t.Value)
		return b
	}
	b = append(b, 'L')
	sized(t.Value)
	if b = append(append(b, t.Lang...), '^'); t.Lang == "" {
		if t.Datatype == "" {
			t.Datatype = xsd + "string"
		}
		sized(t.Datatype)
	}
	return b
}
