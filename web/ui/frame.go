package ui

import (
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// A frame is what every page shows around its content: navigation, theme and message.
type frame struct {
	*visit
	Page    any
	Stamp   string // the server's time, the reference for relative times
	AsOf    string
	Theme   string
	Next    string // the theme that the button switches to
	Here    string // path and query of this page, for forms that return to it
	Events  string // address of the page's live stream, "" for none
	Said    *flash
	Disk    registry.Storage // shown on every page when the disk is full or nearly full
	Refused *refusal         // why the form that this page answers was rejected
	Signed  bool             // the visitor is signed in with a token
	Caller  string
	Role    registry.Role
	Places  []place
	Admin   []place
	Pulse   pulse
}

// A place is an entry of the navigation.
type place struct {
	Key, Path string
	Icon      template.HTML
	Admin     bool // for admins only
	Current   bool
	Count     string
	Bad       bool // the count is that of problems
}

// The navigation has a fixed order.
var rail = []place{
	{Key: "overview", Path: "/", Icon: `<path d="M2 14V2M2 14h12M5.5 11.5V8M9 11.5V4M12.5 11.5V6.5"/>`},
	{Key: "queries", Path: "/queries", Icon: `<path d="M2 3.5h12M2 8h8M2 12.5h5M10.5 11l2 2 2-3.5"/>`},
	{Key: "endpoints", Path: "/endpoints", Icon: `<path d="M3 2.5h10v4H3zM3 9.5h10v4H3zM5.5 4.5h1M5.5 11.5h1"/>`},
	{Key: "feeds", Path: "/feeds", Icon: `<path d="M3 13a10 10 0 0 1 10-10M3 13a6 6 0 0 1 6-6M3 13h.1"/>`},
	{Key: "profiles", Path: "/profiles", Icon: `<path d="M2 4h6M6 8h7M4 12h8"/><path d="M10 2v12" stroke-dasharray="1.5 1.5"/>`},
	{Key: "rules", Path: "/rules", Icon: `<path d="M4 11V7a4 4 0 0 1 8 0v4M2.5 11.5h11M7 14h2"/>`},
	{Key: "deliveries", Path: "/deliveries", Icon: `<path d="M2 8h9M8 4.5 11.5 8 8 11.5M14 3v10"/>`},
}

var administration = []place{
	{Key: "letters", Path: "/dead-letters", Icon: `<path d="M2 3.5h12v9H2zM2 4l6 5 6-5M10 11l2.5 2.5M12.5 11 10 13.5"/>`},
	{Key: "cluster", Path: "/cluster", Admin: true, Icon: `<circle cx="8" cy="3.5" r="2"/><circle cx="3.5" cy="12" r="2"/><circle cx="12.5" ` +
		`cy="12" r="2"/><path d="M7 5.5 4.5 10M9 5.5 11.5 10M5.5 12h5"/>`},
	{Key: "tokens", Path: "/tokens", Admin: true, Icon: `<circle cx="5" cy="8" r="2.5"/><path d="M7.5 8H14v3M11 8v2"/>`},
	{Key: "settings", Path: "/settings", Admin: true, Icon: `<path d="M2 5h6M12 5h2M2 11h2M8 11h6"/><circle cx="10" cy="5" r="2"/><circle ` +
		`cx="6" cy="11" r="2"/>`},
	{Key: "docs", Path: "/docs", Icon: `<path d="M8 4C6.5 3 4.5 2.8 2 3v9.5c2.5-.2 4.5 0 6 1 1.5-1 3.5-1.2 6-1V3c-2.5-.2-4.5 ` +
		`0-6 1zM8 4v9.5"/>`},
	{Key: "about", Path: "/about", Icon: `<circle cx="8" cy="8" r="6"/><path d="M8 7.2V11.5M8 4.5v.6"/>`},
}

// A pulse shows when the endpoints' next slots begin.
type pulse struct {
	More  int // endpoints that are not listed
	Beats []beat
}

type beat struct {
	Name, Link string
	Level      levelGauge
	State      string // starting, paused, unasked, halted, failing, manual, or "" for a time
	When       template.HTML
}

// Bad reports whether no slot runs although it should.
func (b beat) Bad() bool { return b.Level.Failing }

// Frame returns a page's surroundings.
func (v *visit) frame(section string, c content) *frame {
	f := &frame{visit: v, Page: c.Data, Stamp: v.now.Format(time.RFC3339), AsOf: v.now.Format("15:04:05"),
		Theme: theme(v.r), Here: v.r.URL.RequestURI(), Signed: v.token != "", Caller: v.caller.Name, Role: v.caller.Role}
	if v.r.Method == http.MethodPost {
		f.Here = "/"
	}
	for i, t := range themes {
		if t == f.Theme {
			f.Next = themes[(i+1)%len(themes)]
		}
	}
	f.Said = v.sessions.said(v.w, v.r)
	if v.stranger() {
		return f
	}
	m := menu{v}
	f.Disk = v.Health.Disk()
	counts := m.counts()
	f.Places, f.Admin = m.places(rail, section, counts), m.places(administration, section, counts)
	f.Pulse = m.pulse()
	return f
}

// parts returns the live parts of the navigation.
func (v menu) parts(section string) []part {
	counts := v.counts()
	main, more := v.places(rail, section, counts), v.places(administration, section, counts)
	return []part{{"places", "places", []any{"places", main}}, {"places-2", "places", []any{"places-2", more}},
		{"places-3", "places", []any{"places-3", more}}, {"pulse", "pulse", v.pulse()}}
}

func (v menu) places(all []place, section string, counts map[string]tally) []place {
	var out []place
	for _, p := range all {
		if p.Admin && !v.May(registry.RoleAdmin) || p.Key == "cluster" && v.Cluster == nil || p.Key == "feeds" && !v.hasFeeds() {
			continue
		}
		p.Current = p.Key == section
		if t, ok := counts[p.Key]; ok && t.n > 0 {
			p.Count, p.Bad = count(t.n), t.bad
		}
		out = append(out, p)
	}
	return out
}

// hasFeeds reports whether there is a feed to show.
func (v menu) hasFeeds() bool {
	list, err := v.ChangeFeeds.Feeds()
	return err == nil && len(list) > 0
}

// A tally is the number beside a navigation entry; bad reports whether it counts
// problems.
type tally struct {
	n   int
	bad bool
}

// counts fills in the numbers of the navigation. A number that cannot be read is left
// out: the navigation never prevents a page from being shown.
func (v menu) counts() map[string]tally {
	out := map[string]tally{}
	endpoints, err := v.Registry.Endpoints()
	if err != nil {
		return out
	}
	o, err := v.Outlook()
	if err != nil {
		return out
	}
	out["queries"], out["endpoints"] = tally{n: o.Results}, tally{n: len(endpoints)}
	wrong := map[string]int{}
	for _, t := range o.Troubles(v.caller) {
		wrong[t.Kind] += t.Count
	}
	for key, n := range map[string]int{"overview": wrong["storage"] + wrong["node"], "queries": wrong["query"], "endpoints": wrong["endpoint"],
		"rules": wrong["alert"] + wrong["rule"], "cluster": wrong["node"]} {
		if n > 0 {
			out[key] = tally{n, true}
		}
	}
	if all, err := v.profiles.look(); err == nil && all.Broken > 0 {
		out["profiles"] = tally{all.Broken, true}
	} else if err == nil {
		out["profiles"] = tally{n: len(all.List)}
	}
	c, err := v.followers()
	if err != nil {
		return out
	}
	out["letters"] = tally{c.lettersOf(v.caller), true}
	if v.May(registry.RoleAdmin) && c.Failing > 0 {
		out["deliveries"] = tally{c.Failing, true}
	} else if v.May(registry.RoleAdmin) {
		out["deliveries"] = tally{n: c.N}
	}
	return out
}

func (v menu) pulse() (p pulse) {
	endpoints, err := v.Registry.Endpoints()
	if err != nil {
		return p
	}
	const most = 16 // the page of endpoints lists the rest
	p.More = max(0, len(endpoints)-most)
	for _, e := range endpoints[:min(most, len(endpoints))] {
		b := beat{Name: e.Name, Link: endpointPath(e.Name)}
		st, err := v.Daemon.State(e.Name)
		switch {
		case err != nil:
			b.State = "starting"
		case e.Pause != nil:
			b.State, b.Level.Paused = "paused", true
		case !slices.Contains([]string{"", "waiting"}, web.EndpointTrouble(st)):
			b.State, b.Level.Failing = web.EndpointTrouble(st), true
		case st.Next.IsZero():
			b.State = "manual"
		default:
			b.When = v.Next(later(st.Next, st.NextTry))
		}
		if st.Last.Budget > 0 {
			b.Level.fill(st.Last.Used / st.Last.Budget)
		}
		p.Beats = append(p.Beats, b)
	}
	return p
}

// themes are listed in the order in which the button cycles through them.
var themes = []string{"auto", "light", "dark"}

func theme(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return "auto"
}

func (s *Server) followers() (counted, error) {
	oldest := func(took time.Duration) time.Duration { return max(time.Second, 2*idleIndex*took) }
	return s.counted.get(time.Now(), oldest, func() (counted, error) { return countFollowers(s.Subscriptions.Subscriptions) })
}

func countFollowers(list func(after string, limit int) ([]registry.Subscription, error)) (c counted, err error) {
	c.Letters = map[string]int{}
	for x, err := range registry.EachSubscription(list, "") {
		if err != nil || c.N == mostFollowers {
			return c, err
		}
		c.N++
		if x.Failures > 0 || x.State == registry.Disabled {
			c.Failing++
		}
		c.Letters[x.Caller] += len(x.Dead)
	}
	return c, nil
}

// mostFollowers is the maximum number counted.
const mostFollowers = 10_000
