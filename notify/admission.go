package notify

import (
	"net/http"
	"net/netip"

	"github.com/freshet/freshet/registry"
)

// An admission is a connection's place among those that the limits count.
type admission struct {
	from    string // address, "" when it is not counted
	refused string // why there is no room for the connection, "" when there is
}

// admit counts a client in; ok is false once the server goes down.
func (s *Server) admit(r *http.Request) (p admission, ok bool) {
	p.from = registry.ClientAddress(r.RemoteAddr, r.Header["X-Forwarded-For"])
	if s.opts.Limits.OneAddress <= 0 || local(p.from) {
		p.from = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return p, false
	}
	s.wg.Add(1)
	n := s.connections.Add(1)
	if most := s.opts.Limits.Connections; most > 0 && n > int64(most) {
		p.refused = "too many connections"
	}
	if p.from != "" {
		if s.addresses[p.from]++; s.addresses[p.from] > s.opts.Limits.OneAddress {
			p.refused = "too many connections from this address"
		}
	}
	return p, true
}

func (s *Server) release(p admission) {
	if p.from != "" {
		s.mu.Lock()
		if s.addresses[p.from]--; s.addresses[p.from] == 0 {
			delete(s.addresses, p.from)
		}
		s.mu.Unlock()
	}
	s.connections.Add(-1)
	s.wg.Done()
}

// local reports whether an address as ClientAddress gives it is this machine's.
func local(from string) bool {
	a, err := netip.ParseAddr(from)
	return err == nil && a.IsLoopback() || from == "::/64"
}
