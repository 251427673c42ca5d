package notify_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/notifytest"
)

// A way only encodes events and sends them. This one writes a line for each row. Position,
// filter, rate and resumption are the concern of the stream's cursor.
func ExampleServer_Follow() {
	log := notifytest.NewLog("e")
	cities := log.Add("cities", diff.Select, false)
	record := func(names ...string) {
		b := diff.NewBuilder(diff.Select, diff.Options{})
		b.SetVars([]string{"city"})
		for _, n := range names {
			b.Row(diff.Term{Kind: diff.Literal, Value: n})
		}
		res, err := b.Finish()
		if err != nil {
			panic(err)
		}
		log.Record(cities, res, time.Now())
	}
	record("Bern")
	seen, _, err := log.Current(cities, false) // what the client has received already
	if err != nil {
		panic(err)
	}
	record("Bern", "Graz")
	record("Graz")

	live := notify.NewServer(notifytest.Options(log, notify.NewWaker(), nil))
	defer live.Shutdown(context.Background())
	done := errors.New("done")
	err = live.Follow(context.Background(), cities, &notify.StreamOptions{After: &seen.Position}, func(e *notify.StreamEvent) error {
		switch e.Kind {
		case notify.StreamSnapshot: // the client has to drop what it has
			fmt.Println("from the start")
		case notify.StreamChange:
			line := func(sign string, vars []string, rows diff.Rows) {
				for _, row := range rows {
					fmt.Println(e.At.Seq, sign, diff.RowTerms(diff.Select, vars, row)[0].Value)
				}
			}
			d := e.Change.Delta
			line("+", d.Vars, d.Added)
			line("-", d.OldVars, d.Removed)
		}
		if e.At.Seq == 3 {
			return done
		}
		return nil
	})
	if err != done {
		fmt.Println(err)
	}
	// Output:
	// 2 + Graz
	// 3 - Bern
}
