package trace

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// exchanged is a trace in the exchange format, which is one JSON object:
//
//	{"queries":N,"revisions":R,"exec_ms":[[…N ints…],… R+1 rows, row 0 = t0],
//	 "changes":[{"id":q,"initial":[row ids],"versions":[{"rev":r,"rows":[row ids]},…]},…],
//	 "ordered":bool,"features":[[ints] per query],"gaps":[{"rev":r,"id":q,"outcome":"…"},…],
//	 "templates":[one number per query],"merge_cost":{"request_ms":a,"values":b,"probe":c}}
//
// The last five are optional. Readers ignore unknown members.
type exchanged struct {
	Queries   int               `json:"queries"`
	Revisions int               `json:"revisions"`
	Times     [][]int32         `json:"exec_ms"`
	Changes   []exchangedSeries `json:"changes"`
	Ordered   bool              `json:"ordered"`
	Features  [][]int           `json:"features"`
	Gaps      []Gap             `json:"gaps"`
	Templates []int             `json:"templates"`
	MergeCost MergeCost         `json:"merge_cost"`
}

type exchangedSeries struct {
	ID       *int               `json:"id"`
	Initial  []int64            `json:"initial"`
	Versions []exchangedVersion `json:"versions"`
}

type exchangedVersion struct {
	Rev  int     `json:"rev"`
	Rows []int64 `json:"rows"`
}

// ReadJSON reads the exchange format. Its errors name the place.
func ReadJSON(r io.Reader) (*Trace, error) {
	d := jsontext.NewDecoder(bufio.NewReaderSize(r, 1<<20))
	x := exchanged{Queries: -1, Revisions: -1}
	if err := x.decode(d); err != nil {
		return nil, fmt.Errorf("%w: at %s, byte %d: %w", ErrInvalid, cmp.Or(string(d.StackPointer()), "the top"), d.InputOffset(), err)
	}
	switch {
	case x.Queries < 0:
		return nil, wrong("queries", "it is missing")
	case x.Revisions < 0:
		return nil, wrong("revisions", "it is missing")
	}
	t := &Trace{
		Queries: x.Queries, Revisions: x.Revisions, Times: x.Times, Ordered: x.Ordered,
		Features: x.Features, Gaps: x.Gaps, Templates: x.Templates, MergeCost: x.MergeCost,
	}
	for _, c := range x.Changes {
		s := Series{Query: -1, Versions: []Version{{Rows: c.Initial}}}
		if c.ID != nil {
			s.Query = *c.ID
		}
		for _, v := range c.Versions {
			s.Versions = append(s.Versions, Version{Rev: v.Rev, Rows: v.Rows})
		}
		t.Series = append(t.Series, s)
	}
	return t, t.Seal()
}

// decode reads the object and checks that nothing follows it.
func (x *exchanged) decode(d *jsontext.Decoder) error {
	switch d.PeekKind() {
	case '[', '"', '0', 'n', 't', 'f':
		return errors.New("a trace is an object")
	}
	if err := json.UnmarshalDecode(d, x); err != nil {
		return err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return errors.Join(errors.New("something follows the trace"), err)
	}
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
		if err := writeMember(b, "gaps", t.Gaps); err != nil {
			return err
		}
	}
	if t.Templates != nil {
		if err := writeMember(b, "templates", t.Templates); err != nil {
			return err
		}
	}
	if t.MergeCost != (MergeCost{}) {
		return writeMember(b, "merge_cost", t.MergeCost)
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
