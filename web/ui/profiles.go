package ui

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// A profilesPage answers: which intervals were captured, which are open now,
// which were lost and why?
type profilesPage struct {
	Lede lede
	List profileList
	More string // address of the next page
	May  bool
}

type profileList struct{ Rows []profileRow }

type profileRow struct {
	ID, Anchor, Name, About string
	Captured, Expired, Open int
	Why                     string
	Broken                  bool
	Labels                  []label
	Lanes                   []lane
	Foot                    []template.HTML
	Captures, Drop          string
}

// A lane is the intervals of one query on the profile's time axis.
type lane struct {
	Name, Link, When, About string
	Marks                   []mark
	Now                     string
}

// A mark is an interval: filled with a stroke at the run when it was captured,
// crossed when it expired, outlined while it is open, dashed before.
type mark struct{ Class, X, Width, At, Cross, Title string }

const (
	shownProfiles = 20
	shownRounds   = 8
)

func profiles(v *visit) (content, error) {
	items, next, err := v.Profiles.ListProfiles(web.ProfileFilter{}, v.r.URL.Query().Get("cursor"), shownProfiles)
	if err != nil {
		return content{}, err
	}
	p := profilesPage{May: v.May(registry.RoleApp)}
	if next != "" {
		p.More = "/profiles?" + url.Values{"cursor": {next}}.Encode()
	}
	for _, it := range items {
		row, err := v.profileRow(it)
		if err != nil {
			return content{}, err
		}
		p.List.Rows = append(p.List.Rows, row)
	}
	slices.SortStableFunc(p.List.Rows, func(a, b profileRow) int { return b.Expired - a.Expired })
	p.Lede = profilesLede(p.List.Rows)
	return content{Title: "Profiles", Data: p, Live: []part{{"lede", "lede-small", p.Lede}, {"profile-list", "profile-list", p.List}}}, nil
}

func profilesLede(rows []profileRow) lede {
	captured, expired := 0, 0
	var l lede
	for _, r := range rows {
		captured, expired = captured+r.Captured, expired+r.Expired
		if r.Broken {
			l.Rest = append(l.Rest, phrase{Text: r.Name + " misses a query."})
		}
	}
	switch ended := captured + expired; {
	case len(rows) == 0:
		return lede{Strong: "No profile is kept.", Rest: []phrase{{Text: "A profile wants several queries, each run in an interval of its own."}}}
	case ended == 0:
		l.Strong = "No interval has ended yet."
	case expired == 0:
		l.Strong = "All " + plural(captured, "round was captured.", "rounds were captured.")
	default:
		l.Strong = share(float64(captured)/float64(ended)).String() + " of the rounds that ended were captured."
	}
	return l
}

func (v *visit) profileRow(it web.ProfileItem) (profileRow, error) {
	p, s := it.Profile, it.Status
	r := profileRow{ID: p.ID, Anchor: "p-" + p.ID, Name: clip(p.Name, 120), Captured: int(s.Seq), Expired: int(s.Expired), Open: s.Open, Broken: len(s.Missing) > 0,
		Captures: "/v1/profiles/" + url.PathEscape(p.ID) + "/captures"}
	if r.Name == "" {
		r.Name = p.ID
	}
	r.About = p.Endpoint
	if e, err := v.Registry.Endpoint(p.Endpoint); err == nil {
		r.About += ", " + e.Policy
	}
	rounds, _, err := v.Profiles.Rounds(p.ID, "", 0, shownRounds)
	if err != nil && !isMissing(err) {
		return r, err
	}
	r.draw(v, &p, rounds)
	for _, x := range rounds {
		if x.State == registry.RoundExpired {
			r.Why = "Round " + count(x.Number) + " was lost: " + sentence(clip(x.Reason, 240))
			break
		}
	}
	text := func(s string) { r.Foot = append(r.Foot, template.HTML(template.HTMLEscapeString(s))) }
	if v.NextRound != nil {
		if at := v.NextRound(p); !at.IsZero() {
			r.Foot = append(r.Foot, "the next round opens "+v.when(at))
		}
	}
	if v.Following != nil {
		text(plural(v.Following(p.ID), "follower", "followers"))
	}
	if v.May(registry.RoleAdmin) || p.Owner == v.caller.Name {
		r.Drop = "/profiles/" + url.PathEscape(p.ID) + "/remove"
	}
	return r, nil
}

