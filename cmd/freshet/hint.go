package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/endpoint/feed"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
)

// hintPiece is the approximate number of bytes of IRIs or triples in one request.
const hintPiece = 256 << 10

var hintRow = row{use: "hint ENDPOINT", short: "Report a change at an endpoint, so that affected queries run sooner",
	long: `Reports a change at an endpoint, so that the queries that it may affect run sooner.

Without flags, the hint says only that something changed. With --touched, triples
with these IRIs changed. Name all of them, including predicates: a query with IRIs,
but with none of these, counts as unaffected. With --changesets, changes are read
from a publication in the layout of DBpedia Live: a directory or URL with
lastPublishedFile.txt and files such as 2015/11/16/16/000011.added.nt.gz. The
command follows it until it is interrupted, starting with the next changeset or
with --from. --state keeps the position in a file, and the next start continues
there. The command retries while the server or the publication is unavailable.

Triples of a publication affect only the queries with a pattern that they match.
IRIs of --touched affect the queries that name one of them, and those with a
pattern that names no IRI.`,
	example: "freshet hint city --touched http://example.org/a --touched http://example.org/name\nfreshet hint dbpedia " +
		"--changesets https://live.example.org/changesets --every 10s\nfreshet hint dbpedia --changesets ./changesets --from " +
		"2015-11-16-16-000000 --once\nfreshet hint dbpedia --changesets https://live.example.org/changesets --state /var/lib/freshet/hints",
	run: hint, one: []string{"touched changesets"}, flags: []option{
		{name: "touched", value: texts(nil), usage: "IRI of a changed triple; may be given several times"},
		{name: "changesets", value: "", usage: "directory or URL of published changesets"},
		{name: "from", value: "", usage: "first changeset, as YYYY-MM-DD-HH-NNNNNN (default: after the last one published)"},
		{name: "state", value: "", usage: "file that keeps the position between starts"},
		{name: "every", value: 10 * time.Second, usage: "how often to look for new changesets"},
		{name: "once", value: false, usage: "end when there is no new changeset"},
	}}

func hint(a *remote, c *cobra.Command, args []string) error {
	source, every := textOf(c, "changesets"), durationOf(c, "every")
	if source == "" {
		for _, name := range []string{"from", "state", "every", "once"} {
			if c.Flag(name).Changed {
				return cli.UsageErrorf("--%s: give it with --changesets", name)
			}
		}
		if c.Flag("changesets").Changed {
			return cli.UsageErrorf("--changesets: name a directory or a URL")
		}
		return a.sendTouched(c.Context(), args[0], listOf(c, "touched"))
	}
	if every < time.Second {
		return cli.UsageErrorf("--every is at least 1s")
	}
	p, err := feed.OpenPublication(source, feed.Options{Version: cli.Version()})
	if err != nil {
		return cli.UsageErrorf("--changesets: %v", err)
	}
	start := checkpoint{file: textOf(c, "state"), from: textOf(c, "from")}
	return a.followPublication(c.Context(), args[0], p, start, every, isOn(c, "once"))
}

func (a *remote) sendTouched(ctx context.Context, endpoint string, iris []string) error {
	h := registry.Hint{All: len(iris) == 0}
	for _, iri := range iris {
		h.Touch(iri)
	}
	done, err := a.sendHint(ctx, endpoint, &h)
	if err != nil {
		return err
	}
	if a.asJSON {
		return cli.PrintJSON(a.w.Stdout, done)
	}
	_, err = fmt.Fprintf(a.w.Stdout, "%d of %d queries may be affected\n", done.Affected, done.Queries)
	return err
}

// sendHint sends a hint in requests of moderate size. A query that several requests
// affect counts several times.
func (a *remote) sendHint(ctx context.Context, endpoint string, h *registry.Hint) (plan.Hinted, error) {
	sum := plan.Hinted{}
	send := func(body any) error {
		var done plan.Hinted
		if err := a.do(ctx, http.MethodPost, endpointPath(endpoint)+"/hints", body, &done); err != nil {
			return err
		}
		sum.Affected, sum.Queries, sum.All = min(sum.Affected+done.Affected, done.Queries), done.Queries, sum.All || done.All
		return nil
	}
	if h.All {
		return sum, send(nil)
	}
	lines := make([]string, len(h.Changed))
	for i, x := range h.Changed {
		lines[i] = registry.Line(x)
	}
	for _, piece := range pieces(h.Touched) {
		if err := send(map[string][]string{"touched": piece}); err != nil {
			return sum, err
		}
	}
	for _, piece := range pieces(lines) {
		if err := send(map[string]string{"added": strings.Join(piece, "\n")}); err != nil {
			return sum, err
		}
	}
	if len(h.Touched)+len(lines) == 0 {
		return sum, send(map[string][]string{"touched": {}})
	}
	return sum, nil
}

