package store

import "github.com/freshet/freshet/registry"

// newCommand returns an empty command of a kind for a file, nil if there is no such kind.
func newCommand(d *boltFile, kind byte) command {
	switch kind {
	case kindBegin:
		return &beginning{file: d}
	case kindBatch:
		return &writer{epoch: d.epoch}
	case kindQueries:
		return new(queryEdit)
	case kindEndpoint:
		return new(endpointEdit)
	case kindProfile:
		return new(profileEdit)
	case kindSubscription:
		return new(subscriptionEdit)
	case kindToken:
		return new(tokenEdit)
	case kindPurge:
		return new(purgeStep)
	case kindNode:
		return new(nodeEdit)
	case kindLease:
		return new(leaseEdit)
	case kindFeed:
		return new(feedEdit)
	case kindRules:
		return &ruleEdit{new(registry.RuleEdit)}
	case kindSecret:
		return new(secretEdit)
	}
	return nil
}