// draw puts the rounds on a time axis, a lane for each item. Intervals that are
// counted in slots have a place there once they were captured.
func (r *profileRow) draw(v *visit, p *registry.Profile, rounds []registry.Round) {
	lo, hi := v.now, v.now
	for _, x := range rounds {
		for _, i := range x.Intervals {
			from, until := bounds(i)
			if !from.IsZero() {
				lo, hi = earlier(lo, from), later(hi, until)
			}
		}
	}
	room := hi.Sub(lo)
	if room < time.Second {
		room = time.Second
	}
	at := func(t time.Time) float64 { return float64(t.Sub(lo)) / float64(room) * 100 }
	now := fmt.Sprintf("%.2f%%", at(v.now))
	for n, item := range p.Items {
		l := lane{When: whenWords(item.When, p.Follows(n)), Now: now, Name: item.Query}
		if q, err := v.Registry.Query(item.Query); err == nil {
			l.Name, l.Link = clip(v.name(&q), 120), queryPath(q.ID)
		}
		states := map[string]int{}
		for _, x := range slices.Backward(rounds) {
			if n < len(x.Intervals) {
				if m, state := markOf(x, x.Intervals[n], v.now, at); state != "" {
					l.Marks = append(l.Marks, m)
					states[state]++
				}
			}
		}
		l.About = l.Name + ": " + laneWords(states)
		r.Lanes = append(r.Lanes, l)
	}
	layout := "15:04"
	if room < 10*time.Minute {
		layout = "15:04:05"
	}
	r.Labels = []label{{"0", "start", lo.UTC().Format(layout)}, {"100%", "end", hi.UTC().Format(layout)}}
}

