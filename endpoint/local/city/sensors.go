package city

// reading is an air sensor's last measurement.
type reading struct {
	self    string
	pm10    int // µg/m³
	no2     int // tenths of µg/m³
	minute  int
	working bool
}

// gauge is a water level gauge.
type gauge struct {
	self         string
	level, usual int // cm
}

func (c *City) buildDistricts() {
	for n, name := range districts {
		self := id("district", name)
		c.addTriple(self, rdfType, def("District"))
		c.addTriple(self, rdfsLabel, tagged(english[n], "en"))
		c.addTriple(self, rdfsLabel, tagged(german[n], "de"))
		c.addTriple(self, def("population"), integer(2000+100*c.random.below(400)))
		c.addTriple(self, def("neighbour"), id("district", districts[(n+1)%len(districts)]))
		if other := c.random.below(len(districts)); other != n {
			c.addTriple(self, def("neighbour"), id("district", districts[other]))
		}
	}
}

func (c *City) place(self string) {
	c.addTriple(self, def("district"), id("district", pick(c.random, districts)))
}

func (c *City) buildSensors() {
	for n := 1; n <= airSensors; n++ {
		r := reading{self: numbered("air", n), pm10: c.random.between(8, 40), no2: c.random.between(50, 400), working: true}
		c.addTriple(r.self, rdfType, def("AirSensor"))
		c.addTriple(r.self, rdfsLabel, text("Air "+pick(c.random, english)+" "+pick(c.random, second)))
		c.place(r.self)
		c.addTriple(r.self, def("pm10"), integer(r.pm10))
		c.addTriple(r.self, def("no2"), tenths(r.no2))
		c.addTriple(r.self, def("measured"), stamp(0))
		c.addTriple(r.self, def("status"), text("working"))
		c.air = append(c.air, r)
	}
	for n := 1; n <= gauges; n++ {
		usual := c.random.between(120, 260)
		g := gauge{self: numbered("gauge", n), level: usual, usual: usual}
		c.addTriple(g.self, rdfType, def("WaterGauge"))
		c.addTriple(g.self, rdfsLabel, text("Gauge "+pick(c.random, second)))
		c.place(g.self)
		c.addTriple(g.self, def("usualLevel"), integer(g.usual))
		c.addTriple(g.self, def("level"), integer(g.level))
		c.addTriple(g.self, def("state"), text(g.state()))
		c.rivers = append(c.rivers, g)
	}
	for n := 1; n <= nodes; n++ {
		c.addTriple(numbered("node", n), ops("heartbeat"), integer(0))
		c.beats = append(c.beats, 0)
	}
}

func (g gauge) state() string {
	switch above := g.level - g.usual; {
	case above >= 60:
		return "alarm"
	case above >= 25:
		return "warning"
	}
	return "normal"
}

// heartbeat changes housekeeping data every minute.
func (c *City) heartbeat() {
	n := c.random.below(nodes)
	c.change(numbered("node", n+1), ops("heartbeat"), integer(c.beats[n]), integer(c.minute))
	c.beats[n] = c.minute
}

// weather lets a few readings drift and occasionally a storm pass.
func (c *City) weather() {
	for range c.random.below(6) {
		c.measure(&c.air[c.random.below(airSensors)], c.random.between(-4, 4))
	}
	if c.random.oneIn(25) {
		c.fault(&c.air[c.random.below(airSensors)])
	}
	if c.storm == 0 && c.random.oneIn(15) {
		c.storm = c.random.between(6, 12)
	}
	if c.storm > 0 {
		c.storm--
		for n := range c.rivers {
			c.rise(&c.rivers[n], c.random.between(6, 20))
		}
		return
	}
	for n := range c.rivers {
		if g := &c.rivers[n]; g.level > g.usual && !c.random.oneIn(3) {
			c.rise(g, -min(g.level-g.usual, c.random.between(1, 12)))
		} else if c.random.oneIn(12) {
			c.rise(g, c.random.between(-2, 2))
		}
	}
}

func (c *City) measure(r *reading, drift int) {
	if !r.working {
		return
	}
	before := *r
	r.pm10 = max(1, r.pm10+drift)
	r.no2 = max(1, r.no2+5*drift+c.random.between(-3, 3))
	r.minute = c.minute
	c.change(r.self, def("pm10"), integer(before.pm10), integer(r.pm10))
	c.change(r.self, def("no2"), tenths(before.no2), tenths(r.no2))
	c.change(r.self, def("measured"), stamp(before.minute), stamp(r.minute))
}

// fault breaks a working sensor and removes its values, or repairs a broken
// one.
func (c *City) fault(r *reading) {
	verb, status := c.removeTriple, [2]string{"working", "broken"}
	if !r.working {
		verb, status = c.addTriple, [2]string{"broken", "working"}
	}
	verb(r.self, def("pm10"), integer(r.pm10))
	verb(r.self, def("no2"), tenths(r.no2))
	c.change(r.self, def("status"), text(status[0]), text(status[1]))
	r.working = !r.working
}

func (c *City) rise(g *gauge, by int) {
	before := *g
	g.level += by
	c.change(g.self, def("level"), integer(before.level), integer(g.level))
	c.change(g.self, def("state"), text(before.state()), text(g.state()))
}
