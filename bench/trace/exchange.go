package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The exchange format is one JSON object:
//
//	{"queries":N,"revisions":R,"exec_ms":[[…N ints…],… R+1 rows, row 0 = t0],
//	 "changes":[{"id":q,"initial":[row ids],"versions":[{"rev":r,"rows":[row ids]},…]},…],
//	 "ordered":bool,"features":[[ints] per query],"gaps":[{"rev":r,"id":q,"outcome":"…"},…]}
//
// The last three are optional. Readers ignore unknown members.

// jsonSeries is one element of "changes".
type jsonSeries struct {
	ID       int           `json:"id"`
	Initial  []int64       `json:"initial"`
	Versions []jsonVersion `json:"versions"`
}

type jsonVersion struct {
	Rev  int     `json:"rev"`
	Rows []int64 `json:"rows"`
}

// ReadJSON reads the exchange format. Its errors name the place.
func ReadJSON(r io.Reader) (*Trace, error) {
	d := jsontext.NewDecoder(bufio.NewReaderSize(r, 1<<20))
	t := &Trace{Queries: -1, Revisions: -1}
	if err := t.decode(d); err != nil {
		if errors.Is(err, ErrInvalid) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: at %s, byte %d: %w", ErrInvalid, pointer(d), d.InputOffset(), err)
	}
	switch {
	case t.Queries < 0:
		return nil, wrong("queries", "it is missing")
	case t.Revisions < 0:
		return nil, wrong("revisions", "it is missing")
	}
	return t, t.Seal()
}

func pointer(d *jsontext.Decoder) string {
	if p := string(d.StackPointer()); p != "" {
		return p
	}
	return "the top"
}

func (t *Trace) decode(d *jsontext.Decoder) error {
	if k := d.PeekKind(); k != '{' {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		return fmt.Errorf("a trace is an object")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := t.member(d, name.String()); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return errors.Join(errors.New("something follows the trace"), err)
	}
	return nil
}

func (t *Trace) member(d *jsontext.Decoder, name string) error {
	switch name {
	case "queries":
		return json.UnmarshalDecode(d, &t.Queries)
	case "revisions":
		return json.UnmarshalDecode(d, &t.Revisions)
	case "ordered":
		return json.UnmarshalDecode(d, &t.Ordered)
	case "features":
		return json.UnmarshalDecode(d, &t.Features)
	case "gaps":
		return json.UnmarshalDecode(d, &t.Gaps)
	case "exec_ms":
		return each(d, func() error { return t.row(d) })
	case "changes":
		return each(d, func() error { return t.entry(d) })
	}
	return d.SkipValue()
}

// each calls f before every element of an array.
func each(d *jsontext.Decoder, f func() error) error {
	if d.PeekKind() != '[' {
		return errors.New("an array is expected here")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for k := d.PeekKind(); k != ']'; k = d.PeekKind() {
		if k == 0 {
			_, err := d.ReadToken()
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

func (t *Trace) row(d *jsontext.Decoder) error {
	row := make([]int32, 0, max(0, min(t.Queries, 1<<20)))
	err := each(d, func() error {
		v, err := d.ReadValue()
		if err != nil {
			return err
		}
		ms, err := strconv.ParseUint(string(v), 10, 31)
		if err != nil {
			return wrong(fmt.Sprintf("exec_ms[%d][%d]", len(t.Times), len(row)), "%s is not a whole number of milliseconds", v)
		}
		row = append(row, int32(ms))
		return nil
	})
	t.Times = append(t.Times, row)
	return err
}

func (t *Trace) entry(d *jsontext.Decoder) error {
	e := jsonSeries{ID: -1}
	if err := json.UnmarshalDecode(d, &e); err != nil {
		return err
	}
	s := Series{Query: e.ID, Versions: []Version{{Rows: e.Initial}}}
	for _, v := range e.Versions {
		s.Versions = append(s.Versions, Version{Rev: v.Rev, Rows: v.Rows})
	}
	t.Series = append(t.Series, s)
	return nil
}

// WriteJSON writes the exchange format.
func (t *Trace) WriteJSON(w io.Writer) error {
	b := bufio.NewWriterSize(w, 1<<20)
	fmt.Fprintf(b, `{"queries":%d,"revisions":%d`, t.Queries, t.Revisions)
	if t.Ordered {
		b.WriteString(`,"ordered":true`)
	}
	b.WriteString(`,"exec_ms":[`)
	for i, row := range t.Times {
		separate(b, i)
		writeList(b, row)
	}
	b.WriteString("],\n\"changes\":[")
	for i, s := range t.Series {
		separate(b, i)
		fmt.Fprintf(b, `{"id":%d,"initial":`, s.Query)
		writeList(b, s.Versions[0].Rows)
		b.WriteString(`,"versions":[`)
		for k, v := range s.Versions[1:] {
			if k > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, `{"rev":%d,"rows":`, v.Rev)
			writeList(b, v.Rows)
			b.WriteByte('}')
		}
		b.WriteString("]}")
	}
	b.WriteByte(']')
	if err := t.writeRest(b); err != nil {
		return err
	}
	b.WriteString("}\n")
	return b.Flush()
}

func (t *Trace) writeRest(b *bufio.Writer) error {
	if t.Features != nil {
		if err := writeMember(b, "features", t.Features); err != nil {
			return err
		}
	}
	if t.Gaps != nil {
		return writeMember(b, "gaps", t.Gaps)
	}
	return nil
}

func writeMember(b *bufio.Writer, name string, v any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Fprintf(b, ",\n%q:%s", name, text)
	}
	return err
}

func separate(b *bufio.Writer, i int) {
	if i > 0 {
		b.WriteString(",\n")
	}
}

func writeList[T int32 | int64](b *bufio.Writer, list []T) {
	b.WriteByte('[')
	for i, v := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(strconv.AppendInt(b.AvailableBuffer(), int64(v), 10))
	}
	b.WriteByte(']')
}
