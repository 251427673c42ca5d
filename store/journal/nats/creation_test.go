package nats_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/journaltest"
	"github.com/freshet/freshet/store/journal/nats"
	"github.com/freshet/freshet/store/journal/nats/natstest"
)

// TestKilledInCreation kills servers while they create a stream, and then all of them two times more. All that was appended
// since is there at the end. FRESHET_NEMESIS_FAULTS is the number of streams.
func TestKilledInCreation(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("FRESHET_NEMESIS_FAULTS"))
	if err != nil {
		t.Skip("it runs with make nemesis")
	}
	var members []*member
	urls := ""
	for _, c := range natstest.Configs(t, "creation", 3) {
		members = append(members, &member{config: c})
		urls += ",nats://" + c.Clients
	}
	urls = urls[1:]
	start := func(list []*member) {
		for _, m := range list {
			m.start(t)
		}
	}
	kill := func(list []*member) {
		for _, m := range list {
			m.kill(t)
		}
	}
	start(members)
	t.Cleanup(func() { kill(members) })
	if err := dial(t, urls, nats.Config{Name: "first"}).Close(); err != nil { // there is a leader now
		t.Fatal(err)
	}
	// The commands of each journal, in their order.
	const batch = 3
	check := func(round, batches int) {
		name := fmt.Sprint("created-", round)
		j := dial(t, urls, nats.Config{Name: name})
		defer j.Close()
		list := journaltest.Take(t, j, journal.Position{}, batch*batches)
		journaltest.CheckChain(t, journal.Genesis(name), list)
		for i, e := range list {
			if e.ID != fmt.Sprint("command-", i+1) {
				t.Errorf("%s: entry %d is %s", name, e.Seq, e.ID)
			}
		}
	}
	for round := range rounds {
		rng := rand.New(rand.NewPCG(uint64(round), 0xc4ea7e))
		name := fmt.Sprint("created-", round)
		made := make(chan *nats.Journal, 1)
		go func() {
			defer close(made)
			made <- dial(t, urls, nats.Config{Name: name})
		}()
		wait := time.Duration(rng.Int64N(int64(150 * time.Millisecond)))
		time.Sleep(wait)
		some := members
		if rng.IntN(3) == 0 {
			i := rng.IntN(len(members))
			some = members[i : i+1]
		}
		kill(some)
		start(some)
		j := <-made
		if j == nil {
			t.FailNow()
		}
		for b := range 3 {
			for i := range batch {
				id := fmt.Sprint("command-", b*batch+i+1)
				if seq, err := j.Append(t.Context(), id, []byte(id)); err != nil || seq != uint64(b*batch+i+1) {
					t.Fatalf("%s, %d killed after %s: %s is entry %d: %v", name, len(some), wait, id, seq, err)
				}
			}
			if b < 2 {
				kill(members)
				start(members)
			}
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		check(round, 3)
	}
	for round := range rounds {
		check(round, 3)
	}
}
