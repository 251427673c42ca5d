package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/freshet/freshet/bench/figure"
	"github.com/freshet/freshet/bench/papers"
	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/scheduler/wic"
)

// A workloadKind is a benchmark with its own kind of workload.
type workloadKind struct {
	use, short, long, example string
	flags                     func(f *pflag.FlagSet)          // of the generator
	generate                  func() (papers.Workload, error) // by these
	read                      func() papers.Workload          // an empty one, to read into
	figures                   func(seeds int) ([]figure.Experiment, error)
}

// workloadCommand is the command of one kind of workload.
func workloadCommand(w *cli.Env, t workloadKind) *cobra.Command {
	var workload, out, policies, figures string
	var asJSON bool
	var seeds int
	c := &cobra.Command{
		Use: t.use, Short: t.short, Args: cobra.NoArgs, Long: t.long, Example: t.example,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkFlags(c.Flags()); err != nil {
				return err
			}
			if figures != "" {
				return drawFigures(w, t, figures, seeds)
			}
			l, err := t.workload(c, workload)
			if err != nil {
				return err
			}
			if out != "" {
				if err := writeFile(out, func(w io.Writer) error { return papers.WriteWorkload(w, l) }); err != nil {
					return err
				}
			}
			return runLoad(w, l, policies, asJSON)
		},
	}
	f := c.Flags()
	f.StringVar(&workload, "workload", "", "workload to read, instead of generating one")
	f.StringVar(&out, "out", "", "file to write the workload to")
	f.StringVar(&policies, "policy", "", "policies, separated by commas; all of them if left out")
	f.StringVar(&figures, "figures", "", "run the experiments of the paper and write tables and plots into this directory")
	f.IntVar(&seeds, "seeds", 5, "with --figures: how many seeds each figure is the mean of, from 1 on")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a line and policy")
	t.flags(f)
	return c
}

// checkFlags rejects flags that would be ignored: those of the generator beside
// --workload, all others beside --figures, and --seeds without --figures.
func checkFlags(f *pflag.FlagSet) (err error) {
	if f.Changed("seeds") && !f.Changed("figures") {
		return cli.UsageErrorf("--seeds needs --figures; the seed of one workload is --seed")
	}
	f.Visit(func(g *pflag.Flag) {
		shared := slices.Contains([]string{"workload", "out", "policy", "json"}, g.Name)
		switch {
		case g.Name == "figures" || g.Name == "seeds":
		case f.Changed("figures"):
			err = cli.UsageErrorf("--figures and --%s exclude each other", g.Name)
		case f.Changed("workload") && !shared:
			err = cli.UsageErrorf("--workload and --%s exclude each other", g.Name)
		}
	})
	return err
}

// workload reads the workload at path, or generates one without a path.
func (t workloadKind) workload(c *cobra.Command, path string) (papers.Workload, error) {
	if path == "" {
		l, err := t.generate()
		if errors.Is(err, papers.ErrWorkload) {
			return nil, cli.UsageErrorf("%v", err)
		}
		return l, err
	}
	l := t.read()
	err := papers.ReadWorkload(path, l)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, cli.UsageErrorf("the workload %s does not exist", path)
	}
	return l, err
}

// runLoad runs all policies and then prints their results.
func runLoad(w *cli.Env, l papers.Workload, policies string, asJSON bool) error {
	list := l.Policies()
	if policies != "" {
		list = strings.Split(policies, ",")
	}
	results := make([]papers.Result, len(list))
	for i, p := range list {
		var err error
		list[i] = strings.TrimSpace(p)
		results[i], err = l.Run(list[i])
		if errors.Is(err, papers.ErrNoPolicy) {
			return cli.UsageErrorf("--policy: %v", err)
		}
		if err != nil {
			return err
		}
	}
	if !asJSON {
		return printResults(w.Stdout, list, results)
	}
	return figure.WriteLines(w.Stdout, results)
}

func printResults(out io.Writer, policies []string, results []papers.Result) error {
	t := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for i, r := range results {
		cells := r.Cells()
		if i == 0 {
			fmt.Fprint(t, "policy")
			for _, c := range cells {
				fmt.Fprintf(t, "\t%s", c.Name)
			}
			fmt.Fprintln(t)
		}
		fmt.Fprint(t, policies[i])
		for _, c := range cells {
			fmt.Fprintf(t, "\t%s", c.Value)
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func drawFigures(w *cli.Env, t workloadKind, dir string, seeds int) error {
	if seeds < 1 {
		return cli.UsageErrorf("--seeds is %d, it is at least 1", seeds)
	}
	list, err := t.figures(seeds)
	if err != nil {
		return err
	}
	if err := figure.WriteExperiments(dir, t.short, list); err != nil {
		return err
	}
	fmt.Fprintf(w.Stderr, "%d experiments, means of seeds 1 to %d; the report is %s/report.html\n", len(list), seeds, dir)
	return nil
}

// A flagValue is a flag that functions show and parse.
type flagValue struct {
	kind string
	show func() string
	set  func(string) error
}

func (v flagValue) String() string {
	if v.show == nil {
		return ""
	}
	return v.show()
}
func (v flagValue) Type() string       { return v.kind }
func (v flagValue) Set(s string) error { return v.set(s) }

// capacityFlag is a number, or one for each chronon.
func capacityFlag(c *papers.Capacity) flagValue {
	show := func() string { return strings.Join(strings.Fields(strings.Trim(fmt.Sprint([]int(*c)), "[]")), ",") }
	return flagValue{"ints", show, func(s string) error {
		*c = nil
		for _, word := range strings.Split(s, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(word))
			if err != nil || n < 0 {
				return fmt.Errorf("%q is not a number of probes", word)
			}
			*c = append(*c, n)
		}
		return nil
	}}
}

// lifeFlag is "overwrite" or "window,10".
func lifeFlag(life *string, n *int) flagValue {
	show := func() string { return wic.Life{Kind: *life, W: *n}.String() }
	return flagValue{"life", show, func(s string) error {
		l, err := wic.ParseLife(s)
		if err != nil || l.Kind != wic.Window && l.Kind != wic.Overwrite {
			return fmt.Errorf("%q is not overwrite or window,10", s)
		}
		*life, *n = l.Kind, l.W
		return nil
	}}
}
