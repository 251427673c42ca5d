package ui

import (
	"github.com/freshet/freshet/registry"
)

// A page describes one kind of page.
type page struct {
	path    string // router pattern without a method
	look    string // its template, templates/{look}.html
	section string // its navigation section, "" for none
	need    registry.Role
	build   func(*visit) (content, error)
	live    bool // has a live stream
	absent  bool // the server lacks what the page shows
}

// A content is the data of one response.
type content struct {
	Data any
	Live []part // the parts that the live stream updates
	Feed *feed  // a list to which new entries are added at the top
}

// A part of a page is updated live. Its template renders one element, which has the
// part's id.
type part struct {
	ID, Template string
	Data         any
}

// A feed is a list to which new entries are added at the top.
type feed struct {
	List     string // id of the element
	Template string // template of one entry
	Most     int    // maximum number of entries shown
	// After returns the entries after a position, oldest first, and the position after
	// them.
	After func(at registry.Offset) ([]any, registry.Offset, error)
	At    registry.Offset // the position up to which the page shows the list
}

// An action handles a form's POST. It writes its own answer, usually with v.back or
// v.to.
type action struct {
	path string
	need registry.Role // "" if no role is required
	run  func(*visit) error

	absent bool // the server lacks what the action needs
}
