package sparql

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// cmpAnalyses compares two analyses, except the positions of warnings.
func cmpAnalyses(a, b *Analysis) string {
	return cmp.Diff(a, b, cmpopts.IgnoreFields(Warning{}, "Line", "Column"), cmpopts.EquateEmpty())
}
