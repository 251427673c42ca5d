package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/internal/engine"
	"github.com/freshet/freshet/store/journal/journaltest"
	"github.com/freshet/freshet/store/journal/postgres/postgrestest"
)

func openAt(t testing.TB, c Config) *Journal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j, err := Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// replace stores other entries.
func (j *Journal) replace(ctx context.Context, list []journal.Entry) error {
	tx, err := j.pool.Begin(ctx)
	if err != nil {
		return err
	}
	head := journal.Genesis(j.config.Name)
	_, err = tx.Exec(ctx, j.sql("DELETE FROM {schema}.entry"))
	for _, e := range list {
		if err == nil {
			_, err = tx.Exec(ctx, j.sql("INSERT INTO {schema}.entry (seq, id, prev, hash, cmd, total) VALUES ($1, $2, $3, $4, $5, 0)"),
				e.Seq, e.ID, e.Prev[:], e.Hash[:], append([]byte{}, e.Command...))
		}
		head = e.Position
	}
	if err == nil {
		_, err = tx.Exec(ctx, j.sql("UPDATE {schema}.head SET seq = $1, hash = $2"), head.Seq, head.Hash[:])
	}
	return errors.Join(err, tx.Commit(ctx))
}

func TestPostgres(t *testing.T) {
	server := postgrestest.Start(t)
	journals := 0
	rig := func(t *testing.T) journaltest.Rig {
		journals++
		name := fmt.Sprint("test-", journals)
		return journaltest.Rig{
			Name: name,
			Open: func(t testing.TB, _ int) journal.Journal {
				return openAt(t, Config{URL: server.URL, Name: name, Poll: 5 * time.Millisecond})
			},
			Stall: func(t testing.TB) (j journal.Journal, stall, resume func()) {
				p, through := proxy(t, server)
				return openAt(t, Config{URL: through, Name: name}), p.Stall, p.Resume
			},
			Rewrite: func(t testing.TB, f func([]journal.Entry) []journal.Entry) {
				j := openAt(t, Config{URL: server.URL, Name: name})
				defer j.Close()
				list, err := j.page(t.Context(), 0, false)
				if err == nil {
					err = j.replace(t.Context(), f(list))
				}
				if err != nil {
					t.Fatal(err)
				}
			},
		}
	}
	t.Run("Contract", func(t *testing.T) { journaltest.Run(t, rig) })
	t.Run("LostAnswers", func(t *testing.T) {
		p, through := proxy(t, server)
		direct := openAt(t, Config{URL: server.URL, Name: "lost"})
		defer direct.Close()
		proxied := openAt(t, Config{URL: through, Name: "lost"})
		defer proxied.Close()
		journaltest.LostAnswers(t, "lost", proxied, direct, p)
	})
	t.Run("Hang", func(t *testing.T) { hang(t, server) })
	t.Run("NoStandby", func(t *testing.T) { noStandby(t, server) })
	t.Run("OpenDuringDump", func(t *testing.T) { openDuringDump(t, server) })
	t.Run("Crash", func(t *testing.T) { crash(t, server) })
	t.Run("Fsync", func(t *testing.T) {
		j := openAt(t, Config{URL: server.URL, Name: "fsync"})
		defer j.Close()
		for _, sql := range []string{"ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()"} {
			if _, err := j.pool.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		for {
			again, err := Open(t.Context(), Config{URL: server.URL, Name: "fsync"})
			if err != nil {
				if !strings.Contains(err.Error(), "set fsync = on") {
					t.Error(err)
				}
				return
			}
			again.Close() // the server has not read its settings yet
		}
	})
}

// proxy starts a proxy to a server, and returns the URL of the server through it.
func proxy(t testing.TB, server *postgrestest.Server) (p *journaltest.Proxy, through string) {
	t.Helper()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	p = journaltest.NewProxy(t, u.Host)
	u.Host = p.Addr
	return p, u.String()
}

// hang expects that nothing waits for long on connections that have stopped without an end.
func hang(t *testing.T, server *postgrestest.Server) {
	p, through := proxy(t, server)
	direct := openAt(t, Config{URL: server.URL, Name: "hangs"})
	defer direct.Close()
	j := openAt(t, Config{URL: through + "&pool_max_conns=20", Name: "hangs"}) // those given up count for a while
	defer j.Close()
	defer p.Cut()
	if got := j.pool.Config().ConnConfig.ConnectTimeout; got != connectWait {
		t.Errorf("a connection may take %v to begin", got)
	}
	j.wait = 300 * time.Millisecond
	add := func(id string) {
		t.Helper()
		if _, err := direct.Append(t.Context(), id, nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for what, ask := range map[string]func() error{
		"head": func() error { _, err := j.Head(ctx); return err },
		"old":  func() error { _, err := j.Old(ctx, 0); return err },
		"drop": func() error { return j.Drop(ctx, 0) },
	} {
		if err := ask(); err != nil {
			t.Fatal(what, err)
		}
		p.Hang()
		if err := ask(); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Errorf("%s on a connection that hangs: %v", what, err)
		}
	}
	read := make(chan string)
	go func() {
		defer close(read)
		_ = j.Read(ctx, journal.Position{}, func(e journal.Entry) error { read <- e.ID; return nil }) // ends with ctx
	}()
	for _, id := range []string{"before", "after"} {
		add(id)
		if got := <-read; got != id {
			t.Fatalf("read %q, want %q", got, id)
		}
		p.Hang()
	}
	cancel()
	for range read {
	}
}

// noStandby expects that an entry which no standby has is not announced when its writer gives up, and that
// attempts do not pile up meanwhile.
func noStandby(t *testing.T, server *postgrestest.Server) {
	c := Config{URL: server.URL, Name: "alone"}
	j, other := openAt(t, c), openAt(t, c)
	defer other.Close()
	if _, err := j.Append(t.Context(), "first", nil); err != nil {
		t.Fatal(err)
	}
	set := func(standbys string) {
		t.Helper()
		for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + standbys + "'", "SELECT pg_reload_conf()"} {
			if _, err := other.pool.Exec(context.Background(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	count := func(what string) (n int) {
		t.Helper()
		if err := other.pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%freshet_alone%append%' AND "+
			"pid <> pg_backend_pid() AND "+what).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	set("nowhere")
	defer set("")
	for began, n := time.Now(), 2; count("wait_event = 'SyncRep'") == 0; n++ { // the server may not have read its settings yet
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		_, err := j.commit(ctx, []engine.Item{{ID: fmt.Sprint("c-", n)}})
		cancel()
		if err != nil && time.Since(began) > 20*time.Second {
			t.Fatalf("no append waits for a standby: %v", err)
		}
	}
	before, err := other.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if _, err := j.commit(ctx, []engine.Item{{ID: "last"}}); err == nil {
			t.Error("an append is acknowledged without a standby")
		}
		cancel()
	}
	if after, err := other.Head(t.Context()); err != nil || after != before {
		t.Errorf("the journal ends with entry %d, %v; it ended with %d, and no standby has more", after.Seq, err, before.Seq)
	}
	for end := time.Now().Add(lockWait + 20*time.Second); count("wait_event_type = 'Lock'") > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d appends still wait for the one before them", count("wait_event_type = 'Lock'"))
		}
	}
	set("")
	seq, err := other.Append(t.Context(), "last", nil)
	if err != nil || seq != before.Seq+2 {
		t.Errorf("append: %d, %v; want %d", seq, err, before.Seq+2)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
}

// openDuringDump opens a journal while a transaction reads its entries for a long time, as pg_dump does.
func openDuringDump(t *testing.T, server *postgrestest.Server) {
	c := Config{URL: server.URL, Name: "dumped"}
	j := openAt(t, c)
	defer j.Close()
	var storage string
	if err := j.pool.QueryRow(t.Context(), "SELECT attstorage::text FROM pg_attribute WHERE attrelid = $1::regclass AND attname = 'cmd'",
		j.schema+".entry").Scan(&storage); err != nil || storage != "e" {
		t.Errorf("the storage of commands is %s, %v", storage, err)
	}
	tx, err := j.pool.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), j.sql("LOCK TABLE {schema}.entry IN ACCESS SHARE MODE"))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // less than a transaction may be idle
	defer cancel()
	again, err := Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// crash kills the server while commands are appended and one is read.
func crash(t *testing.T, server *postgrestest.Server) {
	j := openAt(t, Config{URL: server.URL, Name: "crash"})
	defer j.Close()
	const commands = 40
	read := make(chan []journal.Entry)
	go func() { read <- journaltest.Take(t, j, journal.Position{}, commands) }()
	half := make(chan bool)
	seqs := make(chan uint64, commands)
	go func() {
		for i := range commands {
			seq, err := j.Append(t.Context(), fmt.Sprint("crash-", i), nil)
			if err != nil {
				t.Error(err)
			}
			seqs <- seq
			if i == commands/2 {
				close(half)
			}
		}
	}()
	<-half
	server.Restart(t)
	list := <-read
	journaltest.CheckChain(t, journal.Genesis("crash"), list)
	for i, e := range list {
		if seq := <-seqs; seq != e.Seq || e.ID != fmt.Sprint("crash-", i) {
			t.Errorf("command %d is entry %d, append returned %d", i, e.Seq, seq)
		}
	}
}
