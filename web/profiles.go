package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/freshet/freshet/registry"
)

// Profiles reads profiles with their progress and their rounds.
type Profiles interface {
	ProfileList
	Rounds
}

// ProfileList reads profiles with their progress.
type ProfileList interface {
	// ListProfiles returns a page in id order after cursor, at most limit, and
	// the next cursor, "" at the end.
	ListProfiles(f registry.ProfileFilter, cursor string, limit int) ([]registry.ListedProfile, string, error)
	// ProfileItem returns one profile; it wraps registry.ErrNotFound.
	ProfileItem(id string) (registry.ListedProfile, error)
}

// Rounds reads the rounds of profiles.
type Rounds interface {
	// Rounds returns at most limit of a profile's rounds below a number (0: all) with
	// a state ("": any), newest first. next is the number for the next page, 0 at the
	// end. A page may be shorter than limit before the end.
	Rounds(id string, state registry.RoundState, before uint64, limit int) (list []registry.Round, next uint64, err error)
	// Captured returns the captures after p, oldest first. The error is a
	// *registry.GapError if the log does not continue from p.
	Captured(id string, p registry.Position, limit int) ([]registry.RoundEnd, error)
}

func listProfiles(c *call) error {
	limit, err := c.limit(usualPage, mostPage)
	if err != nil {
		return err
	}
	cursor, err := c.cursor("p_")
	if err != nil {
		return err
	}
	f := registry.ProfileFilter{Endpoint: c.params.Get("endpoint"), Owner: c.params.Get("holder"), Text: c.params.Get("q")}
	items, next, err := c.Profiles.ListProfiles(f, cursor, limit)
	if err != nil {
		return err
	}
	page := struct {
		Profiles []profileView `json:"profiles"`
		Next     string        `json:"next,omitempty"`
	}{make([]profileView, len(items)), next}
	v := c.profileViewer()
	for i, it := range items {
		if page.Profiles[i], err = v.profile(it); err != nil {
			return err
		}
	}
	if next != "" {
		c.linkNext("/v1/profiles", next, "endpoint", "holder", "q", "limit")
	}
	return c.json(http.StatusOK, page)
}

// linkNext links the next page: the same parameters with a new cursor.
func (c *call) linkNext(path, cursor string, keep ...string) {
	p := url.Values{"cursor": {cursor}}
	for _, k := range keep {
		if s := c.params.Get(k); s != "" {
			p.Set(k, s)
		}
	}
	c.w.Header().Set("Link", "<"+c.url(path+"?"+p.Encode())+`>; rel="next"`)
}

func createProfile(c *call) error {
	var req registry.ProfileRequest
	if err := c.decode(&req, typeJSON); err != nil {
		return err
	}
	p, created, err := c.Registry.CreateProfile(c.caller, req)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	c.w.Header().Set("Location", c.url("/v1/profiles/"+url.PathEscape(p.ID)))
	return c.answerProfile(status, p)
}

// profile returns the profile that the path names by id or name.
func (c *call) profile() (registry.Profile, error) {
	return c.Registry.ResolveProfile(c.caller, c.r.PathValue("id"))
}

func (c *call) answerProfile(status int, p registry.Profile) error {
	it, err := c.Profiles.ProfileItem(p.ID)
	if err != nil {
		return err
	}
	v, err := c.profileViewer().profile(it)
	if err != nil {
		return err
	}
	c.w.Header().Set("ETag", settingsTag(it.Profile))
	return c.json(status, v)
}

func showProfile(c *call) error {
	p, err := c.profile()
	if err != nil {
		return err
	}
	return c.answerProfile(http.StatusOK, p)
}

func patchProfile(c *call) error {
	var body struct {
		Name   member[string]            `json:"name"`
		Budget member[registry.Duration] `json:"budget"`
		Weight member[float64]           `json:"weight"`
	}
	if err := c.decode(&body, typeMerge, typeJSON); err != nil {
		return err
	}
	p, err := c.patchMatched(registry.ProfilePatch{Name: body.Name.pointer(), Budget: body.Budget.pointer(), Weight: body.Weight.pointer()})
	if err != nil {
		return err
	}
	return c.answerProfile(http.StatusOK, p)
}

