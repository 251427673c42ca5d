package ui

import (
	"cmp"
	"html/template"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/freshet/freshet/registry"
)

// A lettersPage answers: which messages were given up, why, and what can be done?
type lettersPage struct {
	All   int
	More  bool // there are more than All
	Act   bool // the visitor may send and drop them
	Rows  []letterRow
	Pages *pager
}

type letterRow struct {
	*registry.DeadLetter
	To          *follower
	About, Link string // name and page of the query
	When, Until template.HTML
	Path        string
	Act         bool
}

func (v letterHandler) page() (content, error) {
	p := lettersPage{Act: v.May(registry.RoleApp)}
	var all []letterRow
	for s, err := range deliveryHandler(v).mine() {
		if err != nil {
			return content{}, err
		}
		for i := range s.Dead {
			if p.More = len(all) == mostLetters; p.More {
				break
			}
			all = append(all, letterRow{DeadLetter: &s.Dead[i], To: &follower{Subscription: s, clock: v.clock}, Act: p.Act})
		}
	}
	slices.SortStableFunc(all, func(a, b letterRow) int { return cmp.Or(b.GivenUp.Compare(a.GivenUp), cmp.Compare(a.ID, b.ID)) })
	p.All = len(all)
	p.Rows, p.Pages = turn(v.r.URL.Query(), all, shownReceivers, "/dead-letters", "from")
	for i := range p.Rows {
		if err := v.fill(&p.Rows[i]); err != nil {
			return content{}, err
		}
	}
	return content{Data: p, Live: []part{{"letters", "letters", p}}}, nil
}

// mostLetters is the maximum number read for one page.
const mostLetters = 10_000

func (v letterHandler) fill(r *letterRow) (err error) {
	r.Path = "/dead-letters/" + url.PathEscape(r.To.ID) + "/" + url.PathEscape(r.ID)
	r.When, r.Until = v.Past(r.At), v.Past(r.GivenUp)
	about := *r.To
	about.Query = cmp.Or(r.Query, about.Query)
	r.About, r.Link, err = deliveryHandler(v).follows(&about)
	return err
}

// mine returns the subscriptions that the visitor may see.
func (v deliveryHandler) mine() iter.Seq2[registry.Subscription, error] {
	return func(yield func(registry.Subscription, error) bool) {
		for s, err := range registry.EachSubscription(v.Subscriptions.Subscriptions, "") {
			if (err != nil || v.caller.Owns(s.Caller)) && !yield(s, err) {
				return
			}
		}
	}
}

// actOnLetters sends or drops the dead letter that the path names, or all of them.
func actOnLetters(drop bool) func(letterHandler) error {
	return func(v letterHandler) error {
		said := flash{Kind: "good", Code: "letters-sent"}
		if drop {
			said = flash{Kind: "good", Code: "letters-dropped"}
		}
		if v.r.PathValue("id") != "" {
			f, err := deliveryHandler(v).subscription()
			if err == nil {
				err = v.one(f.ID, v.r.PathValue("letter"), drop)
			}
			if err != nil {
				return v.refused("letters-refused", err, "/dead-letters")
			}
			said.Done = 1
		} else if err := v.each(drop, &said); err != nil {
			return err
		}
		v.counted.drop()
		v.report(said)
		return v.to("/dead-letters")
	}
}

func (v letterHandler) one(id, letter string, drop bool) (err error) {
	if drop {
		_, err = v.DeadLetters.DropLetter(id, letter)
	} else {
		_, err = v.DeadLetters.Resend(id, letter)
	}
	return err
}

// each sends all letters again, or drops those that the visitor was asked about. The form says which is
// the newest of each subscription, because others may have come meanwhile.
func (v letterHandler) each(drop bool, said *flash) error {
	newest := map[string]string{}
	for _, x := range v.r.PostForm["newest"] {
		id, letter, _ := strings.Cut(x, " ")
		newest[id] = letter
	}
	for s, err := range deliveryHandler(v).mine() {
		if err != nil {
			return err
		}
		list := s.Dead
		if drop {
			list = list[:1+slices.IndexFunc(list, func(d registry.DeadLetter) bool { return d.ID == newest[s.ID] })]
		}
		for _, d := range list {
			err, f := v.one(s.ID, d.ID, drop), form{}
			if err == nil {
				said.Done++
			} else if isMissing(err) { // someone else was faster
			} else if err = f.refuse(err); err != nil {
				return err
			} else {
				said.Kind, said.Not, said.Text = "warn", said.Not+1, f.Problem
			}
		}
	}
	return nil
}

func (v letterHandler) askToDrop() (content, error) {
	c := confirmation{What: "letters", Back: "/dead-letters"}
	for s, err := range deliveryHandler(v).mine() {
		if err != nil {
			return content{}, err
		}
		if n := len(s.Dead); n > 0 {
			c.GivenUp += n
			c.Newest = append(c.Newest, s.ID+" "+s.Dead[n-1].ID)
		}
	}
	return c.content(v.r), nil
}
