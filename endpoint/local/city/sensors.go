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

func (r *reading) facts(do fact) {
	status := "broken"
	if r.working {
		status = "working"
		do(r.self, def("pm10"), integer(r.pm10))
		do(r.self, def("no2"), tenths(r.no2))
	}
	do(r.self, def("measured"), stamp(r.minute))
	do(r.self, def("status"), text(status))
}

func (g *gauge) facts(do fact) {
	do(g.self, def("level"), integer(g.level))
	do(g.self, def("state"), text(g.state()))
}

func (c *City) buildDistricts() {
	for n, name := range districts {
		self := id("district", name)
		c.describe(self, "District", tagged(english[n], "en"))
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
		c.describe(r.self, "AirSensor", text("Air "+pick(c.random, english)+" "+pick(c.random, second)))
		c.place(r.self)
		r.facts(c.addTriple)
		c.air = append(c.air, r)
	}
	for n := 1; n <= gauges; n++ {
		usual := c.random.between(120, 260)
		g := gauge{self: numbered("gauge", n), level: usual, usual: usual}
		c.describe(g.self, "WaterGauge", text("Gauge "+pick(c.random, second)))
		c.place(g.self)
		c.addTriple(g.self, def("usualLevel"), integer(g.usual))
		g.facts(c.addTriple)
		c.rivers = append(c.rivers, g)
	}
	for n := 1; n <= nodes; n++ {
		c.addTriple(numbered("node", n), ops("heartbeat"), integer(0))
		c.beats = append(c.beats, 0)
	}
}

func (g *gauge) state() string {
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
	c.removeTriple(numbered("node", n+1), ops("heartbeat"), integer(c.beats[n]))
	c.addTriple(numbered("node", n+1), ops("heartbeat"), integer(c.minute))
	c.beats[n] = c.minute
}

// weather lets a few readings drift and occasionally a storm pass.
func (c *City) weather() {
	for range c.random.below(6) {
		c.measure(&c.air[c.random.below(airSensors)], c.random.between(-4, 4))
	}
	if c.random.oneIn(25) {
		r := &c.air[c.random.below(airSensors)] // it breaks, or is repaired
		c.edit(r, func() { r.working = !r.working })
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
	c.edit(r, func() {
		r.pm10 = max(1, r.pm10+drift)
		r.no2 = max(1, r.no2+5*drift+c.random.between(-3, 3))
		r.minute = c.minute
	})
}

func (c *City) rise(g *gauge, by int) {
	c.edit(g, func() { g.level += by })
}
