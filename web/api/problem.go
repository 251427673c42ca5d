package api

import "github.com/freshet/freshet/registry"

// A Problem is an error: problem details (RFC 9457) with the members of some kinds.
type Problem struct {
	Type      string                `json:"type"`
	Title     string                `json:"title"`
	Status    int                   `json:"status"`
	Detail    string                `json:"detail,omitempty"`
	Errors    []registry.FieldError `json:"errors,omitempty"`
	Reason    string                `json:"reason,omitempty"`    // of a gap
	Available []string              `json:"available,omitempty"` // what could have been negotiated
	IDs       []string              `json:"ids,omitempty"`
}
