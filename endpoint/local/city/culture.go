package city

import (
	"fmt"
	"slices"
)

// show is an event at a venue.
type show struct {
	self, title, kind, venue string
	begins                   int // minutes since the start
	price                    int // tenths of the currency; 0: free, without a triple
	soldOut                  bool
}

func (c *City) buildCulture() {
	for n, name := range venues {
		self := id("venue", name)
		c.describe(self, "Venue", tagged(titles[n], "en"))
		c.place(self)
		c.addTriple(self, def("seats"), integer(20*c.random.between(2, 60)))
		if n%3 != 0 {
			c.addTriple(self, def("phone"), text(fmt.Sprintf("+00 555 01%02d", n)))
		}
		if n%2 == 0 {
			c.addTriple(self, def("page"), "<http://"+name+".example/>")
		}
	}
	for n := range firstShows {
		// Some begin soon, so that events pass early in a demo.
		c.announce(15 * c.random.between(1, 8+4*n))
	}
}

// announce adds an event that begins in so many minutes.
func (c *City) announce(in int) {
	c.announced++
	s := show{
		self:   numbered("event", c.announced),
		title:  pick(c.random, first) + " " + pick(c.random, second),
		kind:   pick(c.random, kinds),
		venue:  id("venue", pick(c.random, venues)),
		begins: c.minute + in,
	}
	if !c.random.oneIn(3) {
		s.price = 5 * c.random.between(10, 120)
	}
	s.facts(c.addTriple)
	c.shows = append(c.shows, s)
}

func (s *show) facts(do fact) {
	do(s.self, rdfType, def("Event"))
	do(s.self, rdfsLabel, tagged(s.title, "en"))
	do(s.self, def("kind"), text(s.kind))
	do(s.self, def("venue"), s.venue)
	do(s.self, def("begins"), stamp(s.begins))
	if s.price > 0 {
		do(s.self, def("price"), tenths(s.price))
	}
	if s.soldOut {
		do(s.self, def("soldOut"), boolean(true))
	}
}

// updateEvents ends, announces, cancels, moves or sells out some events. From
// time to time a whole programme is published at once.
func (c *City) updateEvents() {
	c.shows = slices.DeleteFunc(c.shows, func(s show) bool {
		past := s.begins <= c.minute
		if past {
			s.facts(c.removeTriple)
		}
		return past
	})
	news := 0
	if c.random.oneIn(8) {
		news = 1
	}
	if c.random.oneIn(40) || len(c.shows) < firstShows/2 {
		news = 10
	}
	for range news {
		c.announce(15 * c.random.between(2, 96))
	}
	if c.random.oneIn(14) {
		n := c.random.below(len(c.shows))
		c.shows[n].facts(c.removeTriple) // cancelled
		c.shows = slices.Delete(c.shows, n, n+1)
	}
	s := &c.shows[c.random.below(len(c.shows))]
	switch c.random.below(10) {
	case 0:
		c.edit(s, func() { s.begins += 30 })
	case 1:
		c.edit(s, func() { s.soldOut = s.soldOut || s.price > 0 })
	}
}
