package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// followSEPA follows a query as a client of a SEPA broker. It begins with the whole result each time.
func (w *world) followSEPA(ctx context.Context, i int) error {
	f := w.Followers[i]
	d := websocket.Dialer{HandshakeTimeout: 20 * time.Second}
	c, _, err := d.DialContext(ctx, "ws://"+w.server()+"/sepa/subscribe", nil)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	ask := map[string]any{"sparql": query(f.Query), "alias": "a"}
	if w.Tokens {
		ask["authorization"] = "Bearer " + appToken // it registers the query
	}
	if err := c.WriteJSON(map[string]any{"subscribe": ask}); err != nil {
		return err
	}
	var c0 change
	rows := []int{}
	for next := uint64(0); ; next++ {
		var m struct {
			Notification *struct {
				Sequence uint64   `json:"sequence"`
				Added    document `json:"addedResults"`
				Removed  document `json:"removedResults"`
			} `json:"notification"`
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}
		if err := c.ReadJSON(&m); err != nil {
			return err
		}
		switch n := m.Notification; {
		case n == nil && m.Error != "":
			return fmt.Errorf("%s: %s", m.Error, m.Description)
		case n == nil:
			return fmt.Errorf("unsubscribed")
		case n.Sequence != next:
			w.write(plan.Event{Kind: plan.Problem, Who: i, Text: fmt.Sprintf("SEPA: notification %d comes after %d", n.Sequence, next)})
		default:
			c0.Added, c0.Removed = n.Added, n.Removed
			rows = c0.apply(rows)
			w.write(plan.Event{Kind: plan.Content, Who: i, Query: f.Query, N: int(next), Rows: [][]int{slices.Clone(rows)}})
		}
	}
}
