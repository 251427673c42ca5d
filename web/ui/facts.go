package ui

import (
	"html/template"

	"github.com/freshet/freshet/scheduler"
)

// Facts are the numbers that matter, each with what it is compared to and its trend.
type facts struct {
	Label          string
	Big            bool
	List           []fact
	fresh, results int
}

type fact struct {
	Label string
	Value template.HTML
	Sub   template.HTML
	Mono  bool
	Spark *spark
}

const trendSlots = 240

// overviewFacts sums up the last slots of all endpoints.
func (v *visit) overviewFacts(all [][]scheduler.Slot) (facts, error) {
	return facts{Label: "Numbers that matter", Big: true}, nil
}
