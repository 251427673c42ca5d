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

// ErrForbidden says that a callback leads where none may.
var ErrForbidden = errors.New("this address may not be called")

// A Guard decides which addresses callbacks may have. It is asked twice: about
// what a URL says when it is registered, and about what is really dialled, after
// names are resolved, each time. The second cannot be tricked by a name that
// changes its address (DNS rebinding) nor by an unusual spelling of one.
type Guard struct {
	allow []netip.Prefix
}

// NewGuard makes a guard that lets calls through to public addresses and to the
// networks given (CIDR).
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

// Allowed says whether an address is in one of the networks that the operator
// listed. Those are trusted: they are free of port policy and rates.
func (g *Guard) Allowed(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(a) })
}

// reserved are networks that are not the public internet, besides those that
// netip knows by name. Source: the IANA special-purpose registries. Of IPv6 only
// 2000::/3 is allocated at all, which leaves out IPv4 behind translators, too.
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
	if !a.IsValid() || a.IsUnspecified() || a.IsLoopback() || a.IsPrivate() || a.IsMulticast() || a.IsLinkLocalUnicast() || !a.IsGlobalUnicast() {
		return false
	}
	if a.Is6() && !allocated.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) })
}

// publicPort lets the ports of the web and unprivileged ones through, except
// where other services than HTTP usually are and would read a request as theirs.
func publicPort(port uint16) bool {
	return port == 80 || port == 443 || port >= 1024 && !slices.Contains([]uint16{
		1433, 1521, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 4369, 5432, 5672, 5984, 5985, 5986, 6000, 6379, 6443, 6667, 7000, 7001,
		8086, 9042, 9092, 9200, 9300, 10250, 11211, 27017, 50070,
	}, port)
}

// Admits says whether a request may be sent to an address.
func (g *Guard) Admits(a netip.AddrPort) bool {
	ip := a.Addr().Unmap()
	if ip.Zone() != "" {
		return false
	}
	return g.Allowed(ip) || public(ip) && publicPort(a.Port())
}

// control is net.Dialer's: it sees what is dialled.
func (g *Guard) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" || !g.Admits(a) {
		return fmt.Errorf("%w (%s)", ErrForbidden, address)
	}
	return nil
}

// mostURL is how long a callback may be, in bytes.
const mostURL = 2048

// Check says why a callback cannot be one, by what its text tells. Names are
// not resolved: what they lead to is seen when they are called. Its errors are
// for the author of the callback and do not repeat it.
func (g *Guard) Check(callback string) (*url.URL, error) {
	if len(callback) > mostURL {
		return nil, fmt.Errorf("it is longer than %d bytes", mostURL)
	}
	if strings.ContainsFunc(callback, func(r rune) bool { return r <= ' ' || r == 0x7f || r == 0xfffd || r == '\\' }) {
		return nil, errors.New("it has blanks, control characters or backslashes")
	}
	u, err := url.Parse(callback)
	switch {
	case err != nil:
		return nil, errors.New("it is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("only http and https are called")
	case u.Host == "" || u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("it names no host")
	case u.User != nil:
		return nil, errors.New("it must not carry a user name or password")
	case u.Fragment != "" || strings.Contains(callback, "#"):
		return nil, errors.New("it must not have a fragment")
	}
	port := uint64(80)
	if u.Scheme == "https" {
		port = 443
	}
	if p := u.Port(); p != "" {
		if port, err = strconv.ParseUint(p, 10, 16); err != nil || port == 0 {
			return nil, errors.New("its port is none")
		}
	}
	if !g.text(u.Hostname(), uint16(port)) {
		return nil, g.refusal(u.Hostname(), uint16(port))
	}
	return u, nil
}

// refusal says why a host and port may not be called, and which setting of the
// server would allow it.
func (g *Guard) refusal(host string, port uint16) error {
	const remedy = "the server's setting websub.allow_callback_networks lists networks that may be called besides, such as 127.0.0.0/8"
	if publicPort(port) || !g.text(host, 443) {
		return fmt.Errorf("%w: it is not a public one; %s", ErrForbidden, remedy)
	}
	return fmt.Errorf("%w: port %d is that of another service than HTTP; %s", ErrForbidden, port, remedy)
}

// text judges a host by what it says.
func (g *Guard) text(host string, port uint16) bool {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
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
	return len(g.allow) > 0 || publicPort(port) // an allowed network may be behind the name: the dialer tells
}

// numeric says whether the last label of a name makes it an IPv4 address in
// the eyes of the URL standard.
func numeric(label string) bool {
	if label == "" {
		return true
	}
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// transport makes the only transport that callbacks are called with: no proxy
// of the environment, no redirects, nothing unbounded.
// dialled is told whether a host's address is in a listed network.
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
