package ui

import "github.com/freshet/freshet/diff"

// A preview is the first rows of a result.
type preview struct {
	grid
	All int // rows of the result
}

const previewRows = 20

func previewOf(n namer, r *diff.Result) *preview {
	if r.Form() == diff.Ask {
		return &preview{grid{Heads: []string{"answer"}, Number: []bool{false}, Rows: []gridRow{{Cells: []cell{{Text: word(r.Boolean())}}}}}, 1}
	}
	nowhere := func(int, int) string { return "" }
	return &preview{n.grid(r.Form(), r.Vars(), min(r.Len(), previewRows), r.Terms, noSign, nowhere), r.Len()}
}
