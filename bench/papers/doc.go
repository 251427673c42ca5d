// Package papers repeats the experiments of four papers: complex execution
// intervals (CEI), notification rules (SUP), web monitoring (WIC) and the
// allocation of retrievals.
//
// Each has a Workload, which is read from JSON or generated from parameters, and a
// function that runs the figures of its paper.
package papers
