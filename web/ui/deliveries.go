package ui

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// A deliveriesPage answers: which followers are behind, why, and what can be done?
type deliveriesPage struct {
	Sums   deliverySums
	Ways   []tocEntry
	Way    string // the delivery type shown, "" for all
	Search bool
	Table  followerTable
	Pages  *pager
}

// Sums over the followers that the visitor sees.
type deliverySums struct {
	All, Good, Failing, Lagging, Pending int
	Sent, GivenUp                        uint64
	Ways                                 map[registry.Way]int
	Leases                               int       // that end within a day
	Last                                 *follower // the one furthest behind, nil if none is
	Admin                                bool
}

// Of returns the number of followers by a delivery type.
func (s deliverySums) Of(way registry.Way) int { return s.Ways[way] }

// A followerTable is the live part of the page.
type followerTable struct {
	Rows     []followerRow
	Filtered string // the delivery type shown, "" for all
	Text     string // the search text
}

type followerRow struct {
	*follower
	About, Link string // name and page of the query or the profile that it follows
}

const (
	mostReceivers  = 10_000 // maximum read for one page
	shownReceivers = 50
)

func (v deliveryHandler) page() (content, error) {
	all, more, err := v.receivers()
	if err != nil {
		return content{}, err
	}
	q := v.r.URL.Query()
	way, text := registry.Way(q.Get("way")), clip(strings.TrimSpace(q.Get("q")), 200)
	p := deliveriesPage{Sums: v.sums(all), Ways: waysOf(all, way), Way: q.Get("way"), Search: text != "" || len(all) > 1,
		Table: followerTable{Text: text}}
	shown, err := v.search(all, text)
	if err != nil {
		return content{}, err
	}
	if slices.Contains(registry.Ways, way) {
		p.Table.Filtered = way.Title()
		shown = slices.DeleteFunc(slices.Clone(shown), func(f *follower) bool { return f.Way != way })
	}
	shown, p.Pages = turn(q, shown, shownReceivers, "/deliveries", "from", "q", "way")
	for _, f := range shown {
		row := followerRow{follower: f}
		if row.About, row.Link, err = v.follows(f); err != nil {
			return content{}, err
		}
		p.Table.Rows = append(p.Table.Rows, row)
	}
	if p.Pages != nil {
		p.Pages.More = more
	}
	return content{Data: p, Live: []part{{"lede", "deliveries-lede", p.Sums}, {"facts", "deliveries-facts", p.Sums},
		{"follower-rows", "follower-rows", p.Table}}}, nil
}

// search returns the followers whose name contains a text, or that follow a query or a profile
// whose name contains it.
func (v deliveryHandler) search(all []*follower, text string) ([]*follower, error) {
	if text == "" {
		return all, nil
	}
	fits := map[string]bool{} // whether the name of the query or the profile contains the text
	var found []*follower
	for _, f := range all {
		followed := f.Query + f.Profile
		if _, known := fits[followed]; !known {
			name, _, err := v.follows(f)
			if err != nil {
				return nil, err
			}
			fits[followed] = strings.Contains(strings.ToLower(name), strings.ToLower(text))
		}
		if fits[followed] || registry.Matches(&f.Subscription, text) {
			found = append(found, f)
		}
	}
	return found, nil
}

// receivers returns the followers visible to the visitor, problems first.
func (v deliveryHandler) receivers() (all []*follower, more bool, err error) {
	lagOf := v.Lags(v.now)
	for s, err := range v.mine() {
		if err != nil {
			return nil, false, err
		}
		if more = len(all) == mostReceivers; more {
			break
		}
		lag, err := lagOf(&s)
		if err != nil {
			return nil, false, err
		}
		f := &follower{Subscription: s, clock: v.clock, Lag: lag.Changes, Waiting: time.Duration(lag.Behind)}
		f.Due, f.Held = v.Due(&s, v.now.Add(-f.Waiting), v.now)
		all = append(all, f)
	}
	slices.SortStableFunc(all, func(a, b *follower) int {
		return cmp.Or(cmp.Compare(a.condition(), b.condition()), cmp.Compare(b.Lag, a.Lag), cmp.Compare(a.ID, b.ID))
	})
	return all, more, nil
}