// patchMatched edits the profile of the path. It releases the lock before the answer
// is written, because a client may be slow to read it.
func (c *call) patchMatched(edit registry.ProfilePatch) (registry.Profile, error) {
	c.edit.Lock()
	defer c.edit.Unlock()
	p, err := c.matchedProfile()
	if err != nil {
		return p, err
	}
	return c.Registry.PatchProfile(c.caller, p.ID, edit)
}

func (c *call) matchedProfile() (registry.Profile, error) {
	p, err := c.profile()
	if err != nil {
		return p, err
	}
	return p, c.ifMatch(settingsTag(p))
}

func deleteProfile(c *call) error {
	c.edit.Lock()
	defer c.edit.Unlock()
	p, err := c.matchedProfile()
	if err != nil {
		return err
	}
	if err := c.Registry.DeleteProfile(c.caller, p.ID); err != nil {
		return err
	}
	return c.noContent()
}

var roundStates = []registry.RoundState{"", registry.RoundOpen, registry.RoundCaptured, registry.RoundExpired}

// listCaptures serves rounds as a list, newest first, as a log after a position, or as
// an event stream.
func listCaptures(c *call) error {
	p, err := c.profile()
	if err != nil {
		return err
	}
	stream, err := c.wantsStream(c.Followers != nil)
	if err != nil {
		return err
	}
	if stream {
		return c.follow("", func() { c.Followers.ProfileCaptures(c.w, c.r, c.caller.Name, p) })
	}
	limit, err := c.limit(usualPage, mostPage)
	if err != nil {
		return err
	}
	after, given, err := c.position()
	if err != nil {
		return err
	}
	if given {
		return c.capturesAfter(p, after, limit)
	}
	return c.rounds(p, limit)
}

func (c *call) rounds(p registry.Profile, limit int) error {
	state := registry.RoundState(c.params.Get("state"))
	if !slices.Contains(roundStates, state) {
		return malformed("?state", "state is open, captured or expired")
	}
	before := uint64(0)
	if s := c.params.Get("cursor"); s != "" {
		var err error
		if before, err = strconv.ParseUint(s, 10, 53); err != nil || before == 0 {
			return malformed("?cursor", "a cursor is what next of the page before says")
		}
	}
	it, err := c.Profiles.ProfileItem(p.ID)
	if err != nil {
		return err
	}
	list, next, err := c.Profiles.Rounds(p.ID, state, before, limit)
	if err != nil {
		return err
	}
	page := c.capturePage(it, len(list))
	v := c.profileViewer()
	for i := range list {
		page.Rounds[i] = v.round(&list[i])
	}
	if next > 0 {
		page.Next = strconv.FormatUint(next, 10)
		c.linkNext("/v1/profiles/"+url.PathEscape(p.ID)+"/captures", page.Next, "state", "limit")
	}
	return c.json(http.StatusOK, page)
}

func (c *call) capturesAfter(p registry.Profile, after registry.Position, limit int) error {
	it, err := c.Profiles.ProfileItem(p.ID)
	if err != nil {
		return err
	}
	list, err := c.Profiles.Captured(p.ID, after, limit)
	if err != nil {
		return err
	}
	page := c.capturePage(it, len(list))
	page.Next = after.String()
	v := c.profileViewer()
	for i := range list {
		page.Rounds[i] = v.round(&list[i].Round)
		page.Next = list[i].Position.String()
	}
	return c.json(http.StatusOK, page)
}

// A capturePage is a page of a profile's rounds with the totals of the profile.
type capturePage struct {
	Profile  string      `json:"profile"`
	Epoch    string      `json:"epoch"`
	Seq      uint64      `json:"seq"`
	Captured uint64      `json:"captured"`
	Expired  uint64      `json:"expired"`
	Open     int         `json:"open"`
	Rounds   []roundView `json:"rounds"`
	Next     string      `json:"next,omitempty"`
}

func (c *call) capturePage(it registry.ListedProfile, n int) capturePage {
	s := it.Status
	return capturePage{Profile: it.Profile.ID, Epoch: s.Epoch, Seq: s.Seq, Captured: s.Seq, Expired: s.Expired, Open: s.Open, Rounds: make([]roundView, n)}
}
