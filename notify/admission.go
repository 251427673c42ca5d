package notify

import (
	"net/netip"
)

// An admission is a connection's place among those that the limits count.
type admission struct {
	from    string // address, "" when it is not counted
	refused string // why there is no room for the connection, "" when there is
}

// local reports whether an address as ClientAddress gives it is this machine's.
func local(from string) bool {
	a, err := netip.ParseAddr(from)
	return err == nil && a.IsLoopback() || from == "::/64"
}
