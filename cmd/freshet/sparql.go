package main

// This file holds `freshet sparql`, which serves the embedded engine as an endpoint.

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/endpoint/local"
)

var sparqlRow = row{use: "sparql [FILE...]", short: "Serve the embedded engine as a SPARQL 1.1 endpoint",
	local: "print one JSON object with the URL and the number of triples",
	long: `Serves the embedded engine at /sparql: query and update according to the SPARQL 1.1
Protocol, with all standard result formats. The data is kept in memory. Clients on
this machine may update it. Files named as arguments are loaded as with --load.`,
	example: "freshet sparql --load base.nt.gz\nfreshet sparql --load data/*.ttl\n" +
		"freshet sparql --listen 127.0.0.1:3030 --load base.nt.gz --changesets changesets --every 10s",
	run: serveEngine, flags: []option{
		{name: "listen", value: "127.0.0.1:3030", usage: "address to serve on"},
		{name: "load", value: texts(nil), usage: "file to load: .nt, .nq, .ttl or .rdf, also with .gz; may be given several times"},
		{name: "changesets", value: "", usage: "directory of changesets in DBpedia Live layout to apply, one after another"},
		{name: "every", value: 10 * time.Second, usage: "time between two changesets"},
		{name: "engine", value: "", usage: "engine file (default: the one in the program)"},
	}}

func serveEngine(a *remote, c *cobra.Command, args []string) error {
	ctx, every, files := c.Context(), durationOf(c, "every"), append(listOf(c, "load"), args...)
	log := config.Log{Level: "info", Format: "auto"}.Logger(a.w)
	if every <= 0 {
		return cli.UsageErrorf("--every: %s is no time between two changesets", every)
	}
	if err := loadable(files); err != nil {
		return err
	}
	todo, err := history(textOf(c, "changesets"))
	if err != nil {
		return err
	}
	e, err := cli.OpenEngine(ctx, textOf(c, "engine"), log)
	if err != nil {
		return err
	}
	defer e.Close()
	for _, path := range files {
		if err := e.LoadFile(ctx, path); err != nil {
			return err
		}
	}
	s, err := local.Listen(ctx, textOf(c, "listen"), local.Handler(e, local.HandlerOptions{AllowUpdate: true, Logger: log}))
	if err != nil {
		return cli.ListenError(err)
	}
	defer s.Close()
	n, err := e.Size(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.w.Stderr, "%d triples at %s\n", n, s.URL)
	if a.asJSON {
		if err := cli.PrintJSON(a.w.Stdout, map[string]any{"url": s.URL, "triples": n}); err != nil {
			return err
		}
	}
	if len(todo) > 0 {
		played := make(chan error, 1)
		go func() { played <- replay(ctx, e, todo, every, log) }()
		defer func() { <-played }()
	}
	return s.Wait()
}

// history returns the changesets to play, none without a directory.
func history(directory string) ([]local.Changeset, error) {
	if directory == "" {
		return nil, nil
	}
	todo, err := local.Changesets(directory)
	if err == nil && len(todo) == 0 {
		err = fmt.Errorf("there are none in %s, such as 2026/01/31/23/000000.added.nt.gz (or removed, clear, reinserted)", directory)
	}
	if err != nil {
		return nil, cli.UsageErrorf("--changesets: %v", err)
	}
	return todo, nil
}

// loadable returns an error for files that cannot be loaded, before the engine starts.
func loadable(files []string) error {
	for _, path := range files {
		if info, err := os.Stat(path); err != nil {
			return cli.UsageErrorf("--load: %v", err)
		} else if !info.Mode().IsRegular() && info.Mode()&os.ModeNamedPipe == 0 || !slices.Contains([]string{"nt", "nq", "ttl", "rdf"},
			format(path)) {
			return cli.UsageErrorf("--load: %s is not a file whose name ends in .nt, .nq, .ttl or .rdf, also with .gz", path)
		}
	}
	return nil
}

// format returns the format of a file by its name.
func format(path string) string {
	return strings.TrimPrefix(filepath.Ext(strings.TrimSuffix(path, ".gz")), ".")
}

// replay applies the changesets in order, one after each period.
func replay(ctx context.Context, e *local.Engine, todo []local.Changeset, every time.Duration, log *slog.Logger) error {
	for i, c := range todo {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
		a, err := c.Apply(ctx, e)
		if err != nil {
			log.Error("a changeset was not applied, the replay ends", "changeset", c.Name, "error", err)
			return err
		}
		log.Info("changeset applied", "changeset", c.Name, "added", a.Added, "removed", a.Removed, "skipped", a.Skipped, "left", len(todo)-i-1)
	}
	return nil
}
