package scheduler

import (
	"errors"

	"github.com/freshet/freshet/endpoint/merge"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
)

// TemplateText returns the text of a query's template, see merge.Text.
func TemplateText(q *registry.Query) string {
	a, err := sparql.Analyse(q.Text)
	if err != nil {
		return ""
	}
	a.Ordered, a.OrderKeys = q.Ordered, q.OrderKeys
	return merge.Text(a)
}

// Mergeable returns the id of the query's template, and why the query is never asked
// together with others. Either may be "". The endpoint's setting is not considered.
func Mergeable(q *registry.Query) (template, reason string) {
	a, err := sparql.Analyse(q.Text)
	if err != nil {
		return "", string(merge.Dialect)
	}
	a.Ordered, a.OrderKeys = q.Ordered, q.OrderKeys
	t, _, err := merge.Parse(a)
	if r := (*merge.Refusal)(nil); errors.As(err, &r) {
		return "", string(r.Reason)
	} else if err != nil {
		return "", err.Error()
	}
	if q.Alone() {
		return t.ID, "alone"
	}
	return t.ID, ""
}
