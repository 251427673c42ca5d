//go:build unix

package store

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
)

// The test binary runs itself as a child process that can be killed or whose files are
// limited in size.
const childTask, childDir = "FRESHET_STORE_CHILD", "FRESHET_STORE_DIR"

var childTasks = map[string]func(d *DB) error{"write": writeForever, "full": writeUntilFull, "rounds": captureForever,
	"window": runKillLoop, "migrate": func(*DB) error { return nil }, "replay": followForever, "wait": writeWhileFull,
	"shrink": shrinkForever}

func childMain() bool {
	task := childTasks[os.Getenv(childTask)]
	if task == nil {
		return false
	}
	if os.Getenv(childTask) == "migrate" {
		migrations = append(migrations, laterSchema)
	}
	o := Options{Retention: Retention{Changes: 5}}
	if path := os.Getenv(childJournal); path != "" {
		j, err := readJournal(path)
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		o.Journal = j
	}
	d, err := Open(os.Getenv(childDir), o)
	if err == nil {
		err = errors.Join(task(d), d.Close())
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	return true
}

func child(t *testing.T, task, dir string) *exec.Cmd {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childTask+"="+task, childDir+"="+dir)
	c.Stderr = os.Stderr
	return c
}

// writeForever acknowledges each slot once it is recorded.
func writeForever(d *DB) error {
	if err := registerChild(d); err != nil {
		return err
	}
	n, err := d.Ledger.Since("city", 0)
	for slot := n.Last.Number + 1; err == nil; slot++ {
		if err = recordSlot(d, slot); err == nil {
			_, err = fmt.Println(slot)
		}
	}
	return err
}

// TestKill kills a writing process at random moments, also during Open. What it has
// acknowledged is there, and no batch is there in part.
func TestKill(t *testing.T) {
	const seed, kills = 20261120, 20
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir, epoch := t.TempDir(), ""
	for range kills {
		acknowledged := killOnce(t, "write", dir, random.IntN(8), time.Duration(random.IntN(12_000))*time.Microsecond)
		d := open(t, dir, Options{})
		check(t, d)
		if epoch != "" && d.Epoch() != epoch {
			t.Fatalf("a kill began a new epoch: %s after %s", d.Epoch(), epoch)
		}
		epoch = d.Epoch()
		expectSlot(t, d, acknowledged)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killOnce kills the writer some time after its nth word, or soon after its start if n is
// 0. It returns the last slot that was acknowledged.
func killOnce(t *testing.T, task, dir string, words int, wait time.Duration) (acknowledged uint64) {
	t.Helper()
	c := child(t, task, dir)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	read := func() bool {
		if !lines.Scan() {
			return false
		}
		if _, err := fmt.Sscan(lines.Text(), &acknowledged); err != nil {
			t.Errorf("the writer said %q", lines.Text())
		}
		return true
	}
	for range words {
		read()
	}
	time.Sleep(wait)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for read() {
	}
	c.Wait() // returns the error of the kill
	return acknowledged
}

func expectSlot(t *testing.T, d *DB, acknowledged uint64) {
	t.Helper()
	n, err := d.Ledger.Since("city", 0)
	if err != nil {
		t.Fatal(err)
	}
	if n.Last.Number < acknowledged || acknowledged > 0 && n.Last.Number > acknowledged+1 {
		t.Fatalf("slot %d was acknowledged, %d is the last that is there", acknowledged, n.Last.Number)
	}
	for _, e := range n.Entries {
		if e.Stats.Last != n.Last.Number || e.Stats.Position.Seq != n.Last.Number {
			t.Fatalf("%s is at slot %d, change %d; the endpoint at slot %d", e.Query.ID, e.Stats.Last, e.Stats.Position.Seq, n.Last.Number)
		}
		if n.Last.Number == 0 {
			continue
		}
		r, err := d.Ledger.Result(e.Query.ID)
		if err != nil || r.Hash() != bag(t, valuesAt(e.Query.ID, n.Last.Number)...).Hash() {
			t.Fatalf("%s does not have the result of slot %d: %v", e.Query.ID, n.Last.Number, err)
		}
	}
}

// writeUntilFull lets the file grow only a little. It then expects that a batch with an
// error has no effect.
func writeUntilFull(d *DB) error {
	if err := errors.Join(registerChild(d), recordSlot(d, 1)); err != nil {
		return err
	}
	i, err := os.Stat(d.path)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ) // writes then return EFBIG
	limit := syscall.Rlimit{Cur: uint64(i.Size()) + 64<<10, Max: uint64(i.Size()) + 64<<10}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	for slot := uint64(2); ; slot++ {
		noise := make([]byte, 2<<20)
		rand.NewChaCha8([32]byte{byte(slot)}).Read(noise)
		stats, err := d.Catalog.Stats("q_a")
		if err != nil {
			return err
		}
		old, err := d.Ledger.Result("q_a")
		if err != nil {
			return err
		}
		big, err := rows(hex.EncodeToString(noise))
		if err != nil {
			return err
		}
		_, err = d.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(stats, old, "q_a", slot, big)}})
		if err != nil {
			fmt.Println("full:", err)
			limit.Cur = 1 // so that a later attempt finds no room in pages that are free
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
				return err
			}
			return expectUntouched(d, stats, old.Hash())
		}
		fmt.Println(slot)
		if slot > 50 {
			return errors.New("the limit was never reached")
		}
	}
}

func expectUntouched(d *DB, stats policy.Stats, hash string) error {
	now, err := d.Catalog.Stats("q_a")
	if err != nil || now.Position != stats.Position || now.Last != stats.Last {
		return fmt.Errorf("the failed batch is in effect: %v, before it %v (%v)", now.Position, stats.Position, err)
	}
	r, err := d.Ledger.Result("q_a")
	if err != nil || r.Hash() != hash {
		return fmt.Errorf("the failed batch changed the result: %v", err)
	}
	if err := recordSlot(d, stats.Last+1); !errors.Is(err, registry.ErrReadOnly) {
		return fmt.Errorf("a write on a full disk: %v", err)
	}
	return nil
}

func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	out, err := child(t, "full", dir).Output()
	if err != nil || !strings.Contains(string(out), "full: record for city: the store takes no writes for now: commit to ") {
		t.Fatalf("%v\n%s", err, out)
	}
	acknowledged := uint64(1)
	for line := range strings.Lines(string(out)) {
		fmt.Sscan(line, &acknowledged)
	}
	d := open(t, dir, Options{})
	check(t, d)
	s, err := d.Catalog.Stats("q_a")
	if err != nil || s.Last != acknowledged {
		t.Fatalf("slot %d was acknowledged, %d is there (%v)\n%s", acknowledged, s.Last, err, out)
	}
	step(t, d, "city", "q_a", acknowledged+1, "there is room again")
}
