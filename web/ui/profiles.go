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
)

// A profilesPage answers: which intervals were captured, which are open now, which
// were lost and why?
type profilesPage struct {
	All       *profileSnapshot
	List      profileList
	Text      string
	Endpoints []choice
	Sorts     []choice
	Pages     *pager
	Many      bool // there are enough profiles for a search field
	May       bool
}

// A profileList shows a few profiles with their intervals, and more as rows.
type profileList struct {
	None, Nothing bool // there is no profile; no profile matches
	Sheets        []profileSheet
	Rows          []profileRow
}

type profileRow struct {
	profileDigest
	Link    string
	Strip   strip
	LastEnd template.HTML
}

const (
	shownProfiles = 25
	drawnProfiles = 3  // number of profiles shown with their intervals
	stripRounds   = 24 // rounds drawn in a row
)

func (v profileHandler) list() (content, error) {
	snap, err := v.profiles.look()
	if err != nil {
		return content{}, err
	}
	q := v.r.URL.Query()
	text, endpoint, sort := clip(q.Get("q"), 200), q.Get("endpoint"), q.Get("sort")
	found := snap.find(text, endpoint, sort)
	p := profilesPage{May: v.May(registry.RoleApp), All: snap, Text: text, Many: len(snap.List) > drawnProfiles,
		Endpoints: choices(snap.endpoints, endpoint)}
	for _, o := range profileOrders {
		p.Sorts = append(p.Sorts, choice{Value: o.key, Selected: o.key == sort})
	}
	p.List.None, p.List.Nothing = len(snap.List) == 0, len(found) == 0
	if len(found) > drawnProfiles {
		found, p.Pages = turn(q, found, shownProfiles, "/profiles", "page", "q", "endpoint", "sort")
		p.List.Rows, err = v.rows(found)
	} else {
		p.List.Sheets, err = v.sheets(found)
	}
	return content{Data: p, Live: []part{{"lede", "profiles-lede", snap}, {"profile-list", "profile-list", p.List}}}, err
}

func profilePath(id string) string { return "/profiles/" + url.PathEscape(id) }

// rows reads the data that the index does not hold. Profiles removed in the meantime
// are left out.
func (v profileHandler) rows(list []profileDigest) (rows []profileRow, err error) {
	for i := range list {
		d := &list[i]
		rounds, _, err := v.Profiles.Rounds(d.ID, "", 0, stripRounds)
		if isMissing(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		rows = append(rows, profileRow{profileDigest: *d, Link: profilePath(d.ID), Strip: roundStrip(rounds), LastEnd: v.Past(d.Ended)})
	}
	return rows, nil
}

// roundStrip draws rounds, given newest first, as ticks: tall = captured, cross =
// expired, hollow = open.
func roundStrip(rounds []registry.Round) strip {
	if len(rounds) == 0 {
		return strip{Empty: true}
	}
	var captured, open, expired drawing
	n := map[registry.RoundState]int{}
	for i, r := range rounds {
		x := float64(stripSlots-1-i)*4 + .5
		n[r.State]++
		switch r.State {
		case registry.RoundCaptured:
			captured.bar(x, 6, 3, 12)
		case registry.RoundOpen:
			open.bar(x+.5, 7.5, 2, 10)
		default:
			expired.cross(x)
		}
	}
	return strip{Changed: captured.String(), Partial: open.String(), Failed: expired.String(), Rounds: n, Of: len(rounds)}
}

// A profileForm creates a profile; each line is an item.
type profileForm struct {
	Form    form
	Grammar string
}

var profileFields = []string{"name", "items", "window", "budget"}

func (v profileHandler) add() (content, error) {
	return v.form(form{Values: url.Values{}, Fields: profileFields}), nil
}

func (v profileHandler) form(f form) content {
	return content{Data: profileForm{Form: f, Grammar: registry.ItemGrammar}}
}

// items parses a field with one item per line and ignores empty lines.
func (f *form) items(name string) (list []registry.Item) {
	n := 0
	for line := range strings.Lines(f.Get(name)) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		n++
		it, err := registry.ParseItem(line)
		if err != nil {
			f.record(fault{Name: name, Line: n, Text: err.Error()})
		}
		list = append(list, it)
	}
	return list
}

func (v profileHandler) create() error {
	f := v.typed(profileFields)
	req := registry.ProfileRequest{Name: strings.TrimSpace(f.Get("name")), Items: f.items("items")}
	if s := strings.TrimSpace(f.Get("window")); s != "" {
		if err := req.Window.UnmarshalText([]byte(s)); err != nil {
			f.record(fault{Name: "window", Text: err.Error()})
		}
	}
	f.read("budget", &req.Budget)
	if f.Status == 0 {
		p, _, err := v.Registry.CreateProfile(v.caller, req)
		if err == nil {
			v.profiles.drop()
			v.say("good", "profile-created", "", "")
			return v.to(profilePath(p.ID))
		}
		if err := f.refuse(err); err != nil {
			return err
		}
	}
	return v.again(f, "newprofile", "profiles", v.form(f))
}

// ownProfile returns the profile that the path names, if the visitor may remove it.
func (v profileHandler) ownProfile() (registry.Profile, error) {
	p, err := v.Registry.Profile(v.r.PathValue("id"))
	if err == nil && !v.mayEnd(&p) {
		return p, forbidden("This profile is another's.")
	}
	return p, missingProfile(err)
}

func (v profileHandler) mayEnd(p *registry.Profile) bool {
	return v.May(registry.RoleAdmin) || v.May(registry.RoleApp) && p.Owner == v.caller.Name
}

