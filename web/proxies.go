package web

// This file finds out for whom proxies ask.

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Proxies are the networks of proxies that say for whom they ask. Those on this machine always may.
type Proxies struct {
	Networks []netip.Prefix
	Header   string // X-Forwarded-For or Forwarded (RFC 7239)
}

// Clients makes the address of a request that a proxy has sent that of its client.
func (p Proxies) Clients(next http.Handler) http.Handler {
	if len(p.Networks) == 0 && p.Header != "Forwarded" { // then each part looks for a proxy on this machine
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a := p.client(r); a.IsValid() {
			c := *r // a handler must not change the request
			c.RemoteAddr, c.Header = netip.AddrPortFrom(a, 0).String(), r.Header.Clone()
			if c.Header.Get(forwardedFor) != "" || p.Header != forwardedFor { // what else it says is not looked at
				c.Header.Set(forwardedFor, a.String())
			}
			r = &c
		}
		next.ServeHTTP(w, r)
	})
}

const forwardedFor = "X-Forwarded-For"

// client returns the address of the client of a proxy, an invalid one if the request has come from no proxy. Proxies
// append whom they were asked by, so the last address that is no proxy's counts: a client can write what it likes before.
func (p Proxies) client(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !p.trusts(peer.Addr()) {
		return netip.Addr{}
	}
	at, named := peer.Addr().Unmap(), hops(r.Header.Values(p.Header))
	if p.Header == "Forwarded" {
		for i := range named {
			named[i] = forOf(named[i])
		}
	}
	for _, name := range slices.Backward(named) {
		a, err := hopAddress(name)
		if err != nil { // unknown, or a name that hides the address
			break
		}
		if at = a; !p.trusts(a) {
			break
		}
	}
	return at
}

func (p Proxies) trusts(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsLoopback() || slices.ContainsFunc(p.Networks, func(n netip.Prefix) bool { return n.Contains(a) })
}

// hops returns the elements of a header field, which may be on several lines. A comma in quotes ends none.
func hops(lines []string) (list []string) {
	quoted := false
	for _, x := range strings.FieldsFunc(strings.Join(lines, ","), func(c rune) bool {
		if c == '"' {
			quoted = !quoted
		}
		return c == ',' && !quoted
	}) {
		list = append(list, strings.TrimSpace(x))
	}
	return list
}

// forOf returns the parameter for of an element of Forwarded.
func forOf(element string) string {
	for part := range strings.SplitSeq(element, ";") {
		name, value, _ := strings.Cut(part, "=")
		if strings.EqualFold(strings.TrimSpace(name), "for") {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}

// hopAddress reads an address with or without a port.
func hopAddress(name string) (netip.Addr, error) {
	if a, err := netip.ParseAddrPort(name); err == nil {
		return a.Addr().Unmap(), nil
	}
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	return a.Unmap(), err
}
