// Package city generates a small living dataset: a city with sensors, bicycle
// docks, departures, venues and events, as a base and an endless sequence of
// changesets. Most of it rarely changes; readings drift, departures leave, a
// storm raises the river, a programme is published, an event is cancelled.
// There are no blank nodes, and every literal is in canonical form.
//
// The same seed gives the same bytes.
package city

import (
	"bytes"
	"maps"
	"slices"
	"time"
)

// start is the city's time at the base; each changeset is one minute.
var start = time.Date(2026, 6, 1, 6, 0, 0, 0, time.UTC)

// City is a dataset at one moment. It is not safe for concurrent use.
type City struct {
	random *random
	base   []byte
	minute int // since start

	added, removed map[string]bool // lines changed in the current step

	air        []reading
	rivers     []gauge
	bikes      []dock
	board      []departure
	shows      []show
	beats      []int
	storm      int // minutes left
	departures int // ever planned
	announced  int // events ever announced
}

// New builds the city of a seed.
func New(seed uint64) *City {
	c := &City{random: newRandom(seed), added: map[string]bool{}, removed: map[string]bool{}}
	c.buildDistricts()
	c.buildSensors()
	c.buildTraffic()
	c.buildCulture()
	_, c.base = c.flush()
	return c
}

// Base is the dataset at the start as sorted N-Triples, regardless of the steps
// taken since.
func (c *City) Base() []byte { return slices.Clone(c.base) }

// Time is the city's own time: the start plus a minute per changeset.
func (c *City) Time() time.Time { return start.Add(time.Duration(c.minute) * time.Minute) }

// Next takes a step of one minute and returns what changed as sorted N-Triples:
// each removed triple existed, each added one did not, and none is in both. The
// order of applying the two does not matter.
func (c *City) Next() (removed, added []byte) {
	c.minute++
	c.heartbeat()
	if c.random.oneIn(6) {
		return c.flush() // a minute without a visible change
	}
	c.weather()
	c.moveBikes()
	c.updateDepartures()
	c.updateEvents()
	return c.flush()
}

// Update returns a step as one SPARQL Update request.
func Update(removed, added []byte) string {
	var b bytes.Buffer
	if len(removed) > 0 {
		b.WriteString("DELETE DATA {\n")
		b.Write(removed)
		b.WriteString("}")
	}
	if len(added) > 0 {
		if b.Len() > 0 {
			b.WriteString(" ;\n")
		}
		b.WriteString("INSERT DATA {\n")
		b.Write(added)
		b.WriteString("}")
	}
	return b.String()
}

// addTriple and removeTriple add and remove one triple. A triple that is added and
// removed in the same step does not appear.
func (c *City) addTriple(subject, predicate, object string) {
	turn(c.added, c.removed, subject+" "+predicate+" "+object+" .\n")
}

func (c *City) removeTriple(subject, predicate, object string) {
	turn(c.removed, c.added, subject+" "+predicate+" "+object+" .\n")
}

func turn(into, outOf map[string]bool, line string) {
	if outOf[line] {
		delete(outOf, line)
		return
	}
	into[line] = true
}

// A fact is a function that adds or removes one triple.
type fact func(subject, predicate, object string)

// edit changes a thing and its facts. Facts that stay the same are not in the step.
func (c *City) edit(thing interface{ facts(fact) }, change func()) {
	thing.facts(c.removeTriple)
	change()
	thing.facts(c.addTriple)
}

// describe adds the class and the label of a thing.
func (c *City) describe(self, class, label string) {
	c.addTriple(self, rdfType, def(class))
	c.addTriple(self, rdfsLabel, label)
}

func (c *City) flush() (removed, added []byte) {
	removed, added = sorted(c.removed), sorted(c.added)
	clear(c.removed)
	clear(c.added)
	return removed, added
}

func sorted(lines map[string]bool) []byte {
	var b bytes.Buffer
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		b.WriteString(line)
	}
	return b.Bytes()
}

// stamp returns a time in minutes since the start as a literal.
func stamp(minute int) string {
	t := start.Add(time.Duration(minute) * time.Minute)
	return `"` + t.Format("2006-01-02T15:04:05Z") + `"^^<` + xsd + `dateTime>`
}
