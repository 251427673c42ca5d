package papers

import "github.com/freshet/freshet/bench/figure"

// runs are the runs of one paper's figures. The first error ends all of them: later
// runs do nothing, and experiments returns the error.
type runs struct {
	seeds int
	err   error
}

// over calls each with the results of the policies on the workload of each seed.
func over[W Workload, R Result](r *runs, generate func(seed uint64) (W, error), policies []string, each func(w W, policy string, out R)) {
	for seed := 1; seed <= r.seeds && r.err == nil; seed++ {
		w, err := generate(uint64(seed))
		if err != nil {
			r.err = err
			return
		}
		runAll(r, w, policies, each)
	}
}

// runAll calls each with the results of the policies on one workload.
func runAll[W Workload, R Result](r *runs, w W, policies []string, each func(w W, policy string, out R)) {
	for _, policy := range policies {
		if r.err != nil {
			return
		}
		var out Result
		if out, r.err = w.Run(policy); r.err == nil {
			each(w, policy, out.(R))
		}
	}
}

// experiments returns the list, or the first error of the runs.
func (r *runs) experiments(list ...figure.Experiment) ([]figure.Experiment, error) {
	if r.err != nil {
		return nil, r.err
	}
	return list, nil
}
