package registry

// This file decides who may read and who may register. Every protocol asks these
// functions: HTTP, server-sent events, Atom, WebSocket, SEPA, WebSub, webhooks and
// the pages.

// MayRead reports whether the caller may read and follow a query's results and
// changes. A caller with the role read may read every query, any other caller only
// public ones. A nil query means all queries together.
func (c Caller) MayRead(q *Query) bool {
	return c.Role.Includes(RoleRead) || q != nil && q.Public()
}

// Owns reports whether the caller may see and manage what belongs to an owner.
func (c Caller) Owns(owner string) bool { return c.Role.Includes(RoleAdmin) || owner == c.Name }

// MayRegister reports whether the caller may register queries and profiles.
func (c Caller) MayRegister() bool { return c.Role.Includes(RoleApp) }
