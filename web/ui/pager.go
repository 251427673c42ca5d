package ui

import (
	"net/url"
)

// A pager shows which part of a list a page holds, and links to the others.
type pager struct {
	First, Last, All int
	More             bool // there are more than All
	Prev, Next       string
}

// pages returns the pager of a page that shows some elements of a list; nil if it
// shows none. link returns the address of the page that starts at an element.
func pages(from, shown, all, step int, link func(from int) string) *pager {
	if shown <= 0 {
		return nil
	}
	p := &pager{First: from + 1, Last: from + shown, All: all}
	if from > 0 {
		p.Prev = link(max(0, from-step))
	}
	if from+shown < all {
		p.Next = link(from + step)
	}
	return p
}

// address returns the address of a list with one parameter set and some of the
// present ones kept.
func address(now url.Values, path, name, value string, keep ...string) string {
	q := url.Values{}
	for _, k := range keep {
		if s := now.Get(k); s != "" {
			q.Set(k, s)
		}
	}
	q.Set(name, value)
	return path + "?" + q.Encode()
}
