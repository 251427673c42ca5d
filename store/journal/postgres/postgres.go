// Package postgres keeps journals in PostgreSQL 13 or later. A journal is a schema with a table
// of entries. The row of table head has the last position; every append locks it within one
// function call, so a client that stops cannot hold the lock. Ids are unique by an index.
//
// An entry is durable when the primary has flushed it, and on a quorum if the server names its
// synchronous standbys (synchronous_standby_names). Sessions set synchronous_commit. A primary
// that lost entries in a failover has a shorter journal, which is refused. An append that is given up still
// waits for its standby on the server; a primary that restarts meanwhile shows its entries without one.
//
// Other nodes' entries are found by reading the table every Config.Poll. NOTIFY is not used, since it takes
// a lock of the whole database at each commit.
package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/internal/engine"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Config describes a journal. Only URL and Name are required.
type Config struct {
	URL  string        // postgres://user@host/database, with the parameters of pgxpool
	Name string        // of the cluster
	Poll time.Duration // 20 ms by default
}

const (
	defaultPoll = 20 * time.Millisecond
	pageBytes   = 8 << 20
	pageEntries = 256
	dropAtOnce  = 5000
	// connectWait is how long a connection may take to begin, if the URL does not say.
	connectWait = 5 * time.Second
	// answerWait is how long an answer is awaited. The connection is given up then, since a server that has
	// lost its power does not end it.
	answerWait = 30 * time.Second
	mostLonger = 3 // doublings of answerWait for a page of large commands
	// lockWait is how long a query waits for others. An append of this or another node that waits for a standby
	// is one of them.
	lockWait   = 5 * time.Second
	dropFactor = 10 // of answerWait, for the deletion of many entries
)

//go:embed schema.sql
var schemaText string

// A Journal is one node's access to a journal. It implements journal.Journal.
type Journal struct {
	*engine.Node
	config Config
	schema string
	pool   *pgxpool.Pool
	wait   time.Duration // answerWait
	longer atomic.Int32  // how often wait is doubled for a page, because the last ones took too long
}

var _ journal.Journal = (*Journal)(nil)

// Open connects to a journal and creates it if necessary.
func Open(ctx context.Context, c Config) (*Journal, error) {
	if err := journal.CheckName(c.Name); err != nil {
		return nil, err
	}
	pool, err := connect(ctx, c)
	if err != nil {
		return nil, err
	}
	if c.Poll <= 0 {
		c.Poll = defaultPoll
	}
	j := &Journal{config: c, schema: pgx.Identifier{"freshet_" + c.Name}.Sanitize(), pool: pool, wait: answerWait}
	if err := j.create(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("cluster.journal: %w", err)
	}
	j.Node = engine.Engine{Name: c.Name, Poll: c.Poll, Commit: j.commit, Span: j.span, Page: j.page}.Open()
	return j, nil
}

func connect(ctx context.Context, c Config) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, fmt.Errorf("cluster.journal: %w", err)
	}
	set := config.ConnConfig.RuntimeParams
	if set["synchronous_commit"] != "remote_apply" {
		set["synchronous_commit"] = "on"
	}
	set["default_transaction_isolation"] = "read committed" // append reads after it has the lock
	set["idle_in_transaction_session_timeout"] = "10s"
	set["lock_timeout"] = fmt.Sprint(lockWait.Milliseconds())
	set["search_path"] = "pg_catalog"
	if set["application_name"] == "" {
		set["application_name"] = "freshet"
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = connectWait
	}
	if config.ConnConfig.ValidateConnect == nil {
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	config.BeforeConnect = func(_ context.Context, one *pgx.ConnConfig) error {
		neverCancel(one)
		return nil
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// neverCancel makes a connection send no request to cancel its query when it is given up. The server would no
// longer wait for its standbys, and show all others an entry that only it has.
func neverCancel(c *pgx.ConnConfig) {
	var connected atomic.Bool
	dial, after := c.DialFunc, c.AfterConnect
	c.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, errors.New("queries are not cancelled")
		}
		return dial(ctx, network, address)
	}
	c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		connected.Store(true)
		if after == nil {
			return nil
		}
		return after(ctx, conn)
	}
}

// create makes the schema. Nodes that start at the same time take turns.
func (j *Journal) create(ctx context.Context) error {
	var fsync string
	if err := j.pool.QueryRow(ctx, "SHOW fsync").Scan(&fsync); err != nil {
		return err
	}
	if fsync != "on" {
		return errors.New("the server has fsync = off and would lose acknowledged commands: set fsync = on")
	}
	return pgx.BeginFunc(ctx, j.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = 0"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('freshet journal'), hashtext($1))", j.config.Name); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, j.sql(schemaText)); err != nil {
			return err
		}
		genesis := journal.Genesis(j.config.Name)
		_, err := tx.Exec(ctx, j.sql("INSERT INTO {schema}.head (first, seq, hash, total) VALUES (1, 0, $1, 0) ON CONFLICT DO NOTHING"),
			genesis.Hash[:])
		return err
	})
}

func (j *Journal) sql(text string) string { return strings.ReplaceAll(text, "{schema}", j.schema) }

