package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"
)

// A Role is what a caller may do. Each role includes the ones before it.
type Role string

const (
	RoleRead  Role = "read"  // read results and changes, follow
	RoleApp   Role = "app"   // register queries and profiles
	RoleAdmin Role = "admin" // everything
)

// Includes reports whether a caller of role r may do what requires the role
// need.
func (r Role) Includes(need Role) bool {
	rank := map[Role]int{RoleRead: 1, RoleApp: 2, RoleAdmin: 3}
	return rank[need] > 0 && rank[r] >= rank[need]
}

// Anonymous is the name of callers on a server without tokens.
const Anonymous = "anonymous"

// A Caller is who makes a request: the owner of a token, or Anonymous on a
// server without tokens.
type Caller struct {
	Name    string
	Role    Role
	Expires time.Time // zero: never
}

// MinSecretLength is the minimum length of a token's secret in characters.
// Shorter secrets are rejected.
const MinSecretLength = 16

// HashSecret returns the hash of a token's secret that the configuration and the store hold.
func HashSecret(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// ClientAddress is the address that a request is attributed to: the peer's, or
// the one that a proxy on this machine appended to X-Forwarded-For. For IPv6 it
// is the /64 network, which usually belongs to one client.
func ClientAddress(peer string, forwardedFor []string) string {
	if a, err := netip.ParseAddrPort(peer); err == nil {
		peer = a.Addr().String()
	}
	a, err := netip.ParseAddr(peer)
	if err == nil && a.Unmap().IsLoopback() && len(forwardedFor) > 0 {
		last := forwardedFor[len(forwardedFor)-1]
		if b, err := netip.ParseAddr(strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])); err == nil {
			a = b
		}
	}
	if err != nil {
		return peer
	}
	if a = a.Unmap().WithZone(""); a.Is6() {
		network, _ := a.Prefix(64)
		return network.String()
	}
	return a.String()
}

var tokenName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// CheckTokenName returns an error if a token must not have this name. Names are
// parts of keys in the store.
func CheckTokenName(name string) error {
	if tokenName.MatchString(name) && name != Anonymous {
		return nil
	}
	return fmt.Errorf("a token's name has 1 to 64 letters, digits, dots, underscores and hyphens, and is not %q", Anonymous)
}

// A Token authenticates its bearer. Only the SHA-256 hash of the secret is
// kept.
type Token struct {
	Name      string     `json:"name" yaml:"name"`
	Role      Role       `json:"role" yaml:"role"`
	SHA256    string     `json:"sha256,omitempty" yaml:"sha256"` // lower-case hex of the secret's hash
	CreatedAt time.Time  `json:"created_at,omitzero" yaml:"-"`
	ExpiresAt *time.Time `json:"expires_at,omitempty" yaml:"expires_at,omitempty"`
	FromFile  bool       `json:"from_file,omitempty" yaml:"-"` // set by the configuration file, not by the API
	Hidden    bool       `json:"-" yaml:"-"`                   // stored, and not valid while the file has a token of this name
}

// Lasts reports whether the token lets a caller make tokens at any time.
func (t *Token) Lasts() bool { return t.Role == RoleAdmin && t.ExpiresAt == nil }
