package api

import (
	"time"

	"github.com/freshet/freshet/registry"
)

// A Token is a token without its secret.
type Token struct {
	Name      string        `json:"name"`
	Role      registry.Role `json:"role"`
	CreatedAt *time.Time    `json:"created_at,omitempty"`
	ExpiresAt *time.Time    `json:"expires_at,omitempty"`
	Expired   bool          `json:"expired,omitempty"`
	FromFile  bool          `json:"from_file,omitempty"`
	Hidden    bool          `json:"hidden,omitempty"`
	Token     string        `json:"token,omitempty"` // only in the answer that creates it
}
