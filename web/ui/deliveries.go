package ui

import (
	"cmp"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// A deliveriesPage answers: which followers are behind, why, and what can be done?
type deliveriesPage struct {
	Lede        lede
	Facts       facts
	Ways        []tocEntry
	Text, Way   string // search text and delivery type
	Many        bool
	Table       followerTable
	First, Last int
	All         int
	Prev, Next  string
	More        bool // some followers are not counted
}

// A followerTable is the live part of the page.
type followerTable struct {
	Rows     []followerRow
	Filtered string // the delivery type shown, "" for all
	Text     string // the search text
}

type followerRow struct {
	ID, Name, Way      string
	Who                string // caller, address and the client's own id
	About, Link        string // the query it follows
	State              state
	Behind             string
	Waits              string // how long it has been waiting
	Delivered, GivenUp string
	Why                string
	Next               template.HTML
	NextWord           string
	Drop               string
	Retry, Pause       string // button labels, "" for none
	Replay             bool
	Path               string
}

const (
	mostReceivers  = 10_000 // maximum read for one page
	shownReceivers = 50
	lagging        = 5 * time.Second // a follower that is behind for longer is reported
)

// A receiver is a subscription with its lag.
type receiver struct {
	registry.Subscription
	lag     uint64
	waiting time.Duration
	rank    int // sort key: problems first
}

func (v deliveryHandler) page() (content, error) {
	all, more, err := v.receivers()
	if err != nil {
		return content{}, err
	}
	p := deliveriesPage{Lede: v.lede(all), Facts: v.facts(all), More: more, Table: followerTable{Filtered: wayName(registry.Way(v.r.URL.Query().Get("way")))}}
	p.Ways = waysOf(all, registry.Way(v.r.URL.Query().Get("way")))
	p.Text, p.Way = clip(strings.TrimSpace(v.r.URL.Query().Get("q")), 200), v.r.URL.Query().Get("way")
	p.Table.Text, p.Many = p.Text, p.Text != "" || len(all) > 1
	shown, err := v.search(all, p.Text)
	if err != nil {
		return content{}, err
	}
	if p.Table.Filtered != "" {
		shown = slices.DeleteFunc(slices.Clone(shown), func(f receiver) bool { return string(f.Way) != v.r.URL.Query().Get("way") })
	}
	from, _ := strconv.Atoi(v.r.URL.Query().Get("from")) // an invalid number means 0
	from = min(max(from, 0), max(0, len(shown)-1))
	to := min(from+shownReceivers, len(shown))
	for _, f := range shown[from:to] {
		row, err := v.row(f)
		if err != nil {
			return content{}, err
		}
		p.Table.Rows = append(p.Table.Rows, row)
	}
	p.First, p.Last, p.All = min(from+1, len(shown)), to, len(shown)
	page := func(from int) string {
		q := url.Values{"from": {strconv.Itoa(from)}}
		if w := v.r.URL.Query().Get("way"); w != "" {
			q.Set("way", w)
		}
		if p.Text != "" {
			q.Set("q", p.Text)
		}
		return "/deliveries?" + q.Encode()
	}
	if from > 0 {
		p.Prev = page(max(0, from-shownReceivers))
	}
	if to < len(shown) {
		p.Next = page(to)
	}
	return content{Title: "Deliveries", Data: p, Live: []part{{"lede", "lede-small", p.Lede}, {"facts", "facts", p.Facts}, {"follower-rows", "follower-rows", p.Table}}}, nil
}

// search returns the receivers whose name contains a text, or that follow a query
// whose name contains it.
func (v deliveryHandler) search(all []receiver, text string) ([]receiver, error) {
	if text == "" {
		return all, nil
	}
	about := map[string]bool{} // whether the query's name contains the text
	var found []receiver
	for i := range all {
		s := &all[i].Subscription
		if _, known := about[s.Query]; !known {
			var r followerRow
			if err := v.follows(&r, *s); err != nil {
				return nil, err
			}
			about[s.Query] = s.Query != "" && strings.Contains(strings.ToLower(r.About), strings.ToLower(text))
		}
		if about[s.Query] || registry.Matches(s, text) {
			found = append(found, all[i])
		}
	}
	return found, nil
}

// receivers returns the receivers visible to the visitor, problems first.
func (v deliveryHandler) receivers() (all []receiver, more bool, err error) {
	heads := map[string]registry.Position{}
	for after := ""; ; {
		page, err := v.Subscriptions.Subscriptions(after, 500)
		if err != nil {
			return nil, false, err
		}
		for _, s := range page {
			after = s.ID
			if !v.mine(s) {
				continue
			}
			if len(all) == mostReceivers {
				return v.byTrouble(all), true, nil
			}
			f := receiver{Subscription: s}
			if err := v.lag(&f, heads); err != nil {
				return nil, false, err
			}
			all = append(all, f)
		}
		if len(page) < 500 {
			return v.byTrouble(all), false, nil
		}
	}
}

func (v deliveryHandler) mine(s registry.Subscription) bool {
	return v.May(registry.RoleAdmin) || s.Caller == v.caller.Name
}

// lag counts the changes that a follower has not received. The newest position of each
// query is read once for all its followers.
func (v deliveryHandler) lag(f *receiver, heads map[string]registry.Position) error {
	head, known := heads[f.Query]
	if !known {
		if f.Query == "" {
			var err error
			if head, err = v.History.Head(); err != nil {
				return err
			}
		} else if st, _, err := v.History.Current(f.Query, false); err == nil {
			head = st.Position
		} else if !isMissing(err) {
			return err
		}
		heads[f.Query] = head
	}
	at := f.Cursor
	if f.Seen.Epoch != "" {
		at = f.Seen
	}
	switch {
	case at.Epoch == head.Epoch && head.Seq > at.Seq:
		f.lag = head.Seq - at.Seq
	case at.Epoch != head.Epoch:
		f.lag = head.Seq
	}
	if f.lag == 0 {
		return nil
	}
	lag, err := web.LagOf(v.History, f.Subscription, v.now)
	f.waiting = time.Duration(lag.Behind)
	return err
}

func (v deliveryHandler) byTrouble(all []receiver) []receiver {
	for i := range all {
		all[i].rank = all[i].trouble()
	}
	slices.SortStableFunc(all, func(a, b receiver) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.lag, a.lag), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// trouble ranks receivers: failing, given up, lagging, waiting, then all others.
func (f *receiver) trouble() int {
	switch {
	case f.State == registry.Disabled:
		return 0
	case f.Failures > 0:
		return 1
	case f.State == registry.Active && f.waiting > lagging:
		return 2
	case f.State == registry.Pending:
		return 3
	case f.State == registry.SubscriptionPaused:
		return 4
	}
	return 5
}

func (f *receiver) state() state {
	switch f.trouble() {
	case 0:
		return state{"failing", "given up"}
	case 1:
		return state{"failing", "failing"}
	case 2:
		return state{"stale", "lagging"}
	case 3:
		return state{"new", "not agreed yet"}
	case 4:
		return state{"paused", "paused"}
	}
	return state{"live", "live"}
}

func (v deliveryHandler) row(f receiver) (followerRow, error) {
	r := followerRow{ID: f.ID, Name: followerName(f.Subscription), Who: whose(f.Subscription), Way: wayName(f.Way), State: f.state(), Behind: none, Delivered: count(f.Deliveries),
		Path: "/deliveries/" + url.PathEscape(f.ID)}
	if err := v.follows(&r, f.Subscription); err != nil {
		return r, err
	}
	if f.lag > 0 {
		r.Behind = plural(int(min(f.lag, 1<<31-1)), "change", "changes")
		if f.waiting > 0 {
			r.Waits = "for " + span(f.waiting.Truncate(time.Second))
		}
	}
	if f.GaveUp > 0 {
		r.GivenUp = count(f.GaveUp) + " given up"
	}
	r.Why = clip(strings.TrimSpace(f.Reason), 240)
	if r.Why == "" && f.Failures > 0 {
		r.Why = clip(f.LastError, 240)
		if f.Failures > 1 {
			r.Why += " (" + count(f.Failures) + " times in a row)"
		}
	}
	if r.Why == "" {
		r.Why = f.why()
	}
	switch {
	case f.NextTry != nil && (f.State == registry.Active || f.State == registry.Pending) && f.Failures > 0:
		r.NextWord, r.Next = "next try", v.when(*f.NextTry)
	case f.ExpiresAt != nil:
		r.NextWord, r.Next = "lease ends", v.when(*f.ExpiresAt)
	}
	stored := f.Way == registry.WebSub || f.Way == registry.Webhook
	switch {
	case stored && f.State == registry.Disabled:
		r.Retry = "Try again"
	case stored && f.State == registry.SubscriptionPaused:
		r.Retry = "Resume"
	case stored && f.Failures > 0:
		r.Retry = "Try now"
	}
	if stored && f.State == registry.Active {
		r.Pause = "Pause"
	}
	r.Replay = f.Way == registry.Webhook && len(f.Dead) > 0
	r.Drop = r.Path + "/drop"
	return r, nil
}

// why explains a receiver's state in words.
func (f *receiver) why() string {
	switch {
	case f.State == registry.Pending:
		return "Its callback has not confirmed yet."
	case f.State == registry.SubscriptionPaused:
		return "It is paused: changes wait in the log."
	case f.lag == 0:
		return "It has everything."
	case f.Filter != nil:
		return "Its filter holds back what is too little, or of no interest to it."
	case f.Rate > 0:
		return "It wants a message every " + span(time.Duration(f.Rate)) + " at most."
	case f.waiting > lagging:
		return "It reads more slowly than changes come."
	}
	return "What it lacks is on its way."
}

// followerName returns the name that the client program gives itself, else the label
// given by its owner, else its address.
func followerName(s registry.Subscription) string {
	switch {
	case connected(s) && s.Client != "":
		return clip(s.Client, 80)
	case connected(s):
		return callerName(s)
	case s.Name != "":
		return clip(s.Name, 80)
	case s.Callback != "":
		return clip(addressOf(s.Callback), 80)
	}
	return callerName(s)
}

func connected(s registry.Subscription) bool {
	return s.Way == registry.WebSocket || s.Way == registry.SSE || s.Way == registry.SEPA
}

func callerName(s registry.Subscription) string {
	if s.Caller == registry.Anonymous {
		return "somebody without a token"
	}
	return s.Caller
}

// whose returns a subscription's caller, address and the client's own id.
func whose(s registry.Subscription) string {
	parts := []string{"without a token"}
	if s.Caller != registry.Anonymous {
		parts[0] = "token " + s.Caller
	}
	if s.Name != "" && s.Callback != "" {
		parts = append(parts, "at "+clip(addressOf(s.Callback), 60))
	}
	if s.Remote != "" {
		parts = append(parts, "from "+clip(s.Remote, 60))
	}
	if connected(s) && s.Name != "" {
		parts = append(parts, "subscription "+clip(s.Name, 80))
	}
	return strings.Join(parts, ", ")
}

// follows describes what a receiver follows.
func (v deliveryHandler) follows(r *followerRow, s registry.Subscription) error {
	switch {
	case s.Query != "":
		q, err := v.Registry.Query(s.Query)
		if isMissing(err) {
			r.About = "a query that has ended"
			return nil
		} else if err != nil {
			return err
		}
		r.About = clip(v.name(&q), 120)
		if v.sections["queries"] {
			r.Link = queryPath(s.Query)
		}
	case s.Tag != "" && s.Endpoint != "":
		r.About = "all with the tag " + s.Tag + " on " + s.Endpoint
	case s.Tag != "":
		r.About = "all with the tag " + s.Tag
	case s.Endpoint != "":
		r.About = "all of " + s.Endpoint
	default:
		r.About = "all changes"
	}
	return nil
}

// The delivery types in display order.
var waysOut = []registry.Way{registry.WebSocket, registry.SSE, registry.SEPA, registry.WebSub, registry.Webhook}

func wayName(w registry.Way) string {
	switch w {
	case registry.WebSocket:
		return "WebSocket"
	case registry.SSE:
		return "Server-sent events"
	case registry.SEPA:
		return "SEPA"
	case registry.WebSub:
		return "WebSub"
	case registry.Webhook:
		return "Webhook"
	}
	return ""
}

func waysOf(all []receiver, here registry.Way) []tocEntry {
	n := map[registry.Way]int{}
	for _, f := range all {
		n[f.Way]++
	}
	out := []tocEntry{{Name: "Trouble first", Link: "/deliveries", Here: wayName(here) == ""}}
	for _, w := range waysOut {
		if n[w] > 0 || w == here {
			out = append(out, tocEntry{Name: wayName(w), Link: "/deliveries?way=" + string(w), Word: count(n[w]), Here: w == here})
		}
	}
	return out
}

func (v deliveryHandler) lede(all []receiver) lede {
	n, given := map[int]int{}, uint64(0)
	for _, f := range all {
		n[f.rank]++
		given += f.GaveUp
	}
	failing, good := n[0]+n[1], n[5]+n[4]
	var l lede
	switch {
	case len(all) == 0 && !v.May(registry.RoleAdmin):
		return lede{Strong: "You follow nothing.", Rest: []phrase{{Text: "Followers of others are for admins to see."}}}
	case len(all) == 0:
		return lede{Strong: "There are no followers yet.", Rest: []phrase{{Text: "Changes are kept for later followers."}}}
	case good == len(all) && good == 1:
		l.Strong = "The one follower is up to date."
	case good == len(all):
		l.Strong = "All " + count(good) + " followers are up to date."
	default:
		l.Strong = count(good) + " of " + plural(len(all), "follower", "followers") + " " + agree(good, "is", "are") + " up to date."
	}
	var trouble []string
	if failing > 0 {
		trouble = append(trouble, count(failing)+" "+agree(failing, "fails", "fail"))
	}
	if n[2] > 0 {
		trouble = append(trouble, count(n[2])+" "+agree(n[2], "lags", "lag"))
	}
	if n[3] > 0 {
		trouble = append(trouble, count(n[3])+" "+agree(n[3], "has", "have")+" not agreed yet")
	}
	if len(trouble) > 0 {
		text := strings.Join(trouble, ", ") + ". "
		if given > 0 {
			text += plural(int(min(given, 1<<31-1)), "message was given up.", "messages were given up.")
		} else {
			text += "Nothing is lost: each goes on from its own position."
		}
		l.Rest = []phrase{{Text: text}}
	}
	if !v.May(registry.RoleAdmin) {
		l.Rest = append(l.Rest, phrase{Text: "Followers of others are not shown."})
	}
	return l
}

func agree(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func (v deliveryHandler) facts(all []receiver) facts {
	n := map[registry.Way]int{}
	var furthest receiver
	var sent, given uint64
	leases := 0
	for _, f := range all {
		n[f.Way]++
		sent, given = sent+f.Deliveries, given+f.GaveUp
		if f.lag > furthest.lag {
			furthest = f
		}
		if f.ExpiresAt != nil && f.ExpiresAt.Sub(v.now) < 24*time.Hour {
			leases++
		}
	}
	behind, who := template.HTML(none), template.HTML("all are up to date")
	if furthest.lag > 0 {
		behind = measure{count(furthest.lag), agree(int(min(furthest.lag, 2)), "change", "changes")}.HTML()
		who = template.HTML(template.HTMLEscapeString(followerName(furthest.Subscription)))
	}
	text := func(s string) template.HTML { return template.HTML(template.HTMLEscapeString(s)) }
	subs := text("no lease ends today")
	if leases > 0 {
		subs = text(plural(leases, "lease ends", "leases end") + " within a day")
	}
	return facts{Label: "Deliveries", List: []fact{
		{Label: "Furthest behind", Value: behind, Sub: who},
		{Label: "Sent", Value: text(count(sent)), Sub: text("messages to these followers")},
		{Label: "Given up", Value: text(count(given)), Sub: text("after many tries")},
		{Label: "WebSocket", Value: text(count(n[registry.WebSocket])), Sub: text("and " + count(n[registry.SSE]) + " server-sent events")},
		{Label: "WebSub", Value: text(count(n[registry.WebSub])), Sub: subs},
		{Label: "Webhooks", Value: text(count(n[registry.Webhook])), Sub: text("signed")},
	}}
}

// subscription returns the subscription that the path names, if it belongs to the
// visitor or the visitor is an admin.
func (v deliveryHandler) subscription() (registry.Subscription, error) {
	s, err := v.Subscriptions.Subscription(v.r.PathValue("id"))
	if err == nil && v.mine(s) {
		return s, nil
	}
	if err != nil && !isMissing(err) {
		return s, err
	}
	return s, &registry.Problem{Kind: registry.KindNotFound, Title: "There is no such follower", Detail: "It may have gone: followers by WebSocket and server-sent events are there while they are connected."}
}

func actOnFollower(verb, said string) func(deliveryHandler) error {
	return func(v deliveryHandler) error {
		s, err := v.subscription()
		if err != nil {
			return err
		}
		if _, err := v.Subscriptions.Act(s.ID, verb); err != nil {
			return v.refused("Nothing was done", err, "/deliveries")
		}
		v.say("good", followerName(s)+" "+said, "")
		return v.back("/deliveries")
	}
}

// replay resends the messages that a webhook has given up.
func (v deliveryHandler) replay() error {
	s, err := v.subscription()
	if err != nil {
		return err
	}
	if v.Webhooks == nil || s.Way != registry.Webhook {
		return &registry.Problem{Kind: registry.KindNotFound, Title: "This is no webhook"}
	}
	if _, err := v.Webhooks.Replay(s.ID, registry.Replay{}); err != nil {
		return v.refused("Nothing was sent", err, "/deliveries")
	}
	v.say("good", "What "+followerName(s)+" has missed is sent again.", "")
	return v.back("/deliveries")
}

func (v deliveryHandler) askToDrop() (content, error) {
	s, err := v.subscription()
	if err != nil {
		return content{}, err
	}
	c := confirmation{What: "connection", Name: followerName(s), Back: "/deliveries"}
	if s.Way == registry.WebSub || s.Way == registry.Webhook {
		c.What, c.Callback, c.GivenUp = string(s.Way), web.MaskedCallback(s.Callback), len(s.Dead)
	}
	return c.content("Drop", v.r), nil
}

func (v deliveryHandler) drop() error {
	s, err := v.subscription()
	if err != nil {
		return err
	}
	if _, err := v.Subscriptions.Act(s.ID, "drop"); err != nil {
		return v.refused("Nothing was dropped", err, "/deliveries")
	}
	v.say("", followerName(s)+" is dropped.", "")
	return v.to("/deliveries")
}
