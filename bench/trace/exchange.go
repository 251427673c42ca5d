package trace

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"

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
	Ordered   bool              `json:"ordered,omitzero"`
	Features  [][]int           `json:"features,omitzero"`
	Gaps      []Gap             `json:"gaps,omitzero"`
	Templates []int             `json:"templates,omitzero"`
	MergeCost MergeCost         `json:"merge_cost,omitzero"`
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
	x := exchanged{
		Queries: t.Queries, Revisions: t.Revisions, Times: t.Times, Ordered: t.Ordered,
		Features: t.Features, Gaps: t.Gaps, Templates: t.Templates, MergeCost: t.MergeCost,
	}
	for i := range t.Series {
		s := &t.Series[i]
		c := exchangedSeries{ID: &s.Query, Initial: s.Versions[0].Rows}
		for _, v := range s.Versions[1:] {
			c.Versions = append(c.Versions, exchangedVersion{v.Rev, v.Rows})
		}
		x.Changes = append(x.Changes, c)
	}
	return json.MarshalWrite(w, x)
}