func bounds(i registry.Interval) (from, until time.Time) {
	from, until = i.From, i.Until
	if from.IsZero() && i.Done != nil {
		return i.Done.At, i.Done.At
	}
	return from, until
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func markOf(x registry.Round, i registry.Interval, now time.Time, at func(time.Time) float64) (mark, string) {
	from, until := bounds(i)
	if from.IsZero() {
		return mark{}, ""
	}
	x0, x1 := at(from), at(until)
	m := mark{X: fmt.Sprintf("%.2f%%", x0), Width: fmt.Sprintf("%.2f%%", max(x1-x0, 0.6))}
	state := "to come"
	switch {
	case i.Done != nil:
		state, m.Class, m.At = "captured", "cap1", fmt.Sprintf("%.2f%%", at(i.Done.At))
	case x.State == registry.RoundExpired:
		state, m.Class, m.Cross = "expired", "exp", fmt.Sprintf("%.2f%%", (x0+x1)/2)
	case now.Before(from):
		m.Class = "fut"
	default:
		state, m.Class = "open", "act"
	}
	m.Title = from.UTC().Format("15:04:05") + " to " + until.UTC().Format("15:04:05") + ": " + state
	if i.Reason != "" {
		m.Title += ", " + clip(i.Reason, 160)
	}
	return m, state
}

func laneWords(n map[string]int) string {
	var words []string
	for _, state := range []string{"captured", "expired", "open", "to come"} {
		if n[state] > 0 {
			words = append(words, count(n[state])+" "+state)
		}
	}
	if len(words) == 0 {
		return "no interval yet"
	}
	return strings.Join(words, ", ")
}

func whenWords(w registry.When, within registry.Span) string {
	switch {
	case !w.Every.IsZero():
		return "every " + w.Every.String() + ", for " + w.Slack.String()
	case w.Changed != "":
		return "within " + within.String() + " of a change"
	}
	return "when its change is due, for " + within.String()
}

// A profileForm makes a profile; each item is a line.
type profileForm struct {
	Lede lede
	Form form
}

var profileFields = []field{{"name", "Name", "p-n", true}, {"items", "Queries", "p-i", true}, {"window", "Window", "p-w", true}, {"budget", "Budget", "p-b", true}}

func newProfile(v *visit) (content, error) {
	return v.profileForm(form{Values: url.Values{}, Fields: profileFields}), nil
}

func (v *visit) profileForm(f form) content {
	return content{Title: "New profile", Data: profileForm{Form: f, Lede: lede{Strong: "Several queries, each in its interval.", Rest: []phrase{{Text: "A round is captured when each ran inside its own."}}}}}
}

// readItem reads "QUERY every 5m for 1m", "QUERY changed OTHER within 2m" or
// "QUERY predicted within 4m".
func readItem(line string) (registry.Item, error) {
	bad := fmt.Errorf("%q is none of: QUERY every 5m for 1m, QUERY changed OTHER within 2m, QUERY predicted within 4m", clip(line, 80))
	words := strings.Fields(line)
	if len(words) < 2 {
		return registry.Item{}, bad
	}
	it, rest := registry.Item{Query: words[0]}, words[1:]
	spans := map[string]*registry.Span{"every": &it.When.Every, "for": &it.When.Slack, "within": &it.When.Within}
	for len(rest) > 0 {
		word := rest[0]
		rest = rest[1:]
		switch {
		case word == "predicted":
			it.When.Predicted = true
			continue
		case len(rest) == 0:
			return it, bad
		case word == "changed":
			it.When.Changed = rest[0]
		case spans[word] == nil:
			return it, bad
		default:
			s := rest[0]
			if len(rest) > 1 && strings.HasPrefix(rest[1], "slot") {
				s, rest = s+" "+rest[1], rest[1:]
			}
			if err := spans[word].UnmarshalText([]byte(s)); err != nil {
				return it, err
			}
		}
		rest = rest[1:]
	}
	return it, nil
}

func createProfile(v *visit) error {
	f := v.typed(profileFields)
	req := registry.ProfileRequest{Name: strings.TrimSpace(f.Get("name"))}
	for _, line := range strings.Split(strings.ReplaceAll(f.Get("items"), "\r", ""), "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		it, err := readItem(line)
		if err != nil {
			f.bad("items", sentence(err.Error()))
		}
		req.Items = append(req.Items, it)
	}
	if s := strings.TrimSpace(f.Get("window")); s != "" {
		if err := req.Window.UnmarshalText([]byte(s)); err != nil {
			f.bad("window", sentence(err.Error()))
		}
	}
	f.duration("budget", &req.Budget)
	if f.Status == 0 {
		p, _, err := v.Registry.CreateProfile(v.caller, req)
		if err == nil {
			v.say("good", "The profile is kept.", "Its first round opens by itself.")
			return v.to("/profiles#p-" + p.ID)
		}
		if err := f.refuse(err); err != nil {
			return err
		}
	}
	return v.again(f, "newprofile", "profiles", v.profileForm(f))
}

// profile is the one that the path names, if the visitor may end it.
func (v *visit) profile() (registry.Profile, error) {
	p, err := v.Registry.Profile(v.r.PathValue("id"))
	if err == nil && !v.May(registry.RoleAdmin) && p.Owner != v.caller.Name {
		return p, forbidden("This profile is another's.")
	}
	if isMissing(err) {
		return p, &registry.Problem{Type: "not-found", Status: http.StatusNotFound, Title: "There is no such profile"}
	}
	return p, err
}

func askToRemoveProfile(v *visit) (content, error) {
	p, err := v.profile()
	if err != nil {
		return content{}, err
	}
	name := p.Name
	if name == "" {
		name = p.ID
	}
	return confirmation{Title: "Remove " + name + "?", Crumb: "Profiles", Back: "/profiles", Action: "/profiles/" + url.PathEscape(p.ID) + "/remove", Button: "Remove " + name, Keep: "Keep it",
		Bold: "Its rounds are not captured any more.", Rest: "Its queries stay.", Loses: []string{"What was captured, and what was lost, of all its rounds.", "Its followers: they are told that it is over."}}.content(), nil
}

func removeProfile(v *visit) error {
	p, err := v.profile()
	if err != nil {
		return err
	}
	if err := v.Registry.DeleteProfile(v.caller, p.ID); err != nil {
		return err
	}
	v.say("", "The profile is removed.", "")
	return v.to("/profiles")
}
