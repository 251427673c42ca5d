// Damage to the files in which a member keeps messages.

package nats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/journaltest"
	"github.com/freshet/freshet/store/journal/nats"
	"github.com/freshet/freshet/store/journal/nats/natstest"
)

// A lockedBuffer has what a server logs.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// take returns what was logged since the last call.
func (l *lockedBuffer) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := l.b.String()
	l.b.Reset()
	return text
}

// largest returns the largest file of a member's streams.
func largest(t *testing.T, dir string) (path string) {
	t.Helper()
	size := int64(0)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(p, "/streams/") {
			return err
		}
		i, err := d.Info()
		if err == nil && i.Size() > size {
			path, size = p, i.Size()
		}
		return err
	})
	if err != nil || path == "" {
		t.Fatalf("no file: %v", err)
	}
	return path
}

// damages are what happens to a file of a member that is down.
var damages = map[string]func(b []byte) []byte{
	"is cut":          func(b []byte) []byte { return b[:len(b)*2/5] },
	"is empty":        func([]byte) []byte { return nil },
	"has another bit": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
}

func damage(t *testing.T, path string, do func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, do(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamagedFiles damages the files of a member while it is down. The member then has all entries, or says
// that it is to be rebuilt, which means that its directory is removed. It never gives another entry, and the
// others go on.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	configs := natstest.Configs(t, "msgs", 3)
	for _, c := range configs[:2] {
		natstest.Start(t, c)
	}
	member, err := nats.Start(configs[2])
	if err != nil {
		t.Fatal(err)
	}
	other := dial(t, "nats://"+configs[0].Clients+",nats://"+configs[1].Clients, nats.Config{Name: "msgs", Patience: time.Minute})
	defer other.Close()
	entries := 0
	add := func(size int) {
		t.Helper()
		entries++
		if seq, err := other.Append(t.Context(), fmt.Sprint("m-", entries), make([]byte, size)); err != nil || seq != uint64(entries) {
			t.Fatalf("entry %d: %d, %v", entries, seq, err)
		}
	}
	whole := func() bool {
		s := member.Copy("msgs")
		return s.NumDeleted == 0 && s.FirstSeq == 1 && s.Msgs == other.Messages(t.Context())
	}
	for range 14 { // more than one file of messages
		add(700 << 10)
	}
	// run reads the journal as the node of the member does, until its copy is whole or it gives up.
	run := func(leads bool) error {
		var watch sync.WaitGroup
		defer watch.Wait()
		j, err := tryOpen(t, member, nats.Config{Name: "msgs", Own: member, Patience: 2 * time.Second})
		if err != nil {
			return err
		}
		defer j.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		at := journal.Genesis("msgs")
		watch.Go(func() { // the node stays until the copy is whole
			for !whole() && ctx.Err() == nil {
				if time.Sleep(20 * time.Millisecond); leads {
					_ = other.Lead(ctx, "n2")
				}
			}
			cancel()
		})
		err = j.Read(ctx, journal.Position{}, func(e journal.Entry) error {
			err := e.Follows(at)
			at = e.Position
			return err
		})
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	if err := run(false); err != nil {
		t.Fatal(err)
	}
	for what, do := range damages {
		for _, leads := range []bool{false, true} {
			if err := member.Close(); err != nil {
				t.Error(err)
			}
			damage(t, largest(t, configs[2].Dir), do)
			add(10)
			if member, err = nats.Start(configs[2]); err != nil {
				t.Fatal(err)
			}
			err := run(leads)
			t.Logf("a file %s, leads %t: %v", what, leads, err)
			if err == nil {
				continue
			}
			s := member.Copy("msgs")
			t.Logf("its copy has %d messages from %d to %d, without %d; there are %d", s.Msgs, s.FirstSeq, s.LastSeq, s.NumDeleted,
				other.Messages(t.Context()))
			// While it leads itself, it cannot know that what its copy lacks was not dropped.
			known := errors.Is(err, journal.ErrUnreadable) || errors.Is(err, journal.ErrDropped)
			if !known || !strings.Contains(err.Error(), "freshet cluster rebuild") {
				t.Errorf("a file %s: %v", what, err)
			}
			if err := errors.Join(member.Close(), os.RemoveAll(configs[2].Dir)); err != nil {
				t.Fatal(err)
			}
			add(10)
			if member, err = nats.Start(configs[2]); err != nil {
				t.Fatal(err)
			}
			if err := run(false); err != nil {
				t.Fatalf("rebuilt after a file %s: %v", what, err)
			}
		}
	}
	if err := member.Close(); err != nil {
		t.Error(err)
	}
	journaltest.CheckChain(t, journal.Genesis("msgs"), journaltest.Take(t, other, journal.Position{}, entries))
}

// TestDamagedAlone damages the files of a single member. Its node, which has applied everything, is never
// told that this is the end of the journal.
func TestDamagedAlone(t *testing.T) {
	t.Parallel()
	for what, do := range damages {
		t.Run(what, func(t *testing.T) {
			config := natstest.Configs(t, "alone", 1)[0]
			config.Clients = ""
			s, err := nats.Start(config)
			if err != nil {
				t.Fatal(err)
			}
			j := open(t, s, nats.Config{Name: "alone", Own: s})
			for n := range 14 {
				if _, err := j.Append(t.Context(), fmt.Sprint(n), make([]byte, 700<<10)); err != nil {
					t.Fatal(err)
				}
			}
			list := journaltest.Take(t, j, journal.Position{}, 14)
			if err := errors.Join(j.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
			damage(t, largest(t, config.Dir), do)
			if s, err = nats.Start(config); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if j, err = tryOpen(t, s, nats.Config{Name: "alone", Own: s, Patience: time.Second}); err == nil {
				defer j.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				at := 0
				err = j.Read(ctx, journal.Position{}, func(e journal.Entry) error {
					if at++; e.Position != list[at-1].Position {
						t.Errorf("entry %d is another one", at)
					}
					if at == len(list) {
						cancel()
					}
					return nil
				})
				if errors.Is(err, context.Canceled) {
					return // nothing is missing
				}
			}
			if !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), "freshet cluster rebuild") {
				t.Errorf("it does not say what to do: %v", err)
			}
		})
	}
}
