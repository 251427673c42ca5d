package registry

import "github.com/freshet/freshet/diff"

// Revalidate checks an exported query as registration does and returns it in
// this version's form. Its id must follow from its text, according to this
// version or the one that wrote it.
func Revalidate(q Query, e Endpoint) (Query, error) {
	a, err := analyseText(q.Text, e)
	if err != nil {
		return q, err
	}
	form := diff.Form(a.Form)
	if q.Ordered && form != diff.Select {
		return q, wrongField(KindBadSetting, "/ordered", "only the result of a SELECT has an order, this is %s", form)
	}
	identity := func(normal string) string {
		return Identity(q.Endpoint, normal, q.Ordered, q.DefaultGraphs, q.NamedGraphs)
	}
	switch q.ID {
	case identity(a.Normal):
		q.Normal = a.Normal
	case identity(q.Normal):
	default:
		return q, wrongField(KindBadQuery, "/id", "the id %s is not that of the query's text", q.ID)
	}
	q.Form, q.OrderKeys, q.Limit, q.Constants, q.Warnings = form, a.OrderKeys, a.Limit, a.Constants, nil
	for _, w := range a.Warnings {
		q.Warnings = append(q.Warnings, Warning(w))
	}
	q.Upgrade()
	return q, nil
}
