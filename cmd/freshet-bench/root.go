package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/freshet/freshet/bench/literature"
	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/scheduler"
)

// baselines makes the policies of the literature known, once.
var baselines = sync.OnceFunc(func() {
	for _, d := range literature.Definitions() {
		scheduler.Register(d)
	}
})

// benchCommand is the command with all others below it.
func benchCommand(w *cli.Env) *cobra.Command {
	baselines()
	c := &cobra.Command{
		Use: "bench", Short: "Compare refresh policies over recorded or generated histories",
		Long: `Runs refresh policies over traces. A trace holds the result of every query in
every revision of a dataset, and the time of each execution. Traces are generated
from published statistics, recorded from an endpoint while changesets are
replayed, or exchanged as JSON. Four more benchmarks have workloads of their own:
complex execution intervals, notification rules, web monitoring, and the
allocation of retrievals.`,
		Example: `  freshet bench generate --like knuth2016 --seed 1 --out t.trace
  freshet bench simulate --trace t.trace --policy rr,dj,ttl:max=32:reset --budget 10s,50s --rule overrun
  freshet bench study --trace t.trace --out report`,
	}
	c.AddCommand(withJSON(w, generateCommand(w)), simulateCommand(w), withJSON(w, studyCommand(w)), withJSON(w, arenaCommand(w)),
		withJSON(w, recordCommand(w)), replayCommand(w), withJSON(w, sampleCommand(w)), feedCommand(w), withJSON(w, convertCommand(w)),
		ceiCommand(w), supCommand(w), wicCommand(w), allocationCommand(w), limitsCommand(w),
		cli.ManCommand(w, func() *cobra.Command { return c }, "  freshet bench man ~/.local/share/man/man1"))
	return c
}

// withJSON adds --json to a command that writes --out or its last argument.
func withJSON(w *cli.Env, c *cobra.Command) *cobra.Command {
	var asJSON bool
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object that names what was written")
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := run(c, args); err != nil || !asJSON {
			return err
		}
		file := ""
		if out := c.Flags().Lookup("out"); out != nil {
			file = out.Value.String()
		} else {
			file = args[len(args)-1]
		}
		return cli.PrintJSON(w.Stdout, map[string]string{"file": file})
	}
	return c
}

// loadTrace reads a trace. A missing file is a usage error.
func loadTrace(path string) (*trace.Trace, error) {
	if path == "" {
		return nil, cli.UsageErrorf("--trace is missing: which trace to read")
	}
	t, err := trace.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.UsageErrorf("the trace %s does not exist", path)
	}
	return t, err
}

func saveTrace(path string, t *trace.Trace) error {
	return writeFile(path, func(w io.Writer) error {
		if strings.HasSuffix(path, ".json") {
			return t.WriteJSON(w)
		}
		return t.Write(w)
	})
}

// writeFile writes a file atomically.
func writeFile(path string, write func(io.Writer) error) error {
	_, err := cli.WriteFile(path, 0o644, func(w io.Writer) (int64, error) {
		b := bufio.NewWriterSize(w, 1<<20)
		return 0, errors.Join(write(b), b.Flush())
	})
	return err
}

// progress shows a bar on a terminal, and elsewhere a line each minute.
func progress(w *cli.Env, steps int, what string) *progressbar.ProgressBar {
	options := []progressbar.Option{progressbar.OptionSetDescription(what), progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish()}
	if w.Terminal {
		options = append(options, progressbar.OptionSetWriter(w.Stderr), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionFullWidth())
	} else {
		lines := &barLines{to: w.Stderr, every: time.Minute, last: time.Now()}
		options = append(options, progressbar.OptionSetWriter(lines), progressbar.OptionThrottle(time.Second), progressbar.OptionSetWidth(10))
	}
	return progressbar.NewOptions(steps, options...)
}

// barLines writes some of the states of a bar as lines.
type barLines struct {
	to    io.Writer
	every time.Duration // at most one line in this time
	last  time.Time     // when the last line was written
}

func (b *barLines) Write(p []byte) (int, error) {
	if line := strings.TrimSpace(string(p)); line != "" && time.Since(b.last) >= b.every {
		b.last = time.Now()
		fmt.Fprintln(b.to, line)
	}
	return len(p), nil
}