// follows returns the name and the page of the query or the profile that a follower follows; "" for
// one that has ended.
func (v deliveryHandler) follows(f *follower) (name, link string, err error) {
	if f.Profile != "" {
		p, err := v.Profiles.ProfileItem(f.Profile)
		if isMissing(err) {
			return "", "", nil
		} else if err != nil {
			return "", "", err
		}
		return clip(cmp.Or(p.Profile.Name, f.Profile), 120), profilePath(f.Profile), nil
	}
	if f.Query == "" {
		return "", "", nil
	}
	q, err := v.Registry.Query(f.Query)
	if isMissing(err) {
		return "", "", nil
	} else if err != nil {
		return "", "", err
	}
	return clip(v.name(&q), 120), queryPath(f.Query), nil
}

func waysOf(all []*follower, here registry.Way) []tocEntry {
	n := map[registry.Way]int{}
	for _, f := range all {
		n[f.Way]++
	}
	out := []tocEntry{{Link: "/deliveries", Here: !slices.Contains(registry.Ways, here)}}
	for _, w := range registry.Ways {
		if n[w] > 0 || w == here {
			out = append(out, tocEntry{Name: w.Title(), Link: "/deliveries?way=" + string(w), Word: count(n[w]), Here: w == here})
		}
	}
	return out
}

func (v deliveryHandler) sums(all []*follower) deliverySums {
	s := deliverySums{All: len(all), Ways: map[registry.Way]int{}, Admin: v.May(registry.RoleAdmin)}
	n := [len(conditions)]int{}
	for _, f := range all {
		n[f.condition()]++
		s.Ways[f.Way]++
		s.Sent, s.GivenUp = s.Sent+f.Deliveries, s.GivenUp+f.GaveUp
		if f.Lag > 0 && (s.Last == nil || f.Lag > s.Last.Lag) {
			s.Last = f
		}
		if f.Way == registry.WebSub && f.ExpiresAt != nil && f.ExpiresAt.Sub(v.now) < 24*time.Hour {
			s.Leases++
		}
	}
	s.Failing, s.Lagging, s.Pending, s.Good = n[givenUp]+n[failingNow], n[laggingNow], n[notAgreed], n[served]+n[pausedNow]+n[heldBack]
	return s
}

// subscription returns the subscription that the path names, if it belongs to the
// visitor or the visitor is an admin.
func (v deliveryHandler) subscription() (*follower, error) {
	s, err := v.Subscriptions.Subscription(v.r.PathValue("id"))
	if err == nil && v.caller.Owns(s.Caller) {
		return &follower{Subscription: s, clock: v.clock}, nil
	}
	if err != nil && !isMissing(err) {
		return nil, err
	}
	return nil, &registry.Problem{Kind: registry.KindNotFound, Title: "There is no such follower",
		Detail: "It may have gone: followers by WebSocket and server-sent events are there while they are connected."}
}

func actOnFollower(verb string) func(deliveryHandler) error {
	return func(v deliveryHandler) error {
		f, err := v.subscription()
		if err != nil {
			return err
		}
		if _, err := v.Subscriptions.Act(f.ID, verb); err != nil {
			return v.refused("follower-refused", err, "/deliveries")
		}
		v.say("good", "follower-"+verb, f.Title(), "")
		return v.back("/deliveries")
	}
}

func (v deliveryHandler) askToDrop() (content, error) {
	f, err := v.subscription()
	if err != nil {
		return content{}, err
	}
	c := confirmation{What: "connection", Name: f.Title(), Back: "/deliveries"}
	if !f.Way.Connected() {
		c.What, c.Callback, c.GivenUp = string(f.Way), web.MaskedCallback(f.Callback), len(f.Dead)
	}
	return c.content(v.r), nil
}

func (v deliveryHandler) drop() error {
	f, err := v.subscription()
	if err != nil {
		return err
	}
	if _, err := v.Subscriptions.Act(f.ID, "drop"); err != nil {
		return v.refused("drop-refused", err, "/deliveries")
	}
	v.say("", "follower-drop", f.Title(), "")
	return v.to("/deliveries")
}