func (j *Journal) commit(ctx context.Context, items []engine.Item) ([]uint64, error) {
	ids, cmds := make([]string, len(items)), make([][]byte, len(items))
	for i, it := range items {
		ids[i], cmds[i] = it.ID, it.Command
		if it.Command == nil {
			cmds[i] = []byte{}
		}
	}
	mark := j.Mark.Position()
	var (
		seqs []uint64
		head journal.Position
	)
	row := j.pool.QueryRow(ctx, j.sql("SELECT seqs, head, head_hash FROM {schema}.append($1, $2, $3, $4)"), ids, cmds, mark.Seq, mark.Hash[:])
	if err := row.Scan(&seqs, &head.Seq, hash{&head.Hash}); err != nil {
		return nil, j.explain(err)
	}
	j.Mark.Raise(head)
	return seqs, nil
}

// explain returns the damage that an error of the server means, if any.
func (j *Journal) explain(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	at := j.Mark.Position().Seq
	switch pg.Code {
	case "FJ001":
		head, _ := strconv.ParseUint(pg.Message, 10, 64)
		return journal.Shortened(head, at)
	case "FJ002":
		return journal.Foreign(at)
	case "42P01", "3F000", "42883", "P0002": // no table, schema, function or row
		return fmt.Errorf("%w (%w)", journal.Shortened(0, at), err)
	}
	return err
}

func (j *Journal) Head(ctx context.Context) (journal.Position, error) {
	_, head, _, err := j.ends(ctx)
	return head, err
}

// ends returns the number of the first entry, the position of the last, and the bytes up to it.
func (j *Journal) ends(ctx context.Context) (first uint64, head journal.Position, total int64, err error) {
	if err := j.Closed(); err != nil {
		return 0, head, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, j.wait)
	defer cancel()
	row := j.pool.QueryRow(ctx, j.sql("SELECT first, seq, hash, total FROM {schema}.head"))
	err = row.Scan(&first, &head.Seq, hash{&head.Hash}, &total)
	return first, head, total, j.explain(err)
}

func (j *Journal) Old(ctx context.Context, limit int64) (uint64, error) {
	first, head, total, err := j.ends(ctx)
	if err != nil {
		return 0, err
	}
	young, err := engine.Search(first, head.Seq+1, func(seq uint64) (bool, error) {
		var upTo int64
		ctx, cancel := context.WithTimeout(ctx, j.wait)
		defer cancel()
		err := j.pool.QueryRow(ctx, j.sql("SELECT total FROM {schema}.entry WHERE seq = $1"), seq).Scan(&upTo)
		if errors.Is(err, pgx.ErrNoRows) { // dropped since
			return false, nil
		}
		return total-upTo <= limit, err
	})
	if young <= first {
		return 0, err
	}
	return young - 1, err
}

// Drop implements journal.Journal. It deletes in small transactions after it has moved the
// beginning, so that appends do not wait for it.
func (j *Journal) Drop(ctx context.Context, upTo uint64) error {
	upTo = min(upTo, math.MaxInt64-1)
	var first uint64
	once, cancel := context.WithTimeout(ctx, j.wait)
	defer cancel()
	row := j.pool.QueryRow(once, j.sql("UPDATE {schema}.head SET first = greatest(first, least($1::bigint + 1, seq)) RETURNING first"), upTo)
	if err := row.Scan(&first); err != nil {
		return err
	}
	for {
		once, cancel := context.WithTimeout(ctx, dropFactor*j.wait)
		done, err := j.pool.Exec(once, j.sql("DELETE FROM {schema}.entry WHERE seq IN (SELECT seq FROM {schema}.entry WHERE seq < "+
			"$1 ORDER BY seq LIMIT $2)"), first, dropAtOnce)
		cancel()
		if err != nil || done.RowsAffected() < dropAtOnce {
			return err
		}
	}
}

func (j *Journal) Close() error {
	defer j.pool.Close()
	return j.Node.Close()
}

func (j *Journal) span(ctx context.Context, _ uint64) (uint64, journal.Position, error) {
	first, head, _, err := j.ends(ctx)
	return first, head, err
}

func (j *Journal) page(ctx context.Context, after uint64, _ bool) ([]journal.Entry, error) {
	longer := j.longer.Load()
	ctx, cancel := context.WithTimeout(ctx, j.wait<<longer)
	defer cancel()
	page, err := j.query(ctx, after)
	switch {
	case err == nil:
		j.longer.Store(0)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		j.longer.Store(min(longer+1, mostLonger))
	}
	return page, j.explain(err)
}

func (j *Journal) query(ctx context.Context, after uint64) ([]journal.Entry, error) {
	rows, err := j.pool.Query(ctx, j.sql(`SELECT seq, id, prev, hash, cmd FROM {schema}.entry
		WHERE seq > $1 AND total <= $2 + (SELECT total FROM {schema}.entry WHERE seq > $1 ORDER BY seq LIMIT 1)
		ORDER BY seq LIMIT $3`), after, pageBytes, pageEntries)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e journal.Entry, err error) {
		err = row.Scan(&e.Seq, &e.ID, hash{&e.Prev}, hash{&e.Hash}, &e.Command)
		return e, err
	})
}

// hash scans a bytea into a journal.Hash.
type hash struct{ to *journal.Hash }

// ScanBytes implements pgtype.BytesScanner.
func (h hash) ScanBytes(b []byte) error {
	if len(b) != len(h.to) {
		return journal.Altered("a hash has %d bytes", len(b))
	}
	copy(h.to[:], b)
	return nil
}
