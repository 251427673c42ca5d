package web

// This file holds the API of profiles and their rounds.

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

func (c profileAPI) list() error {
	limit, cursor := c.params.limit(usualPage, mostPage), c.params.cursor("p_")
	if c.params.err != nil {
		return c.params.err
	}
	f := registry.ProfileFilter{Endpoint: c.params.Get("endpoint"), Owner: c.params.Get("holder"), Text: c.params.Get("q")}
	items, next, err := c.Profiles.ListProfiles(f, cursor, limit)
	if err != nil {
		return err
	}
	views, err := viewed(items, c.viewer().profile)
	if err != nil {
		return err
	}
	return c.page("profiles", views, next, "endpoint", "holder", "q", "limit")
}

func (c profileAPI) create() error {
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
	return c.answer(status, p, nil)
}

// profile returns the profile that the path names by id or name.
func (c *call) profile() (registry.Profile, error) {
	return c.Registry.ResolveProfile(c.caller, c.r.PathValue("id"))
}

// answer answers with a profile unless err says why there is none.
func (c profileAPI) answer(status int, p registry.Profile, err error) error {
	if err != nil {
		return err
	}
	it, err := c.Profiles.ProfileItem(p.ID)
	if err != nil {
		return err
	}
	v, err := c.viewer().profile(it)
	if err != nil {
		return err
	}
	c.w.Header().Set("ETag", profileTag(it.Profile))
	return c.json(status, v)
}

func (c profileAPI) show(p registry.Profile) error { return c.answer(http.StatusOK, p, nil) }

func (c profileAPI) edit() error {
	var e registry.ProfilePatch
	if err := c.patch(&e); err != nil {
		return err
	}
	p, err := guarded(c.call, (*call).profile, profileTag, func(p registry.Profile) (registry.Profile, error) {
		return c.Registry.PatchProfile(c.caller, p.ID, e)
	})
	return c.answer(http.StatusOK, p, err)
}

func profileTag(p registry.Profile) string { return settingsTag(p) }

func (c profileAPI) remove() error {
	_, err := guarded(c.call, (*call).profile, profileTag, func(p registry.Profile) (registry.Profile, error) {
		return p, c.Registry.DeleteProfile(c.caller, p.ID)
	})
	return c.noContent(err)
}

var roundStates = []registry.RoundState{"", registry.RoundOpen, registry.RoundCaptured, registry.RoundExpired}

// captures serves rounds as a list, newest first, as a log after a position, or as
// an event stream.
func (c profileAPI) captures(p registry.Profile) error {
	stream, err := c.wantsStream()
	if err != nil {
		return err
	}
	if stream {
		return c.follow("", func() { c.Followers.ProfileCaptures(c.w, c.r, c.caller.Name, p) })
	}
	limit := c.params.limit(usualPage, mostPage)
	after, given := c.params.position()
	switch {
	case c.params.err != nil:
		return c.params.err
	case given:
		return c.capturesAfter(p, after, limit)
	}
	return c.rounds(p, limit)
}

func (c profileAPI) rounds(p registry.Profile, limit int) error {
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
	v := c.viewer()
	for i := range list {
		page.Rounds[i] = v.round(&list[i])
	}
	if next > 0 {
		page.Next = strconv.FormatUint(next, 10)
		c.linkNext(page.Next, "state", "limit")
	}
	return c.json(http.StatusOK, page)
}

func (c profileAPI) capturesAfter(p registry.Profile, after registry.Position, limit int) error {
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
	v := c.viewer()
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
	Rounds   []api.Round `json:"rounds"`
	Next     string      `json:"next,omitempty"`
}

func (c profileAPI) capturePage(it registry.ListedProfile, n int) capturePage {
	s := it.Status
	return capturePage{Profile: it.Profile.ID, Epoch: s.Epoch, Seq: s.Seq, Captured: s.Seq, Expired: s.Expired, Open: s.Open,
		Rounds: make([]api.Round, n)}
}
