package registry

import "time"

// A Role says what a caller may do. Each includes the ones before it.
type Role string

const (
	RoleRead  Role = "read"  // read results and changes, follow
	RoleApp   Role = "app"   // register queries and profiles besides
	RoleAdmin Role = "admin" // everything
)

// Includes says whether a caller of role r may do what needs role need.
func (r Role) Includes(need Role) bool {
	rank := map[Role]int{RoleRead: 1, RoleApp: 2, RoleAdmin: 3}
	return rank[need] > 0 && rank[r] >= rank[need]
}

// Anonymous is the holder's name where no token was needed.
const Anonymous = "anonymous"

// A Caller is whoever asks: a token, or Anonymous on a server without tokens.
type Caller struct {
	Name    string
	Role    Role
	Expires time.Time // zero: never
}

// A Token lets its bearer in. Only the SHA-256 of the secret is kept.
type Token struct {
	Name      string     `json:"name" yaml:"name"`
	Role      Role       `json:"role" yaml:"role"`
	SHA256    string     `json:"sha256,omitempty" yaml:"sha256"` // lower-case hex of the secret's hash
	CreatedAt time.Time  `json:"created_at,omitzero" yaml:"-"`
	ExpiresAt *time.Time `json:"expires_at,omitempty" yaml:"expires_at,omitempty"`
	FromFile  bool       `json:"from_file,omitempty" yaml:"-"` // told by the configuration file, not by the API
}
