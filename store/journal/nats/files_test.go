// Damage to the files in which a member keeps messages.

package nats_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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

// cut shortens a file to a part of its size.
func cut(path string, part float64) error {
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, b[:int(float64(len(b))*part)], 0o600)
	}
	return err
}

// cutAfterRecord shortens a block by some records.
func cutAfterRecord(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	end := 0
	for end < len(b)/2 {
		end += recordSize(b[end:])
	}
	return os.WriteFile(path, b[:end], 0o600)
}

func recordSize(b []byte) int { return int(binary.LittleEndian.Uint32(b) &^ (1 << 31)) }

// flip changes a bit of a file.
func flip(path string, at func(b []byte) int) error {
	b, err := os.ReadFile(path)
	if err == nil {
		b[at(b)] ^= 1
		err = os.WriteFile(path, b, 0o600)
	}
	return err
}

// damages are what happens to the blocks of a member that is down. Each leads JetStream, left alone, to a
// copy with a hole, or to messages that cannot be read.
var damages = []struct {
	what string
	do   func(blocks []string) error
}{
	{"the first block is cut", func(b []string) error { return cut(b[0], 0.4) }},
	{"the last block is cut", func(b []string) error { return cut(b[len(b)-1], 0.4) }},
	{"the first block is empty", func(b []string) error { return cut(b[0], 0) }},
	{"the second block is empty", func(b []string) error { return cut(b[1], 0) }},
	{"the second block is missing", func(b []string) error { return os.Remove(b[1]) }},
	{"a bit in the second block is another", func(b []string) error { return flip(b[1], func(b []byte) int { return len(b) / 2 }) }},
	{"a bit in the last block is another", func(b []string) error { return flip(b[len(b)-1], func(b []byte) int { return len(b) / 2 }) }},
	{"the length of a record is another", func(b []string) error { return flip(b[1], func([]byte) int { return 2 }) }},
	{"the length of a header is another", func(b []string) error {
		return flip(b[0], func(b []byte) int { return 22 + int(binary.LittleEndian.Uint16(b[20:])) })
	}},
	{"a block ends after its first record", func(b []string) error {
		data, err := os.ReadFile(b[1])
		if err == nil {
			err = os.WriteFile(b[1], data[:recordSize(data)], 0o600)
		}
		return err
	}},
}

func blocks(t *testing.T, c nats.ServerConfig, name string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(c.Dir, "jetstream", "$G", "streams", "freshet_"+name, "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	return list
}

// TestDamagedMessages damages the messages of a member while it is down. It never has a hole in its copy
// once it runs, says what was damaged, and has everything again after a while. The others go on.
func TestDamagedMessages(t *testing.T) {
	t.Parallel()
	configs := natstest.Configs(t, "msgs", 3)
	for _, c := range configs[:2] {
		natstest.Start(t, c)
	}
	var log lockedBuffer
	configs[2].Log = slog.New(slog.NewTextHandler(&log, nil))
	member, err := nats.Start(configs[2])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { member.Close() }()
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
	caughtUp := func(what string) {
		t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			s, all := member.Copy("msgs"), other.Messages(t.Context())
			switch {
			case s.NumDeleted > 0:
				t.Fatalf("%s: the copy has a hole: %d to %d with %d messages", what, s.FirstSeq, s.LastSeq, s.Msgs)
			case s.FirstSeq == 1 && s.Msgs == all:
				return
			case time.Now().After(end):
				t.Fatalf("%s: the copy has %d to %d, not all %d: %s", what, s.FirstSeq, s.LastSeq, all, log.take())
			}
		}
	}
	for len(blocks(t, configs[2], "msgs")) < 3 {
		add(100)
		add(700 << 10)
		caughtUp("at first")
	}
	if err := member.Close(); err != nil {
		t.Fatal(err)
	}
	for _, d := range damages {
		dir := t.TempDir()
		const account = "jetstream/$G" // not the logs, which are as large
		if err := os.CopyFS(filepath.Join(dir, account), os.DirFS(filepath.Join(configs[2].Dir, account))); err != nil {
			t.Fatal(err)
		}
		copied := nats.ServerConfig{Dir: dir}
		if err := d.do(blocks(t, copied, "msgs")); err != nil {
			t.Fatal(err)
		}
		first, err := nats.Repair(dir, false)
		second, err2 := nats.Repair(dir, false)
		if err := errors.Join(err, err2); err != nil || len(first) != 1 || !strings.Contains(first[0], "is damaged at byte") || len(second) != 0 {
			t.Errorf("%s: the repair says %q and then %q, %v", d.what, first, second, err)
		}
	}
	start := func(what string) {
		t.Helper()
		log.take()
		if member, err = nats.Start(configs[2]); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		caughtUp(what)
	}
	stop := func(what string) {
		t.Helper()
		if err := errors.Join(member.Damaged(), member.Close()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := damages[0].do(blocks(t, configs[2], "msgs")); err != nil {
		t.Fatal(err)
	}
	add(10)
	start("the first block was cut")
	if said := log.take(); !strings.Contains(said, "is damaged at byte") {
		t.Errorf("the member does not say so: %s", said)
	}
	add(10)
	caughtUp("the first block was cut")
	stop("the first block was cut")
	list := blocks(t, configs[2], "msgs")
	if err := cutAfterRecord(list[len(list)-1]); err != nil {
		t.Fatal(err)
	}
	start("the last records are missing")

	// Now while it runs and leads the stream, so that it is asked about what it lacks.
	lead := func() bool { return other.Lead(t.Context(), "n2") == nil }
	end := time.Now().Add(time.Minute)
	for !lead() {
		if time.Sleep(10 * time.Millisecond); time.Now().After(end) {
			t.Fatal(other.Lead(t.Context(), "n2"))
		}
	}
	if err := os.Truncate(blocks(t, configs[2], "msgs")[0], 1<<20); err != nil {
		t.Fatal(err)
	}
	for said := ""; !strings.Contains(said, "is damaged at byte"); said += log.take() {
		lead()
		journaltest.CheckChain(t, journal.Genesis("msgs"), journaltest.Take(t, other, journal.Position{}, entries))
		if time.Now().After(end.Add(time.Minute)) {
			t.Fatalf("the running member does not notice: %s", said)
		}
	}
	caughtUp("the first block was cut while it ran")
	stop("the first block was cut while it ran")
	if what, err := nats.Repair(configs[2].Dir, false); len(what) > 0 || err != nil {
		t.Errorf("after it has caught up: %q, %v", what, err)
	}
}

// TestDamagedAlone damages the messages of a single member, which cannot take them from another one. It
// does not start, says so, and leaves the files alone.
func TestDamagedAlone(t *testing.T) {
	t.Parallel()
	config := natstest.Configs(t, "alone", 1)[0]
	config.Clients = ""
	s, err := nats.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	j := open(t, s, nats.Config{Name: "alone"})
	for n := 0; len(blocks(t, config, "alone")) < 2; n++ {
		if _, err := j.Append(t.Context(), fmt.Sprint(n), make([]byte, 512<<10)); err != nil {
			t.Fatal(err)
		}
	}
	files := blocks(t, config, "alone")
	if err := errors.Join(j.Close(), s.Close(), cut(files[0], 0.5)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s, err := nats.Start(config)
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, journal.ErrUnreadable) || !strings.Contains(err.Error(), "is damaged at byte") {
			t.Errorf("it starts with damaged files: %v", err)
		}
	}
	if left := blocks(t, config, "alone"); !slices.Equal(left, files) {
		t.Errorf("of %v, %v is left", files, left)
	}
}
