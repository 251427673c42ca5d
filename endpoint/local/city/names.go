package city

import "fmt"

// Namespaces of the dataset.
const (
	Entities   = "http://city.example/id/"  // what the city has
	Vocabulary = "http://city.example/def#" // its classes and properties
	operations = "http://city.example/ops#" // housekeeping that no query asks for
	rdfType    = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
	rdfsLabel  = "<http://www.w3.org/2000/01/rdf-schema#label>"
	xsd        = "http://www.w3.org/2001/XMLSchema#"
)

// The sizes of the city. Identifiers count from 1, so that queries can name
// them for any seed.
const (
	airSensors = 40
	gauges     = 8
	docks      = 40
	nodes      = 12 // of the sensor network, seen by no query
	firstShows = 60 // events announced at the start
	upcoming   = 5  // departures on a stop's board
)

var (
	districts = []string{"harbour", "old-town", "mills", "northfield", "university", "riverside", "station", "east-market",
		"gardens", "west-end", "heights", "docklands"}
	english = []string{"Harbour", "Old Town", "Mills", "Northfield", "University", "Riverside", "Station Quarter", "East Market",
		"Gardens", "West End", "Heights", "Docklands"}
	german = []string{"Hafen", "Altstadt", "Mühlen", "Nordfeld", "Universität", "Flussufer", "Bahnhofsviertel", "Ostmarkt",
		"Gärten", "Westend", "Höhe", "Docks"}

	stops = []string{"central", "harbour-gate", "town-hall", "mill-lane", "northfield-loop", "campus", "river-bridge", "east-market",
		"botanic", "opera", "hilltop", "dock-road", "museum", "stadium", "hospital", "fairground"}
	lines = []string{"t1", "t2", "t3", "t4", "b10", "b11", "b20", "b21", "f1"}

	venues = []string{"opera", "kino-nord", "jazz-cellar", "cafe-roest", "city-museum", "arena", "library", "botanic-hall",
		"mill-theatre", "harbour-stage", "old-chapel", "planetarium", "market-hall", "dance-house", "puppet-attic"}
	titles = []string{"Opera House", "Kino Nord", "Jazz Cellar", "Café Röst", "City Museum", "Arena", "Public Library",
		"Botanic Hall", "Mill Theatre", "Harbour Stage", "Old Chapel", "Planetarium", "Market Hall", "Dance House", "Puppet Attic"}
	kinds  = []string{"concert", "film", "theatre", "exhibition", "talk", "sport", "market"}
	first  = []string{"Late", "Open", "Silent", "Grand", "Little", "Blue", "Second", "Lost", "Electric", "Winter"}
	second = []string{"Tides", "Voices", "Machines", "Gardens", "Letters", "Rivers", "Echoes", "Stories", "Maps", "Lanterns"}
)

func id(kind, name string) string { return "<" + Entities + kind + "/" + name + ">" }

func numbered(kind string, n int) string { return fmt.Sprintf("<%s%s/%03d>", Entities, kind, n) }

func def(name string) string { return "<" + Vocabulary + name + ">" }

func ops(name string) string { return "<" + operations + name + ">" }

func text(s string) string { return `"` + s + `"` }

func tagged(s, language string) string { return `"` + s + `"@` + language }

func integer(n int) string { return fmt.Sprintf(`"%d"^^<%sinteger>`, n, xsd) }

// tenths is n/10 in the canonical form of xsd:decimal, which endpoints that
// normalise numbers keep.
func tenths(n int) string {
	if n%10 == 0 {
		return fmt.Sprintf(`"%d"^^<%sdecimal>`, n/10, xsd)
	}
	return fmt.Sprintf(`"%d.%d"^^<%sdecimal>`, n/10, n%10, xsd)
}

func boolean(b bool) string { return fmt.Sprintf(`"%t"^^<%sboolean>`, b, xsd) }
