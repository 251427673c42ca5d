package notify

import (
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/cursor"
)

// tableRows are the rows of a result, or what a filter leaves of them.
type tableRows struct {
	res  *diff.Result
	vars []string
	kept diff.Rows // nil: all of res
}

// keepTables bounds the bytes of results kept for clients in the middle of one.
const keepTables = 64 << 20

func tableOf(f *cursor.Filter, res *diff.Result) *tableRows {
	vars, kept := f.Rows(res)
	return &tableRows{res, vars, kept}
}

func filterKey(f *cursor.Filter) string { return shortKey(string(f.JSON())) }

func weighTable(t *tableRows) int {
	n := t.res.Size() + 16*t.res.Len()
	for _, row := range t.kept {
		n += len(row) + 24
	}
	return n + 1
}

func (t *tableRows) len() int {
	if t.kept != nil {
		return len(t.kept)
	}
	return t.res.Len()
}

func (t *tableRows) row(i int) []byte {
	if t.kept != nil {
		return t.kept[i]
	}
	return t.res.Row(i)
}

// size returns the approximate length in bytes of a range of rows.
func (t *tableRows) size(from, to int) (n int) {
	for i := from; i < to; i++ {
		n += len(t.row(i)) + 1
	}
	return n
}

// split returns the end of the part that begins at from. A part has at least one row.
func (t *tableRows) split(from, size int) (to int, last bool) {
	n := 0
	for to = from; to < t.len(); to++ {
		if n += len(t.row(to)) + 1; n > size && to > from {
			return to, false
		}
	}
	return to, true
}

func (t *tableRows) json(from, to int) []byte {
	if t.res.Form() == diff.Ask {
		return t.res.Document()
	}
	rows := make(diff.Rows, 0, to-from)
	for i := from; i < to; i++ {
		rows = append(rows, t.row(i))
	}
	return diff.RowsJSON(t.res.Form(), t.vars, rows)
}
