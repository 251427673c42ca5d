package notifytest_test

import (
	"testing"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
)

func TestSubscriptionsInMemory(t *testing.T) {
	notifytest.TestSubscriptions(t, func(*testing.T) deliver.Store { return notifytest.NewSubscriptions() })
}
