package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// A visit is one request to a page with the data that all handlers share.
type visit struct {
	*Server
	clock
	w      http.ResponseWriter
	r      *http.Request
	caller registry.Caller
	token  string // of the session, "" if the server requires none

	streaming bool          // the request is for the page's live stream
	building  chan struct{} // of which the visit occupies a place, see startBuild; nil if it does not
}

// startBuild waits until fewer than the maximum number of pages are being built, which
// bounds the memory of concurrent requests. Strangers have places of their own, so that they
// keep no one else waiting. endBuild releases the place before the page is sent.
func (v *visit) startBuild() error {
	places := v.builds
	if v.stranger() {
		places = v.strangers
	}
	select {
	case places <- struct{}{}:
		v.building = places
		return nil
	case <-v.r.Context().Done():
		return v.r.Context().Err()
	}
}

func (v *visit) endBuild() {
	if v.building != nil {
		<-v.building
		v.building = nil
	}
}

func (s *Server) visit(w http.ResponseWriter, r *http.Request) *visit {
	return &visit{Server: s, w: w, r: r, clock: clock{s.Now().UTC()}}
}

// May reports whether the caller has a role.
func (v *visit) May(role registry.Role) bool { return v.caller.Role.Includes(role) }

// to redirects a form to a page of this server.
func (v *visit) to(path string) error {
	v.w.Header().Set("Cache-Control", "no-store")
	http.Redirect(v.w, v.r, localPath(path), http.StatusSeeOther)
	return nil
}

// back redirects a form to the address in its field "back", else to path.
func (v *visit) back(path string) error {
	if b := v.r.PostForm.Get("back"); b != "" {
		path = b
	}
	return v.to(path)
}

// localPath returns path if it is an address on this server, else "/".
func localPath(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path,
		"//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery, Fragment: u.Fragment}).String()
}

// A handler serves a page or a group of pages: it is a visit with the methods that
// they need.
type handler interface{ ~struct{ *visit } }

// by adapts a handler's method to build a page, do to perform an action.
func by[H handler](build func(H) (content, error)) func(*visit) (content, error) {
	return func(v *visit) (content, error) { return build(H(struct{ *visit }{v})) }
}

func do[H handler](run func(H) error) func(*visit) error {
	return func(v *visit) error { return run(H(struct{ *visit }{v})) }
}

type (
	overviewHandler    struct{ *visit }
	queriesHandler     struct{ *visit }
	queryHandler       struct{ *visit } // one query
	resultHandler      struct{ *visit } // versions and changes of a query
	holderHandler      struct{ *visit } // the settings of one of its holders
	registerHandler    struct{ *visit }
	endpointHandler    struct{ *visit }
	newEndpointHandler struct{ *visit }
	notifyHandler      struct{ *visit } // what browsers need to be told something
	policyHandler      struct{ *visit }
	profileHandler     struct{ *visit }
	deliveryHandler    struct{ *visit }
	letterHandler      struct{ *visit } // dead letters
	tokenHandler       struct{ *visit }
	clusterHandler     struct{ *visit }
	serverHandler      struct{ *visit } // settings and about
	sessionHandler     struct{ *visit } // sign-in and theme
	watchHandler       struct{ *visit }
	ruleHandler        struct{ *visit }
	tellHandler        struct{ *visit }
	docsHandler        struct{ *visit }
	menu               struct{ *visit } // the surroundings of every page
)

// stranger reports whether the visitor has no token, although the server asks for one.
func (v *visit) stranger() bool { return v.caller.Name == "" }

// name returns the name by which the visitor knows a query. Strangers know what it was made public as.
func (v *visit) name(q *registry.Query) string {
	n := q.NameFor(v.caller.Name)
	if !v.caller.MayRead(nil) {
		n = q.PublicName()
	}
	if n = strings.TrimSpace(n); n != "" {
		return n
	}
	return q.ID
}

// slots returns an endpoint's last slots, newest first; none if it has just been
// removed.
func (v *visit) slots(name string, most int) ([]scheduler.Slot, error) {
	list, err := v.History.Slots(name, most)
	if err != nil && isMissing(err) {
		return nil, nil
	}
	return list, err
}

// isMissing reports whether err means that an object does not exist.
func isMissing(err error) bool { return errors.Is(err, registry.ErrNotFound) }

// isUnknown reports whether err means that the loop of an endpoint cannot be asked now: it is
// starting, or no node of the cluster has it.
func isUnknown(err error) bool {
	var p *registry.Problem
	return isMissing(err) || errors.As(err, &p) && p.Kind == registry.KindUnavailable
}

// isGap reports whether err means that the log no longer reaches that far back.
func isGap(err error) bool {
	var gap *registry.GapError
	var p *registry.Problem
	return errors.As(err, &gap) || errors.As(err, &p) && p.Kind == registry.KindGap
}

// A page describes one kind of page.
type page struct {
	path    string // router pattern without a method
	look    string // its template, templates/{look}.html
	section string // its navigation section, "" for none
	need    registry.Role
	open    bool // strangers may read it of a public query
	build   func(*visit) (content, error)
	live    bool // has a live stream
	absent  bool // the server is not a node of a cluster
}

// A content is the data of one response.
type content struct {
	Data any
	Live []part // the parts that the live stream updates
	Feed *feed  // a list to which new entries are added at the top

	Instead string // the page to go to, because there is nothing to show
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
	open bool          // strangers may read it of a public query
	run  func(*visit) error

	absent bool // the server is not a node of a cluster
}
