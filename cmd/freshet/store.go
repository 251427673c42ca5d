package main

// This file holds `freshet backup` and `freshet store`, which work on the database file.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/exchange"
	"github.com/freshet/freshet/cmd/internal/show"
	"github.com/freshet/freshet/store"
)

var backupRow = row{use: "backup FILE", short: "Copy the store of a running server, consistently",
	long: `Writes a consistent copy of the live store. A server started on the copy begins a
new epoch: followers get a snapshot and miss nothing. An existing FILE is replaced
only when the copy is complete.`,
	example: "freshet backup freshet-2026-11-20.db",
	run: func(a *remote, c *cobra.Command, args []string) error {
		if err := replaceable(args[0]); err != nil {
			return err
		}
		n, err := a.backup(c.Context(), args[0])
		if err != nil || !a.asJSON {
			return err
		}
		return cli.PrintJSON(a.w.Stdout, map[string]any{"file": args[0], "bytes": n})
	}}

// backup copies the store of the server into a file.
func (a *remote) backup(ctx context.Context, path string) (n int64, err error) {
	resp, err := a.send(ctx, http.MethodGet, "/v1/backup", nil, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	head, err := body.Peek(store.HeadSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if resp.Header.Get("Content-Type") != "application/octet-stream" || !store.HasHead(head) {
		return 0, fmt.Errorf("%s did not answer with a store: is it a Freshet server?", a.base())
	}
	return cli.WriteFile(path, 0o600, func(w io.Writer) (int64, error) { return io.Copy(w, body) })
}

// replaceable returns an error for a file that a backup must not replace, such as the
// store of a running server, which would continue to write to the removed file.
func replaceable(path string) error {
	switch i, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !i.Mode().IsRegular():
		return cli.UsageErrorf("%s is not a regular file: name another one", path)
	case store.InUse(path):
		return cli.UsageErrorf("%s is the store of a running server: name another file", path)
	}
	return nil
}

var storeTable = row{use: "store", short: "Check, copy, export and import the store of a stopped server", local: "print one JSON object",
	example: "freshet store check --data freshet-data\nfreshet store compact --data freshet-data",
	flags:   []option{{name: "data", value: variable(dataDirectory), usage: "directory of the store"}},
	rows: []row{
		{use: "check", short: "Read everything and check that it is consistent", example: "freshet store check --data freshet-data",
			run: withStore(store.Options{ReadOnly: true}, func(a *remote, db *store.DB, c *cobra.Command, _ []string) error {
				if err := db.Check(); err != nil {
					return err
				}
				if a.asJSON {
					return cli.PrintJSON(a.w.Stdout, map[string]any{"data": textOf(c, "data"), "good": true})
				}
				_, err := fmt.Fprintln(a.w.Stderr, "the store is good")
				return err
			})},
		{use: "compact [FILE]", short: "Give unused space of the store back, or write a copy without it",
			long: `Without FILE, replaces the store by one without unused space. The server goes on with it as if nothing had
happened: history and positions stay. The disk needs room for both meanwhile. If the command is interrupted, the
store is as it was. Run it as the user who runs the server.

With FILE, writes a copy, which is a backup: a server started on it begins a new epoch, so its history and the
positions of followers are gone.`,
			example: "freshet store compact --data freshet-data\nfreshet store compact copy.db --data freshet-data",
			run:     compactStore},
		{use: "export", short: "Print endpoints, tokens, registrations, profiles and alert rules, one JSON object a line",
			long: `Prints what was configured and registered: endpoints, tokens (their hashes), queries with
their holders and how often their results changed, profiles, and alert rules. The output contains the secrets of endpoints and of the
webhooks of rules. It contains neither results nor history nor alerts nor subscriptions, such as webhooks,
receivers of people and e-mail of visitors; use 'freshet backup' for those. Standard error says how many
subscriptions are left out. Rules whose query was released are left out, too.`,
			example: "freshet store export --data old >registrations.jsonl\nfreshet store import --data new registrations.jsonl",
			run:     withStore(store.Options{ReadOnly: true}, exportStore)},
		{use: "import FILE", short: "Add what an export contains (- for standard input); existing objects stay",
			long: `Adds line by line what 'freshet store export' printed. Query texts are analysed as in a
registration. Alert rules are evaluated from the results that their queries get, and paused ones
stay paused. A line that cannot be registered is reported and skipped, and the exit code is 1.`,
			example: "freshet store import --data new registrations.jsonl", run: importStore},
	}}

// A storeCommand does something with an open store.
type storeCommand func(*remote, *store.DB, *cobra.Command, []string) error

// withStore returns a command that opens the store, which must be there, and closes it.
func withStore(o store.Options, do storeCommand) func(*remote, *cobra.Command, []string) error {
	return func(a *remote, c *cobra.Command, args []string) error {
		data := textOf(c, "data")
		if _, err := os.Stat(filepath.Join(data, store.File)); err != nil {
			return cli.UsageErrorf("--data: there is no store: %v", err)
		}
		db, err := store.Open(data, o)
		if err != nil {
			return err
		}
		defer db.Close()
		return do(a, db, c, args)
	}
}

func compactStore(a *remote, c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return withStore(store.Options{ReadOnly: true}, func(a *remote, db *store.DB, _ *cobra.Command, _ []string) error {
			if err := db.Compact(args[0]); err != nil || !a.asJSON {
				return err
			}
			return cli.PrintJSON(a.w.Stdout, map[string]string{"file": args[0]})
		})(a, c, args)
	}
	data := textOf(c, "data")
	path := filepath.Join(data, store.File)
	before, err := os.Stat(path)
	if err != nil {
		return cli.UsageErrorf("--data: there is no store: %v", err)
	}
	if err := store.Shrink(data); err != nil {
		return err
	}
	after, err := os.Stat(path)
	if err != nil {
		return err
	}
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, map[string]any{"file": path, "bytes": after.Size(), "before": before.Size()})
	}
	_, err = fmt.Fprintf(a.w.Stderr, "%s has %d KiB now, and had %d\n", path, after.Size()>>10, before.Size()>>10)
	return err
}