func missingProfile(err error) error {
	if isMissing(err) {
		return &registry.Problem{Kind: registry.KindNotFound, Title: "There is no such profile"}
	}
	return err
}

func (v profileHandler) askToRemove() (content, error) {
	p, err := v.ownProfile()
	if err != nil {
		return content{}, err
	}
	return confirmation{What: "profile", Name: profileName(&p), Back: profilePath(p.ID)}.content(v.r), nil
}

func profileName(p *registry.Profile) string {
	return cmp.Or(clip(strings.TrimSpace(p.Name), 120), p.ID)
}

func (v profileHandler) remove() error {
	p, err := v.ownProfile()
	if err != nil {
		return err
	}
	if err := v.Registry.DeleteProfile(v.caller, p.ID); err != nil {
		return err
	}
	v.profiles.drop()
	v.say("", "profile-removed", "", "")
	return v.to("/profiles")
}

// A profileSheet shows a profile with the intervals of its last rounds.
type profileSheet struct {
	ID, Name, Link          string
	Endpoint, Policy        string
	Captured, Expired, Open int
	Lost                    *registry.Round // the last round that expired, nil if there is none
	Time                    timeline
	NextRound               template.HTML // when the next round opens, "" if that is unknown
	Followers               int
	Captures, Drop          string
}

func (v profileHandler) sheets(list []profileDigest) (sheets []profileSheet, err error) {
	for _, d := range list {
		it, err := v.Profiles.ProfileItem(d.ID)
		if isMissing(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		s, err := v.sheet(it)
		if err != nil {
			return nil, err
		}
		sheets = append(sheets, s)
	}
	return sheets, nil
}

func (v profileHandler) sheet(it registry.ListedProfile) (profileSheet, error) {
	p, s := &it.Profile, &it.Status
	out := profileSheet{ID: p.ID, Name: profileName(p), Link: profilePath(p.ID), Endpoint: p.Endpoint, Followers: v.Following(p.ID),
		Captured: int(s.Seq), Expired: int(s.Expired), Open: s.Open,
		Captures: "/v1/profiles/" + url.PathEscape(p.ID) + "/captures"}
	if e, err := v.Registry.Endpoint(p.Endpoint); err == nil {
		out.Policy = e.Policy
	}
	rounds, _, err := v.Profiles.Rounds(p.ID, "", 0, shownRounds)
	if err != nil && !isMissing(err) {
		return out, err
	}
	if out.Time, err = v.timeline(p, rounds); err != nil {
		return out, err
	}
	if i := slices.IndexFunc(rounds, func(r registry.Round) bool { return r.State == registry.RoundExpired }); i >= 0 {
		out.Lost = &rounds[i]
	}
	if at := v.NextRound(*p); !at.IsZero() {
		out.NextRound = v.Next(at)
	}
	if v.mayEnd(p) {
		out.Drop = profilePath(p.ID) + "/remove"
	}
	return out, nil
}

// A profilePage shows one profile: its intervals, and its rounds in words.
type profilePage struct {
	clock
	Sheet   profileSheet
	Digest  profileDigest
	Profile registry.Profile
	Missing string // a query that it misses
	Rounds  []roundRow
	Pages   *pager
}

// Weight returns the weight of the profile, which is 1 unless it is set.
func (p profilePage) Weight() string { return figures(cmp.Or(p.Profile.Weight, 1)) }

// A roundRow is a round; the template has the words.
type roundRow struct {
	registry.Round
	Opened, Ended template.HTML
}

// Class returns how the round's state is displayed.
func (r roundRow) Class() string {
	return map[registry.RoundState]string{registry.RoundCaptured: "live", registry.RoundExpired: "failing", registry.RoundOpen: "new"}[r.State]
}

// Ran returns the number of its queries that have run.
func (r roundRow) Ran() (n int) {
	for _, i := range r.Intervals {
		if i.Done != nil {
			n++
		}
	}
	return n
}

// Took returns the time from its opening to its end.
func (r roundRow) Took() time.Duration { return r.EndedAt.Sub(r.OpenedAt).Round(time.Millisecond) }

const listedRounds = 20

func (v profileHandler) page() (content, error) {
	p, err := v.Registry.ResolveProfile(v.caller, v.r.PathValue("id"))
	if err != nil {
		return content{}, missingProfile(err)
	}
	it, err := v.Profiles.ProfileItem(p.ID)
	if err != nil {
		return content{}, missingProfile(err)
	}
	d := digestOf(&it)
	page := profilePage{clock: v.clock, Digest: d, Profile: p, Pages: &pager{}}
	if d.Broken {
		page.Missing = it.Status.Missing[0]
	}
	if page.Sheet, err = v.sheet(it); err != nil {
		return content{}, err
	}
	before, _ := strconv.ParseUint(v.r.URL.Query().Get("before"), 10, 53)
	rounds, next, err := v.Profiles.Rounds(p.ID, "", before, listedRounds)
	if err != nil {
		return content{}, missingProfile(err)
	}
	for i := range rounds {
		page.Rounds = append(page.Rounds, roundRow{rounds[i], v.Past(rounds[i].OpenedAt), v.Past(rounds[i].EndedAt)})
	}
	if before > 0 {
		page.Pages.Prev = profilePath(p.ID) + "#rounds"
	}
	if next > 0 {
		page.Pages.Next = profilePath(p.ID) + "?before=" + strconv.FormatUint(next, 10) + "#rounds"
	}
	return content{Data: page, Live: []part{{"profile-now", "profile-now", page}, {"rounds", "profile-rounds", page}}}, nil
}
