package scheduler

// MindsIntervals says whether a policy looks at the intervals of profiles.
func MindsIntervals(policy string) bool {
	return false
}
