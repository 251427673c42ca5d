package notify

import (
	"net/http"
	"net/netip"

	"github.com/freshet/freshet/registry"
)

// A Place is that of a connection among those that the limits count.
type Place struct {
	Refused string // why there is no room for the connection, "" when there is
	s       *Server
	from    string // address, "" when it is not counted
	count   *count
	conn    Connection // nil until it has joined
}

// A Connection ends with the server. None of its methods waits.
type Connection interface {
	Drain()   // end, because the server goes down
	Recheck() // check the token, because tokens have changed
	Cut()     // end at once
}

// Connect counts a new client under a protocol. Once the server is shutting down, it answers the
// request and returns false.
func (s *Server) Connect(w http.ResponseWriter, r *http.Request, way registry.Way) (*Place, bool) {
	p, ok := s.admit(r)
	if !ok {
		w.Header().Set("Retry-After", "1")
		Problem(w, http.StatusServiceUnavailable, registry.KindUnavailable, "the server is going down")
		return nil, false
	}
	p.count = s.counts.of(way)
	p.count.open.Add(1)
	return p, true
}

func (s *Server) admit(r *http.Request) (p *Place, ok bool) {
	p = &Place{s: s, from: registry.ClientAddress(r.RemoteAddr, r.Header["X-Forwarded-For"])}
	if s.opts.Limits.OneAddress <= 0 || local(p.from) {
		p.from = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down.Err() != nil {
		return p, false
	}
	s.wg.Add(1)
	n := s.connections.Add(1)
	if most := s.opts.Limits.Connections; most > 0 && n > int64(most) {
		p.Refused = "the server has as many connections as limits.connections allows: try again later"
	}
	if p.from != "" {
		if s.addresses[p.from]++; s.addresses[p.from] > s.opts.Limits.OneAddress {
			p.Refused = tooManyHere
		}
	}
	return p, true
}

// Another counts something else that the client holds as a connection of its address. Refused is why there is no room, "" when
// there is.
func (p *Place) Another() (leave func(), refused string) {
	if p.from == "" {
		return func() {}, ""
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.s.addresses[p.from] >= p.s.opts.Limits.OneAddress {
		return func() {}, tooManyHere
	}
	p.s.addresses[p.from]++
	return p.forget, ""
}

func (p *Place) forget() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.s.addresses[p.from]--; p.s.addresses[p.from] == 0 {
		delete(p.s.addresses, p.from)
	}
}

const tooManyHere = "your address has as many connections as limits.address_connections allows: try again later"

// Join makes a connection end with the server.
func (p *Place) Join(c Connection) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.s.down.Err() != nil {
		c.Drain()
	}
	p.conn = c
	p.s.sessions[c] = struct{}{}
}

// Slow counts a connection whose reader is too slow.
func (p *Place) Slow() {
	p.count.slow.Add(1)
}

// Leave gives the place back.
func (p *Place) Leave() {
	p.count.open.Add(-1)
	if p.from != "" {
		p.forget()
	}
	p.s.mu.Lock()
	delete(p.s.sessions, p.conn)
	p.s.mu.Unlock()
	p.s.connections.Add(-1)
	p.s.wg.Done()
}

// local reports whether an address as ClientAddress gives it is this machine's.
func local(from string) bool {
	a, err := netip.ParseAddr(from)
	return err == nil && a.IsLoopback() || from == "::/64"
}