// outsideCluster refuses to write to the store of a node of a cluster: that would leave the cluster, and begin another history.
func outsideCluster(data, flag, do string) error {
	path := filepath.Join(data, store.File)
	if follows, err := store.Follows(path); err != nil {
		return cli.UsageErrorf("--data: %v", err)
	} else if follows {
		return cli.UsageErrorf("%s: %s belongs to a node of a cluster: start the node and %s, or at any other node", flag, path, do)
	}
	return nil
}

func exportStore(a *remote, db *store.DB, _ *cobra.Command, _ []string) error {
	if err := exchange.Export(db, func(r exchange.Line) error { return cli.PrintJSON(a.w.Stdout, r) }); err != nil {
		return err
	}
	left, err := exchange.LeftOut(db)
	if left > 0 {
		fmt.Fprintf(a.w.Stderr, "%s left out: webhooks, receivers of people, visitors and the like are in a backup only\n",
			show.Quantity(left, "subscription"))
	}
	return err
}

func importStore(a *remote, c *cobra.Command, args []string) error {
	in := a.w.Stdin
	if args[0] != "-" {
		f, err := os.Open(args[0])
		if err != nil {
			return cli.UsageErrorf("%v", err)
		}
		defer f.Close()
		in = f
	}
	data := textOf(c, "data")
	if _, err := os.Stat(filepath.Join(data, store.File)); err == nil {
		if err := outsideCluster(data, "--data", "register there"); err != nil {
			return err
		}
	}
	db, err := store.Open(data, store.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	n, err := exchange.Import(db, in, a.w.Stderr)
	if a.asJSON {
		err = errors.Join(err, cli.PrintJSON(a.w.Stdout, map[string]int{"added": n.Added, "there": n.There, "refused": n.Refused}))
	} else {
		fmt.Fprintf(a.w.Stderr, "%d added, %d were there already, %d refused\n", n.Added, n.There, n.Refused)
	}
	if err == nil && n.Refused > 0 {
		err = fmt.Errorf("%d lines were not imported", n.Refused)
	}
	return err
}
