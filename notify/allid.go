package notify

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/registry"
)

var errPosition = errors.New("not a position")

// id is where the stream stands: its offset, and the queries of which something
// up to there is kept back, with what the reader knows of them. The epoch of a
// query is not part of it: when the query has begun anew since, that is told by
// a change after the offset.
func (t *allStream) id() string {
	var b strings.Builder
	b.WriteString(t.at.String())
	for _, q := range slices.Sorted(maps.Keys(t.held)) {
		b.WriteString("~" + q + ":" + strconv.FormatUint(t.held[q].base.Seq, 10))
	}
	return b.String()
}

// parse reads an id. What is kept back is only named: restore looks it up.
func (t *allStream) parse(id string) (err error) {
	if strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errPosition // it is sent back in ids, which end with their line
	}
	parts := strings.Split(id, "~")
	if t.at, err = registry.ParsePosition(parts[0]); err != nil || len(parts) > mostHeld+1 {
		return errPosition
	}
	for _, p := range parts[1:] {
		at := strings.LastIndexByte(p, ':')
		if at <= 0 || at > 200 {
			return errPosition
		}
		seq, err := strconv.ParseUint(p[at+1:], 10, 53)
		if err != nil {
			return errPosition
		}
		t.held[p[:at]] = &heldBack{base: registry.Position{Seq: seq}}
	}
	return nil
}

// restore finds again what an id says is kept back.
func (t *allStream) restore() error {
	for q, h := range t.held {
		err := t.find(q, h)
		var gap *registry.GapError
		switch {
		case errors.As(err, &gap) && gap.Reason == registry.TooOld:
			if err := t.lose(q, gap.Reason); err != nil {
				return err
			}
		case errors.As(err, &gap), errors.Is(err, registry.ErrNotFound), err == nil && h.last.Query == "":
			delete(t.held, q) // nothing of it is left, or it began anew
		case err != nil:
			return err
		}
	}
	return nil
}

// find looks for a query's newest change that the stream has passed.
func (t *allStream) find(query string, h *heldBack) error {
	st, _, err := t.s.opts.Log.Current(query, false)
	if err != nil {
		return err
	}
	h.base.Epoch = st.Position.Epoch
	for at := h.base; ; {
		page, err := t.s.opts.Log.After(query, at, pageSize)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			c := &page[i]
			if c.Offset > t.at.Seq || !t.wants(c) {
				return nil
			}
			if h.last.Query == "" {
				h.first = c.Offset
			}
			h.last, h.fresh, at = *c, true, c.Position()
			h.last.Delta = nil
		}
	}
}
