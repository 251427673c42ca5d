package registry

// Who may read and register is decided here. Every way out asks these functions:
// HTTP, server-sent events, Atom, WebSocket, SEPA, WebSub, webhooks and the pages.

// MayRead reports whether the caller may read a query's results and changes, and
// follow them: a caller of the role read may read every query, any other only
// public ones. A nil query means all queries together.
func (c Caller) MayRead(q *Query) bool {
	return c.Role.Includes(RoleRead) || q != nil && q.Public()
}

// MayRegister reports whether the caller may register queries and profiles.
func (c Caller) MayRegister() bool { return c.Role.Includes(RoleApp) }