// pieces splits a list into pieces of about hintPiece bytes.
func pieces(list []string) (out [][]string) {
	for len(list) > 0 {
		n, size := 0, 0
		for n < len(list) && (n == 0 || size+len(list[n]) < hintPiece) {
			size += len(list[n])
			n++
		}
		out, list = append(out, list[:n]), list[n:]
	}
	return out
}

// A checkpoint says where following begins: at the changeset in a file, else at from.
type checkpoint struct{ file, from string }

// begin returns the first changeset to read: the one in the file, else the one that --from names, else the
// one after the last published.
func (c checkpoint) begin(ctx context.Context, p *feed.Publication) (feed.ChangesetID, error) {
	if c.file != "" {
		b, err := os.ReadFile(c.file)
		if err == nil {
			id, err := feed.ParseChangeset(string(b))
			if err != nil {
				return id, cli.UsageErrorf("--state: %s: %v", c.file, err)
			}
			return id, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return feed.ChangesetID{}, cli.UsageErrorf("--state: %v", err)
		}
	}
	if c.from != "" {
		id, err := feed.ParseChangeset(c.from)
		if err != nil {
			return id, cli.UsageErrorf("--from: %v", err)
		}
		return id, nil
	}
	id, err := p.Last(ctx)
	return id.Next(), err
}

// write stores the next changeset to read. It replaces the file atomically.
func (c checkpoint) write(next feed.ChangesetID) error {
	if c.file == "" {
		return nil
	}
	_, err := cli.WriteFile(c.file, 0o644, func(w io.Writer) (int64, error) {
		n, err := fmt.Fprintln(w, next)
		return int64(n), err
	})
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	return nil
}

// followPublication sends a hint for each changeset, in order. It reports errors and
// tries again.
func (a *remote) followPublication(ctx context.Context, endpoint string, p *feed.Publication, start checkpoint,
	every time.Duration, once bool) error {
	next, err := start.begin(ctx, p)
	if err != nil {
		return err
	}
	if !once {
		fmt.Fprintf(a.w.Stderr, "following the changesets from %s on, looking every %s; Ctrl-C ends\n", next, every)
	}
	for {
		next, err = a.catchUp(ctx, endpoint, p, next)
		if e := start.write(next); e != nil {
			return e
		}
		if err != nil && (once || final(err)) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(a.w.Stderr, "%v; trying again in %s\n", err, every)
		}
		if once {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// final reports whether another attempt cannot succeed.
func final(err error) bool {
	var exit *cli.ExitError
	return errors.As(err, &exit) && (exit.Code == cli.ExitNotFound || exit.Code == cli.ExitAuth || exit.Code == cli.ExitUsage)
}

// catchUp sends a hint for each published changeset from next on. It returns the next
// changeset to read.
func (a *remote) catchUp(ctx context.Context, endpoint string, p *feed.Publication, next feed.ChangesetID) (feed.ChangesetID, error) {
	last, err := p.Last(ctx)
	if err != nil {
		return next, err
	}
	for !last.Before(next) {
		c, err := p.Read(ctx, next, slog.New(slog.DiscardHandler))
		if err != nil {
			return next, err
		}
		if c == nil {
			next = p.After(next, last)
			continue
		}
		for _, file := range c.Damaged {
			fmt.Fprintf(a.w.Stderr, "%s is cut off; what could be read of it counts\n", file)
		}
		h := &c.Hint
		done, err := a.sendHint(ctx, endpoint, h)
		if err != nil {
			return next, err
		}
		if a.asJSON {
			err = cli.PrintJSON(a.w.Stdout, map[string]any{"changeset": next.String(), "triples": len(h.Changed), "skipped": h.Skipped,
				"affected": done.Affected, "queries": done.Queries, "all": h.All || done.All})
		} else {
			_, err = fmt.Fprintf(a.w.Stdout, "%s: %d triples changed, %d of %d queries may be affected\n", next, len(h.Changed),
				done.Affected, done.Queries)
		}
		if err != nil {
			return next, err
		}
		next = next.Next()
	}
	return next, nil
}
