package alert

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
)

// mostTogether is the largest number of alerts in one message to a service. It has lines for few of them, but
// where few messages are wanted, the rest of a night's alerts would come much later.
const mostTogether = 500

// The kinds of package service. Alerts that wait for one go in one message.
var _ = func() *kind {
	for _, k := range service.Kinds() {
		known(&kind{Kind: Kind{k.Name, k.Form}, batch: mostTogether, together: true, service: true, people: true,
			check: checkService(k.Name), send: toService})
	}
	return nil
}()

func checkService(name string) func(*Options, string) (string, error) {
	return func(o *Options, address string) (string, error) {
		_, complete, err := service.Find(name, address)
		if err == nil {
			_, err = o.Guard.Check(service.Base(complete))
		}
		return complete, err
	}
}

func toService(o *Options, to *registry.Receiver, list []registry.AlertMessage) (send, error) {
	return service.Send(to.Kind, to.Address, o.words(list))
}

// mostSaid is the number of alerts that have a line in a message, mostLine that of characters of a line.
const mostSaid, mostLine = 10, 200

// words writes alerts for people: the last state of each. The id is that of all messages, as others may have
// come when they are sent again.
func (o *Options) words(list []registry.AlertMessage) service.Message {
	id := list[0].ID
	if len(list) > 1 {
		id = together(list)
	}
	list = o.named(newest(list))
	first := &list[0]
	m := service.Message{ID: id, At: first.At, Link: o.pageOf(list), State: registry.AlertResolved, From: o.PublicURL, Key: o.PushKey}
	for i := range list {
		if list[i].State == registry.AlertFiring {
			m.State = registry.AlertFiring
		}
	}
	if len(list) == 1 {
		m.Title = watch.Line(still(list)+"["+strings.ToUpper(string(first.State))+"] "+first.Name, mostLine)
		m.Text = strings.Join(slices.DeleteFunc([]string{watch.Line(first.Summary, 2*mostLine), labelled(first)},
			func(s string) bool { return s == "" }), "\n")
		return m
	}
	m.Title = subject(list)
	var said []string
	for i := range list[:min(len(list), mostSaid)] {
		x := &list[i]
		what := x.Summary
		if what == "" {
			what = labelled(x)
		}
		said = append(said, watch.Line(string(x.State)+" "+x.Name+": "+what, mostLine/2))
	}
	if more := len(list) - len(said); more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	m.Text = strings.Join(said, "\n")
	return m
}

// named returns alerts with the labels that are known of what a watch shows, in place of IRIs.
func (o *Options) named(list []registry.AlertMessage) []registry.AlertMessage {
	list = slices.Clone(list)
	for i := range list {
		m := &list[i]
		q, err := o.Query(m.Query)
		if err != nil {
			continue // it is gone
		}
		w, ok := watch.Of(&q, m.Caller)
		if !ok {
			continue
		}
		label := o.Names(q.Endpoint, w.Labels)
		name := func(iri string) string { return cmp.Or(watch.Line(label(iri), mostLine), iri) }
		m.Summary = webIRI.ReplaceAllStringFunc(m.Summary, name)
		m.Labels = maps.Clone(m.Labels)
		for key, value := range m.Labels {
			m.Labels[key] = name(value)
		}
	}
	return list
}

// webIRI matches an IRI in a text, without a mark that ends the sentence.
var webIRI = regexp.MustCompile(`https?://[^\s<>"]*[^\s<>".,;:!?)]`)

// pageOf is the page that alerts are about: of the rules if they have several queries, and of the change if it is
// a single one of a public query.
func (o *Options) pageOf(list []registry.AlertMessage) string {
	first := &list[0]
	if slices.ContainsFunc(list, func(m registry.AlertMessage) bool { return m.Query != first.Query }) {
		return o.PublicURL + "/rules"
	}
	page := o.page(first.Query)
	if q, err := o.Query(first.Query); err == nil && len(list) == 1 && first.Position.Seq > 0 && still(list) == "" &&
		(registry.Caller{}).MayRead(&q) {
		page = fmt.Sprintf("%s/changes/%d", page, first.Position.Seq)
	}
	return page
}

// newest returns the last message about each alert.
func newest(list []registry.AlertMessage) (last []registry.AlertMessage) {
	at := map[string]int{}
	for i := range list {
		at[about(&list[i])] = i
	}
	for i := range list {
		if at[about(&list[i])] == i {
			last = append(last, list[i])
		}
	}
	return last
}

func labelled(m *registry.AlertMessage) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		list = append(list, name+" "+m.Labels[name])
	}
	return watch.Line(strings.Join(list, ", "), mostLine)
}
