package city

// headway is the average number of minutes between two departures at a stop.
const headway = 14

// dock is a place for shared bicycles.
type dock struct {
	self            string
	bikes, capacity int
	open            bool
}

// departure is a line on a stop's board.
type departure struct {
	self, stop, line string
	planned, delay   int // minutes since the start; minutes
}

func (c *City) buildTraffic() {
	for n := 1; n <= docks; n++ {
		d := dock{self: numbered("dock", n), capacity: c.random.between(8, 30), open: true}
		d.bikes = c.random.below(d.capacity + 1)
		c.addTriple(d.self, rdfType, def("BikeDock"))
		c.addTriple(d.self, rdfsLabel, text("Bikes "+pick(c.random, english)+" "+pick(c.random, second)))
		c.place(d.self)
		c.addTriple(d.self, def("capacity"), integer(d.capacity))
		c.addTriple(d.self, def("bikes"), integer(d.bikes))
		c.addTriple(d.self, def("open"), boolean(true))
		c.bikes = append(c.bikes, d)
	}
	for n, name := range lines {
		self := id("line", name)
		c.addTriple(self, rdfType, def("Line"))
		c.addTriple(self, rdfsLabel, text("Line "+name))
		c.addTriple(self, def("terminus"), id("stop", stops[(5*n+3)%len(stops)]))
	}
	for _, name := range stops {
		self := id("stop", name)
		c.addTriple(self, rdfType, def("Stop"))
		c.addTriple(self, rdfsLabel, text(name))
		c.place(self)
		for next := range upcoming {
			c.plan(self, 3+headway*next+c.random.below(headway))
		}
	}
}

func (c *City) plan(stop string, minute int) {
	c.departures++
	d := departure{self: numbered("departure", c.departures), stop: stop, line: id("line", pick(c.random, lines)), planned: minute}
	d.each(c.addTriple)
	c.board = append(c.board, d)
}

// each calls do with every fact about the departure.
func (d departure) each(do func(subject, predicate, object string)) {
	do(d.self, rdfType, def("Departure"))
	do(d.self, def("stop"), d.stop)
	do(d.self, def("line"), d.line)
	do(d.self, def("planned"), stamp(d.planned))
	do(d.self, def("expected"), stamp(d.planned+d.delay))
	do(d.self, def("delay"), integer(d.delay))
}

// moveBikes moves bicycles, in bursts when many people do the same.
func (c *City) moveBikes() {
	moves := c.random.below(4)
	if c.random.oneIn(15) {
		moves = 25
	}
	for range moves {
		d := &c.bikes[c.random.below(docks)]
		before := d.bikes
		d.bikes = min(d.capacity, max(0, d.bikes+c.random.between(-3, 3)))
		c.change(d.self, def("bikes"), integer(before), integer(d.bikes))
	}
	if c.random.oneIn(20) {
		d := &c.bikes[c.random.below(docks)]
		c.change(d.self, def("open"), boolean(d.open), boolean(!d.open))
		d.open = !d.open
	}
}

// updateDepartures removes past departures, plans new ones and delays some.
func (c *City) updateDepartures() {
	var gone []departure
	kept := c.board[:0:0]
	for _, d := range c.board {
		if d.planned+d.delay <= c.minute {
			gone = append(gone, d)
		} else {
			kept = append(kept, d)
		}
	}
	c.board = kept
	for _, d := range gone {
		d.each(c.removeTriple)
		c.plan(d.stop, max(c.minute, d.planned)+headway*upcoming+c.random.below(5)-2)
	}
	for range c.random.below(4) {
		c.delay(&c.board[c.random.below(len(c.board))], c.random.between(1, 4))
	}
}

func (c *City) delay(d *departure, by int) {
	before := *d
	d.delay += by
	c.change(d.self, def("delay"), integer(before.delay), integer(d.delay))
	c.change(d.self, def("expected"), stamp(before.planned+before.delay), stamp(d.planned+d.delay))
}
