package store

import (
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web"
)

// The stores of the subjects implement the interfaces of their consumers.
var (
	_ registry.QueryStore    = (*QueryStore)(nil)
	_ registry.EndpointStore = (*EndpointStore)(nil)
	_ registry.ProfileStore  = (*ProfileStore)(nil)
	_ scheduler.Ledger       = (*Ledger)(nil)
	_ web.Queries            = (*Catalog)(nil)
	_ web.History            = (*History)(nil)
	_ web.Profiles           = (*RoundStore)(nil)
	_ web.TokenStore         = (*TokenStore)(nil)
	_ notify.Log             = (*History)(nil)
	_ notify.Captures        = (*RoundStore)(nil)
	_ deliver.Store          = (*SubscriptionStore)(nil)
	_ alert.Store            = (*RuleStore)(nil)
)
