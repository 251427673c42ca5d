package web

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/freshet/freshet/registry"
)

// A request counts for the client that the last trusted proxy names, and for no one that a client makes up.
func TestClientsOfProxies(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	const xff, rfc7239 = "X-Forwarded-For", "Forwarded"
	for _, x := range []struct {
		header, peer string
		sent         http.Header
		want         string
	}{
		{xff, "10.1.1.1:5", http.Header{xff: {"192.0.2.7"}}, "192.0.2.7"},
		{xff, "10.1.1.1:5", http.Header{xff: {"203.0.113.1, 192.0.2.7"}}, "192.0.2.7"},
		{xff, "10.1.1.1:5", http.Header{xff: {"203.0.113.1", "192.0.2.7, 10.2.2.2"}}, "192.0.2.7"},
		{xff, "10.1.1.1:5", http.Header{xff: {"127.0.0.1, 192.0.2.7:4711"}}, "192.0.2.7"},
		{xff, "127.0.0.1:5", http.Header{xff: {"192.0.2.7, 10.2.2.2"}}, "192.0.2.7"},
		{xff, "[fd00::1]:5", http.Header{xff: {"2001:db8:1:2::5"}}, "2001:db8:1:2::/64"},
		{xff, "[::ffff:10.1.1.1]:5", http.Header{xff: {"192.0.2.7"}}, "192.0.2.7"},
		{xff, "10.1.1.1:5", http.Header{}, "10.1.1.1"},
		{xff, "10.1.1.1:5", http.Header{xff: {"192.0.2.7, what"}}, "10.1.1.1"},
		{xff, "10.1.1.1:5", http.Header{xff: {"10.3.3.3"}}, "10.3.3.3"},
		{xff, "198.51.100.1:5", http.Header{xff: {"192.0.2.7"}, rfc7239: {"for=192.0.2.7"}}, "198.51.100.1"},
		{xff, "10.1.1.1:5", http.Header{rfc7239: {"for=192.0.2.7"}}, "10.1.1.1"},
		{rfc7239, "10.1.1.1:5", http.Header{rfc7239: {`for=203.0.113.1, For="192.0.2.7:47011";proto=https;by=_x`}}, "192.0.2.7"},
		{rfc7239, "10.1.1.1:5", http.Header{rfc7239: {`for="_a,b", for="[2001:db8:1:2::5]:4711"`, "for=10.2.2.2"}}, "2001:db8:1:2::/64"},
		{rfc7239, "10.1.1.1:5", http.Header{rfc7239: {"for=unknown"}, xff: {"192.0.2.7"}}, "10.1.1.1"},
		{rfc7239, "127.0.0.1:5", http.Header{rfc7239: {"for=192.0.2.7"}, xff: {"203.0.113.1"}}, "192.0.2.7"},
		{rfc7239, "127.0.0.1:5", http.Header{xff: {"203.0.113.1"}}, "127.0.0.1"},
		{rfc7239, "127.0.0.1:5", http.Header{}, "127.0.0.1"},
		// A client that leaves a quote open, that writes into what the proxy quotes, or that is in a listed network itself.
		{rfc7239, "10.1.1.1:5", http.Header{rfc7239: {`for=203.0.113.66;x=", for=192.0.2.7`}}, "192.0.2.7"},
		{rfc7239, "10.1.1.1:5", http.Header{rfc7239: {`for=203.0.113.66;x="`, `for=192.0.2.7`}}, "192.0.2.7"},
		{rfc7239, "10.1.1.1:5", http.Header{rfc7239: {`for=203.0.113.66;x="`, `for="192.0.2.7"`}}, "192.0.2.7"},
		{rfc7239, "10.1.1.1:5", http.Header{rfc7239: {`host="x;for=203.0.113.66\\";for=192.0.2.7`}}, "192.0.2.7"},
		{rfc7239, "10.1.1.1:5", http.Header{rfc7239: {`host="x\";for=203.0.113.66";for=192.0.2.7`}}, "192.0.2.7"},
		{rfc7239, "10.1.1.1:5", http.Header{rfc7239: {`for=203.0.113.66, for=192.0.2.7;host="a,b"`}}, "192.0.2.7"},
		{xff, "10.1.1.1:5", http.Header{xff: {`", 192.0.2.7`}}, "192.0.2.7"},
		{xff, "10.1.1.1:5", http.Header{xff: {"127.0.0.1, 10.5.5.5"}}, "10.5.5.5"},
		{xff, "127.0.0.1:5", http.Header{xff: {"192.0.2.7, 127.0.0.1"}}, "192.0.2.7"},
	} {
		got := ""
		h := Proxies{networks, x.header}.Clients(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if got = registry.ClientAddress(r.RemoteAddr, r.Header[xff]); forwarded(r.Header) != forwarded(x.sent) {
				t.Errorf("%s of %v from %s looks as if a proxy had sent it, or had not: %v", x.header, x.sent, x.peer, r.Header)
			}
		}))
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr, r.Header = x.peer, x.sent.Clone()
		h.ServeHTTP(nil, r)
		if got != x.want {
			t.Errorf("%s of %v from %s: %s, want %s", x.header, x.sent, x.peer, got, x.want)
		}
		if r.RemoteAddr != x.peer || len(r.Header) != len(x.sent) {
			t.Errorf("the request is changed: %s %v", r.RemoteAddr, r.Header)
		}
	}
}
