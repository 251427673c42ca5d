package feed

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// Kinds lists the kinds of feeds.
func Kinds() []Kind { return []Kind{Wikimedia, LDES, RDFPatch, Changesets, Deltas} }

// Check returns an error if a feed cannot be read as it is defined. contact is the server's, for a definition
// that has none. The error is a *registry.SettingError.
func (d Definition) Check(contact string, now time.Time) error {
	bad := func(setting, format string, a ...any) error {
		return &registry.SettingError{Setting: setting, Err: fmt.Errorf(format, a...)}
	}
	if registry.CheckEndpointName("/name", d.Name) != nil {
		return bad("name", registry.EndpointNames)
	}
	if !slices.Contains(Kinds(), d.Kind) {
		return bad("kind", "%q is not known; use %s", d.Kind, kinds())
	}
	u, err := url.Parse(d.URL)
	switch {
	case d.Kind == Deltas && d.URL != "":
		return bad("url", "a feed of the kind deltas is sent to POST /v1/feeds/%s: leave url out", d.Name)
	case d.Kind == Deltas, d.Kind == Changesets && d.URL != "" && !strings.Contains(d.URL, "://"): // which is a directory
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return bad("url", "%q is not an absolute http or https URL, which a feed of the kind %s needs", d.URL, d.Kind)
	case u.User != nil:
		return bad("url", "the URL must have no credentials")
	case d.Contact == "" && contact == "" && (d.Kind == Wikimedia || !registry.PrivateHost(u.Hostname())) && !registry.Loopback(u.Hostname()):
		return bad("contact", "the operators of %s must be able to reach you: give a mailto: or web address, here or as the "+
			"server's contact", u.Hostname())
	}
	if err := checkHeaders(d); err != nil {
		return bad("headers", "%w", err)
	}
	switch {
	case strings.ContainsFunc(d.Contact, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return bad("contact", "%q cannot be sent as part of a User-Agent; give a mailto: or web address on one line", d.Contact)
	case d.Topic != "" && d.Kind != Wikimedia:
		return bad("topic", "only a feed of the kind %s has topics: leave it out", Wikimedia)
	case d.Since.After(now):
		return bad("since", "%s is in the future: give a time that has passed, or leave it out to begin now", d.Since.UTC().Format(time.RFC3339))
	case d.Every < 0:
		return bad("every", "it cannot be negative; leave it out for the default of the kind")
	case d.Silence < 0:
		return bad("silence", "it cannot be negative; leave it out for the default of the kind")
	case d.Silence > 0 && time.Duration(d.Silence) < 2*d.Interval():
		return bad("silence", "the feed is asked every %s and would count as silent in between: set %s or more, set every to less, or leave "+
			"silence out", d.Interval(), 2*d.Interval())
	}
	return nil
}

// checkHeaders returns an error if the headers of a definition cannot be sent.
func checkHeaders(d Definition) error {
	for name := range d.Headers {
		if low := strings.ToLower(name); low == "last-event-id" || low == "cache-control" {
			return fmt.Errorf("%s is set by Freshet itself: leave it out", name)
		}
	}
	if len(d.Headers) > 0 && (d.URL == "" || !strings.Contains(d.URL, "://")) {
		return errors.New("nothing is asked over HTTP: leave them out")
	}
	return registry.CheckHeaders(d.Headers)
}

func kinds() string {
	var list []string
	for _, k := range Kinds() {
		list = append(list, string(k))
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

// Known returns the feed with this name. The error lists those that there are.
func Known(list []Definition, name string) (Definition, error) {
	var names []string
	for _, d := range list {
		if d.Name == name {
			return d, nil
		}
		names = append(names, d.Name)
	}
	if len(names) == 0 {
		return Definition{}, fmt.Errorf("there is no feed %q: define it under feeds in the configuration file", name)
	}
	slices.Sort(names)
	return Definition{}, fmt.Errorf("there is no feed %q; the feeds are: %s. Define others under feeds in the configuration file",
		name, strings.Join(names, ", "))
}
