package deliver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func guard(t testing.TB, allow ...string) *Guard {
	t.Helper()
	g, err := NewGuard(allow)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGuardAddresses(t *testing.T) {
	g := guard(t)
	for _, s := range []string{"93.184.216.34:80", "93.184.216.34:443", "8.8.8.8:8443", "[2606:2800:220:1::1]:443",
		"[2001:4860:4860::8888]:80"} {
		if !g.Admits(netip.MustParseAddrPort(s)) {
			t.Errorf("%s is refused", s)
		}
	}
	for _, s := range []string{"127.0.0.1:80", "127.255.0.1:80", "10.0.0.1:80", "172.31.0.1:80", "192.168.1.1:80",
		"169.254.169.254:80", "100.64.1.1:80",
		"0.0.0.0:80", "0.1.2.3:80", "224.0.0.1:80", "240.0.0.1:80", "255.255.255.255:80", "198.18.0.1:80", "192.0.2.1:80", "203.0.113.5:80",
		"[::1]:80", "[::]:80", "[fe80::1]:80", "[fe80::1%eth0]:80", "[fd12::1]:80", "[ff02::1]:80", "[::ffff:10.0.0.1]:80",
		"[::ffff:127.0.0.1]:80",
		"[::127.0.0.1]:80", "[64:ff9b::a00:1]:80", "[2002:a00:1::]:80", "[2001:db8::1]:80", "[2001::1]:80",
		"93.184.216.34:22", "93.184.216.34:25", "93.184.216.34:6379", "93.184.216.34:0"} {
		if g.Admits(netip.MustParseAddrPort(s)) {
			t.Errorf("%s is let through", s)
		}
	}
	g = guard(t, "127.0.0.0/8", "10.1.0.0/16", "fd00::/8")
	for s, want := range map[string]bool{"127.0.0.1:1": true, "[::ffff:127.0.0.1]:22": true, "10.1.9.9:6379": true,
		"10.2.0.1:80": false, "[fd00::5]:80": true, "[::1]:80": false} {
		if got := g.Admits(netip.MustParseAddrPort(s)); got != want {
			t.Errorf("with a list, %s: %t", s, got)
		}
	}
	if _, err := NewGuard([]string{"10.0.0.1"}); err == nil {
		t.Error("an address is no network")
	}
}

// Every network of the IANA special-purpose registries, and those that lead to
// IPv4 through a translator, is refused from its first address to its last, and
// what lies beside is not.
func TestGuardSpecialPurpose(t *testing.T) {
	g := guard(t)
	admits := func(a netip.Addr) bool { return g.Admits(netip.AddrPortFrom(a, 443)) }
	for _, s := range []string{"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
		"192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24",
		"192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"240.0.0.0/4", "255.255.255.255/32",
		"::/128", "::1/128", "::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23",
		"2001::/32", "2001:db8::/32", "2002::/16",
		"2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8", "4000::/3"} {
		p := netip.MustParsePrefix(s)
		first := p.Masked().Addr()
		b := first.AsSlice()
		for bit := p.Bits(); bit < 8*len(b); bit++ {
			b[bit/8] |= 0x80 >> (bit % 8)
		}
		last, _ := netip.AddrFromSlice(b)
		if admits(first) || admits(last) {
			t.Errorf("%s: %s %t, %s %t", s, first, admits(first), last, admits(last))
		}
	}
	for _, s := range []string{"1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255",
		"172.32.0.0", "192.0.1.0", "192.0.3.0", "198.17.255.255", "198.20.0.0",
		"223.255.255.255", "2001:200::", "2001:db7:ffff::1", "2001:db9::", "2003::", "2620:4f:8001::", "2a00::1", "3ffe:ffff::1"} {
		if !admits(netip.MustParseAddr(s)) {
			t.Errorf("%s is refused", s)
		}
	}
}

// A refusal says what is wrong with the address and which setting would help.
func TestGuardRefusals(t *testing.T) {
	for s, want := range map[string]string{
		"http://127.0.0.1:9000/x":  "not a public one",
		"http://localhost/":        "not a public one",
		"http://example.org:6379/": "port 6379",
		"http://10.0.0.1:22/":      "not a public one",
	} {
		_, err := guard(t).Check(s)
		if !errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(),
			"websub.allow_callback_networks") {
			t.Errorf("%s: %v, want %q and the setting", s, err, want)
		}
	}
}

func TestGuardTexts(t *testing.T) {
	g := guard(t)
	for _, s := range []string{"http://example.org", "https://example.org/a?b=c&d", "http://xn--bcher-kva.example/",
		"https://example.org:8443/", "http://93.184.216.34/"} {
		if _, err := g.Check(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"", "example.org/x", "//example.org/x", "ftp://example.org/", "file:///etc/passwd", "http:///x",
		"http:example.org", "http://:80/",
		"http://user@example.org/", "http://example.org/#f", "http://example.org/a b", "http://example.org/\n", "http://example.org\\@127.0.0.1/",
		"http://example.org:0/", "http://example.org:99999/", "http://example.org:22/", "http://localhost/", "http://a.localhost/",
		"http://127.0.0.1/",
		"http://127.1/", "http://0x7f000001/", "http://0X7F.0.0.1/", "http://2130706433/", "http://017700000001/", "http://10.0.0.1./",
		"http://[::1]/",
		"http://example.0x7f/", "http://[fe80::1%25lo]/", "http://example.org/" + strings.Repeat("x", 3000)} {
		if _, err := g.Check(s); err == nil {
			t.Errorf("%s is taken", s)
		} else if strings.Contains(err.Error(), "example") {
			t.Errorf("%s: the error repeats it: %v", s, err)
		}
	}
	if _, err := guard(t, "127.0.0.0/8").Check("http://localhost:22/"); err != nil {
		t.Errorf("localhost in a list: %v", err)
	}
}

// A name that leads to this machine is found out when it is dialled, and
// redirects lead nowhere.
func TestGuardDials(t *testing.T) {
	srv := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound))
	defer srv.Close()
	port := srv.Listener.Addr().(*net.TCPAddr).Port
	names := map[string]bool{}
	client := func(g *Guard) *http.Client {
		return &http.Client{Transport: g.transport(Timing{Connect: time.Second, Header: time.Second}, 4,
			func(h string, ok bool) { names[h] = ok })}
	}
	c := client(guard(t))
	defer c.CloseIdleConnections()
	// The name passes the check of its text in front of a rebinding resolver;
	// "localhost" is a name that every resolver leads to this machine.
	req, _ := http.NewRequestWithContext(context.Background(), "GET", "http://localhost:"+itoa(port)+"/", nil)
	if _, err := c.Do(req); !errors.Is(err, ErrForbidden) {
		t.Errorf("localhost was dialled: %v", err)
	}
	own := client(guard(t, "127.0.0.0/8"))
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer own.CloseIdleConnections()
	resp, err := own.Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusFound || !names["127.0.0.1"] {
		t.Errorf("%s, known hosts %v", resp.Status, names)
	}
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}
