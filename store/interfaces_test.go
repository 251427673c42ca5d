package store

import (
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/web"
)

// The store implements the interfaces of its consumers.
var (
	_ web.Queries     = (*DB)(nil)
	_ web.History     = (*DB)(nil)
	_ web.Profiles    = (*DB)(nil)
	_ web.Store       = (*DB)(nil)
	_ notify.Log      = (*DB)(nil)
	_ notify.Captures = (*DB)(nil)
	_ deliver.Store   = (*DB)(nil)
)
