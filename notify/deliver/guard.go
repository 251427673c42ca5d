package deliver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrForbidden reports a callback at an address that must not be called.
var ErrForbidden = errors.New("this address may not be called")

// A Guard decides which addresses may be called. It checks the text of a URL when the
// callback is registered, and each address that is dialled after names are resolved.
// The second check holds against names that change their address (DNS rebinding) and
// unusual spellings.
type Guard struct {
	allow []netip.Prefix
}

// NewGuard returns a guard that admits public addresses and the given networks
// (CIDR).
func NewGuard(allow []string) (*Guard, error) {
	g := &Guard{}
	for _, s := range allow {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("network %q: %w", s, err)
		}
		g.allow = append(g.allow, p.Masked())
	}
	return g, nil
}

// Allowed reports whether an address is in one of the networks that the operator
// listed. These are trusted: port policy and rates do not apply.
func (g *Guard) Allowed(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(a) })
}

// reserved lists networks outside the public internet that netip has no method for,
// from the IANA special-purpose registries. Of IPv6 only 2000::/3 is allocated, which
// also excludes translated IPv4 addresses.
var reserved = func() (list []netip.Prefix) {
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.175.48.0/24",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", // and broadcast
		"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
	} {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}()

var allocated = netip.MustParsePrefix("2000::/3")

func public(a netip.Addr) bool {
	if !a.IsValid() || a.IsUnspecified() || a.IsLoopback() || a.IsPrivate() || a.IsMulticast() || a.IsLinkLocalUnicast() ||
		!a.IsGlobalUnicast() {
		return false
	}
	if a.Is6() && !allocated.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
}

// publicPort admits the ports of the web and unprivileged ports, except those where
// other services usually listen.
func publicPort(port uint16) bool {
	return port == 80 || port == 443 || port >= 1024 && !slices.Contains([]uint16{
		1433, 1521, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 4369, 5432, 5672, 5984, 5985, 5986, 6000, 6379, 6443, 6667, 7000, 7001,
		8086, 9042, 9092, 9200, 9300, 10250, 11211, 27017, 50070,
	}, port)
}

// Admits reports whether a request may be sent to an address.
func (g *Guard) Admits(a netip.AddrPort) bool {
	ip := a.Addr().Unmap()
	if ip.Zone() != "" {
		return false
	}
	return g.Allowed(ip) || public(ip) && publicPort(a.Port())
}

// control checks the address that is dialled, for net.Dialer.
func (g *Guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" || !g.Admits(a) {
		return fmt.Errorf("%w (%s)", ErrForbidden, address)
	}
	return nil
}

// maxURL is the largest length of a callback in bytes.
const maxURL = 2048

// Check checks the text of a callback and returns the name under which its host is
// counted. It does not resolve names: their addresses are checked at each call. Its
// errors are for the author of the callback and do not contain it.
func (g *Guard) Check(callback string) (host string, err error) {
	if len(callback) > maxURL {
		return "", fmt.Errorf("it is longer than %d bytes", maxURL)
	}
	if strings.ContainsFunc(callback, func(r rune) bool { return r <= ' ' || r == 0x7f || r == 0xfffd || r == '\\' }) {
		return "", errors.New("it has blanks, control characters or backslashes")
	}
	u, err := url.Parse(callback)
	switch {
	case err != nil:
		return "", errors.New("it is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("only http and https are called")
	case u.Host == "" || u.Opaque != "" || u.Hostname() == "":
		return "", errors.New("it has no host")
	case u.User != nil:
		return "", errors.New("it must not carry a user name or password")
	case u.Fragment != "" || strings.Contains(callback, "#"):
		return "", errors.New("it must not have a fragment")
	}
	port := uint64(80)
	if u.Scheme == "https" {
		port = 443
	}
	if p := u.Port(); p != "" {
		if port, err = strconv.ParseUint(p, 10, 16); err != nil || port == 0 {
			return "", errors.New("its port is not a number from 1 to 65535")
		}
	}
	if !g.text(u.Hostname(), uint16(port)) {
		return "", g.refusal(u.Hostname(), uint16(port))
	}
	return hostKey(u.Hostname()), nil
}

// refusal explains why a host and port may not be called, and names the setting of
// the server that would allow it.
func (g *Guard) refusal(host string, port uint16) error {
	const remedy = "the server's setting websub.allow_callback_networks lists networks that may be called besides, such as 127.0.0.0/8"
	if publicPort(port) || !g.text(host, 443) {
		return fmt.Errorf("%w: it is not a public one; %s", ErrForbidden, remedy)
	}
	return fmt.Errorf("%w: port %d is that of another service than HTTP; %s", ErrForbidden, port, remedy)
}

// text checks a host by its text.
func (g *Guard) text(host string, port uint16) bool {
	name := hostKey(host)
	if a, err := netip.ParseAddr(name); err == nil {
		return g.Admits(netip.AddrPortFrom(a, port))
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return g.Allowed(netip.AddrFrom4([4]byte{127, 0, 0, 1})) || g.Allowed(netip.IPv6Loopback())
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if numeric(last) { // 127.1, 2130706433, 0x7f000001, 0177.0.0.1: an IPv4 address to some
		return false
	}
	return len(g.allow) > 0 || publicPort(port) // the name may resolve to an allowed network; the dialer checks
}

// numeric reports whether the last label of a name makes it an IPv4 address by the URL
// standard.
func numeric(label string) bool {
	if label == "" {
		return true
	}
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// transport returns the transport of all calls: without proxies, and with bounds on
// everything. It reports to dialled whether a host's address is in a listed network.
func (g *Guard) transport(t Timing, conns int, dialled func(host string, trusted bool)) *http.Transport {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		d := &net.Dialer{Timeout: t.Connect, ControlContext: g.control, KeepAlive: -1}
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if host, _, err := net.SplitHostPort(address); err == nil {
			if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
				dialled(host, g.Allowed(a.AddrPort().Addr()))
			}
		}
		return conn, nil
	}
	return &http.Transport{
		DialContext:            dial,
		TLSHandshakeTimeout:    t.Connect,
		ResponseHeaderTimeout:  t.Header,
		MaxResponseHeaderBytes: 16 << 10,
		MaxIdleConns:           conns,
		MaxIdleConnsPerHost:    conns,
		IdleConnTimeout:        30 * time.Second,
		DisableCompression:     true,
		WriteBufferSize:        4 << 10,
		ReadBufferSize:         4 << 10,
	}
}
