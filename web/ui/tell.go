// This file makes rules from what a visitor points at in a result.

package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/web"
)

// A tellPage offers rules about a row of a result, and about the result.
type tellPage struct {
	Name, Path string
	B, N       string   // the version and the number of the row; N is "" for the result as a whole
	Row        []kvCell // the row
	Offers     []watch.Offer
	Form       form
	When       string // the condition of the chosen offer
	Trial      *ruleTrial
}

// A kvCell is a cell and the heading of its column.
type kvCell struct {
	Head string
	Cell cell
}

var tellFields = []string{"what", "limit", "for", "name", "to"}

// looked returns the page about the row that the request names.
func (v tellHandler) looked(p url.Values) (q registry.Query, page tellPage, err error) {
	q, st, err := queryHandler(v).resolveStatus()
	if err != nil {
		return q, page, err
	}
	page = tellPage{Name: v.name(&q), Path: queryPath(q.ID), B: p.Get("b"), N: p.Get("row")}
	b := sequence(page.B)
	if b == 0 || b > st.Position.Seq {
		b, page.B = st.Position.Seq, ""
	}
	if b == 0 {
		return q, page, &registry.Problem{Kind: registry.KindNoResult, Detail: "There is no result yet. Its rows can be chosen when it is there."}
	}
	r, err := resultHandler(v).version(q.ID, b)
	if err != nil {
		return q, page, err
	}
	var row []diff.Term
	if i, err := strconv.Atoi(page.N); page.N != "" && q.Form != diff.Ask {
		if err != nil || i < 0 || i >= r.Len() {
			return q, page, noCell
		}
		row = r.Terms(i)
		if len(row) > mostColumns {
			row = row[:mostColumns]
		}
		heads, n := headsOf(q.Form, r.Vars()), newNamer(q.Text)
		for i, t := range row {
			page.Row = append(page.Row, kvCell{heads[i], n.cell(t, "")})
		}
	}
	page.Offers = watch.Offers(q.Form, r.Vars(), row)
	return q, page, nil
}

func (v tellHandler) page() (content, error) {
	_, p, err := v.looked(v.r.URL.Query())
	if err != nil {
		return content{}, err
	}
	p.Form = form{Fields: tellFields, Values: url.Values{"what": {cmp.Or(v.r.URL.Query().Get("what"), p.Offers[0].Key)}}}
	return content{Data: p}, nil
}

// tell tries or makes the rule of the chosen offer.
func (v tellHandler) tell() error {
	f := v.typed(tellFields)
	q, p, err := v.looked(v.r.PostForm)
	if err != nil {
		return err
	}
	s, chosen := v.settings(&f, &q, p.Offers)
	p.When = s.When
	if f.Status != 0 {
		return v.again(f, p)
	}
	if f.Get("do") == "try" {
		t, err := web.TryRule(v.r.Context(), v.Rules, v.caller, s)
		if err != nil {
			return f.refused(v.about(err), func() error { return v.again(f, p) })
		}
		slices.Reverse(t.Events)
		p.Trial = &ruleTrial{t, v.clock}
		return v.again(f, p)
	}
	if s.Name == "" {
		s.Name = cmp.Or(q.NameFor(v.caller.Name), q.ID) + "-" + chosen.Kind
	}
	r, err := ruleHandler(v).create(s)
	if err != nil {
		return f.refused(v.about(err), func() error { return v.again(f, p) })
	}
	if made := secretsOf(r, nil); len(made) > 0 {
		return ruleHandler(v).again(form{Fields: ruleFields, Status: http.StatusCreated}, nil, made)
	}
	v.say("good", "rule-made", r.Name, "")
	return v.to(ruleHandler(v).link(&r))
}

// about makes an error of the condition one of its number, which the visitor wrote.
func (v tellHandler) about(err error) error { return pointAt(err, "/when", "/limit") }

// settings returns the rule that the form asks for, and its offer.
func (v tellHandler) settings(f *form, q *registry.Query, all []watch.Offer) (registry.RuleSettings, watch.Offer) {
	s := registry.RuleSettings{Name: strings.TrimSpace(f.Get("name")), Query: q.ID, To: receivers(f.Get("to"))}
	i := slices.IndexFunc(all, func(o watch.Offer) bool { return o.Key == f.Get("what") })
	if i < 0 {
		f.bad("what", "tell-what")
		return s, watch.Offer{}
	}
	limit := strings.TrimSpace(f.Get("limit"))
	if _, err := strconv.ParseFloat(limit, 64); err != nil && all[i].Limit {
		f.bad("limit", "number")
	}
	if text := strings.TrimSpace(f.Get("for")); text != "" && s.For.UnmarshalText([]byte(text)) != nil {
		f.bad("for", "duration")
	}
	s.When, s.Summary = all[i].When(limit), all[i].Summary
	if !all[i].Limit && all[i].Kind != "rows" && s.For > 0 {
		f.bad("for", "tell-for")
	}
	return s, all[i]
}

func (v tellHandler) again(f form, p tellPage) error {
	p.Form = f
	return v.visit.again(f, "tell", "rules", content{Data: p})
}
