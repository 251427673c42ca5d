package city

import "slices"

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

func (d *dock) facts(do fact) {
	do(d.self, def("bikes"), integer(d.bikes))
	do(d.self, def("open"), boolean(d.open))
}

func (c *City) buildTraffic() {
	for n := 1; n <= docks; n++ {
		d := dock{self: numbered("dock", n), capacity: c.random.between(8, 30), open: true}
		d.bikes = c.random.below(d.capacity + 1)
		c.describe(d.self, "BikeDock", text("Bikes "+pick(c.random, english)+" "+pick(c.random, second)))
		c.place(d.self)
		c.addTriple(d.self, def("capacity"), integer(d.capacity))
		d.facts(c.addTriple)
		c.bikes = append(c.bikes, d)
	}
	for n, name := range lines {
		self := id("line", name)
		c.describe(self, "Line", text("Line "+name))
		c.addTriple(self, def("terminus"), id("stop", stops[(5*n+3)%len(stops)]))
	}
	for _, name := range stops {
		self := id("stop", name)
		c.describe(self, "Stop", text(name))
		c.place(self)
		for next := range upcoming {
			c.plan(self, 3+headway*next+c.random.below(headway))
		}
	}
}

func (c *City) plan(stop string, minute int) {
	c.departures++
	d := departure{self: numbered("departure", c.departures), stop: stop, line: id("line", pick(c.random, lines)), planned: minute}
	d.facts(c.addTriple)
	c.board = append(c.board, d)
}

func (d *departure) facts(do fact) {
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
		c.edit(d, func() { d.bikes = min(d.capacity, max(0, d.bikes+c.random.between(-3, 3))) })
	}
	if c.random.oneIn(20) {
		d := &c.bikes[c.random.below(docks)]
		c.edit(d, func() { d.open = !d.open })
	}
}

// updateDepartures removes past departures, plans new ones and delays some.
func (c *City) updateDepartures() {
	var gone []departure
	c.board = slices.DeleteFunc(c.board, func(d departure) bool {
		left := d.planned+d.delay <= c.minute
		if left {
			gone = append(gone, d)
		}
		return left
	})
	for _, d := range gone {
		d.facts(c.removeTriple)
		c.plan(d.stop, max(c.minute, d.planned)+headway*upcoming+c.random.below(5)-2)
	}
	for range c.random.below(4) {
		d := &c.board[c.random.below(len(c.board))]
		c.edit(d, func() { d.delay += c.random.between(1, 4) })
	}
}
