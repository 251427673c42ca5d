package registry

import "testing"

func TestClientAddress(t *testing.T) {
	for _, x := range []struct {
		peer string
		via  []string
		want string
	}{
		{"203.0.113.9:4711", nil, "203.0.113.9"},
		{"203.0.113.9:4711", []string{"198.51.100.7"}, "203.0.113.9"}, // not one of our proxies: the header is ignored
		{"127.0.0.1:4711", []string{"198.51.100.7"}, "198.51.100.7"},
		{"127.0.0.1:4711", []string{"1.2.3.4, 5.6.7.8", "9.9.9.9 , 198.51.100.7"}, "198.51.100.7"}, // values that the client sent come first
		{"127.0.0.1:4711", []string{"unknown"}, "127.0.0.1"},
		{"[::1]:4711", []string{"2001:db8:1:2:3:4:5:6"}, "2001:db8:1:2::/64"},
		{"[2001:db8:1:2::9]:80", nil, "2001:db8:1:2::/64"},
		{"[::ffff:203.0.113.9]:80", nil, "203.0.113.9"},
		{"[fe80::1%eth0]:80", nil, "fe80::/64"},
		{"@", nil, "@"},
		{"", nil, ""},
	} {
		if got := ClientAddress(x.peer, x.via); got != x.want {
			t.Errorf("%s via %q is %s, want %s", x.peer, x.via, got, x.want)
		}
	}
}
