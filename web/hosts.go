package web

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// hosts is the set of names under which this server accepts requests. Requests under
// other names get status 421, which prevents DNS rebinding.
type hosts map[string]bool

func newHosts(s Site) hosts {
	h := hosts{}
	if name, _, err := net.SplitHostPort(s.Listen); err == nil {
		h[hostName(name)] = true
	}
	for _, at := range []string{s.PublicURL, s.NodeURL} {
		if u, err := url.Parse(at); err == nil {
			h[hostName(u.Host)] = true
		}
	}
	delete(h, "")
	return h
}

// hostName returns a host in lower case without its port and brackets, "" if the port
// is invalid.
func hostName(s string) string {
	if name, port, err := net.SplitHostPort(s); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return ""
		}
		s = name
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	return strings.ToLower(strings.TrimSuffix(s, "."))
}

func (h hosts) admit(r *http.Request) bool {
	name := hostName(r.Host)
	if name == "localhost" || h[name] {
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	if ip.Unmap().IsLoopback() {
		return true
	}
	// A server on all addresses accepts the address of the connection. DNS rebinding
	// cannot change a literal address.
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap() == ip.Unmap()
}

// forwardedBy lists the header fields by which proxies name the original client,
// besides all that begin with X-Forwarded.
var forwardedBy = []string{"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For", "X-Envoy-External-Address",
	"True-Client-Ip", "Cf-Connecting-Ip", "Fly-Client-Ip"}

func forwarded(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded") || slices.Contains(forwardedBy, name) {
			return true
		}
	}
	return false
}
