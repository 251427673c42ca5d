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
			if len(r.Header[forwardedFor]) > 0 || len(r.Header[p.Header]) > 0 { // what else it says is not looked at
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
	at, rest := peer.Addr().Unmap(), strings.Join(r.Header.Values(p.Header), ",")
	for rest != "" {
		var name string
		if p.Header == "Forwarded" {
			name, rest = lastElement(rest)
			name = forOf(name)
		} else {
			comma := strings.LastIndexByte(rest, ',')
			name, rest = rest[comma+1:], rest[:max(comma, 0)]
		}
		a, err := hopAddress(strings.TrimSpace(name))
		if err != nil { // unknown, or a name that hides the address
			break
		}
		if a.IsLoopback() { // a proxy asked itself; no other client is on this machine, whatever it writes
			continue
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

// lastElement splits off the last element of a Forwarded field. It reads from the end: the last element is of
// the nearest proxy, so its quotes are in pairs, and those that a client has left open before do not count.
func lastElement(s string) (last, before string) {
	quoted := false
	for i := len(s) - 1; i >= 0; i-- {
		switch {
		case s[i] == '"' && (i-len(strings.TrimRight(s[:i], `\`)))%2 == 0:
			quoted = !quoted
		case s[i] == ',' && !quoted:
			return s[i+1:], s[:i]
		}
	}
	return s, ""
}

// forOf returns the parameter for of an element of Forwarded. Other parameters may quote what a client wrote.
func forOf(element string) string {
	quoted, escaped := false, false
	for part := range strings.FieldsFuncSeq(element, func(c rune) bool {
		if escaped {
			escaped = false
			return false
		}
		escaped = quoted && c == '\\'
		if c == '"' {
			quoted = !quoted
		}
		return c == ';' && !quoted
	}) {
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
