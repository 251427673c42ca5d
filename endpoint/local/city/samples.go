package city

// Query is a question about the city with exactly one correct answer at any
// moment: no clock, no randomness, no LIMIT without a total order.
type Query struct {
	Name    string
	Form    string // SELECT, ASK, CONSTRUCT or DESCRIBE
	Text    string
	Tags    []string
	Ordered bool // the order of the rows is part of the answer
}

const prefixes = `PREFIX : <` + Vocabulary + `>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
`

// SampleQueries are some queries worth watching, of all forms, each with a
// name. The answer of the one tagged "still" never changes.
func SampleQueries() []Query {
	list := []Query{
		{Name: "departures-central", Form: "SELECT", Ordered: true, Tags: []string{"traffic"}, Text: `SELECT ?line ?expected ?delay WHERE {
  ?departure :stop <http://city.example/id/stop/central> ; :line/rdfs:label ?line ; :expected ?expected ; :delay ?delay .
} ORDER BY ?expected ?departure LIMIT 5`},
		{Name: "late-departures", Form: "SELECT", Tags: []string{"traffic"}, Text: `SELECT ?departure ?stop ?line ?delay WHERE {
  ?departure :stop/rdfs:label ?stop ; :line/rdfs:label ?line ; :delay ?delay .
  FILTER (?delay >= 5)
}`},
		{Name: "delay-by-line", Form: "SELECT", Tags: []string{"traffic"}, Text: `SELECT ?line (COUNT(?departure) AS ?late) ` +
			`(MAX(?delay) AS ?worst) WHERE {
  ?departure :line ?line ; :delay ?delay .
  FILTER (?delay > 0)
} GROUP BY ?line`},
		{Name: "bikes-harbour", Form: "SELECT", Tags: []string{"bikes"}, Text: `SELECT ?dock ?label ?bikes ?capacity WHERE {
  ?dock a :BikeDock ; rdfs:label ?label ; :district ?district ; :bikes ?bikes ; :capacity ?capacity ; :open true .
  VALUES ?district { <http://city.example/id/district/harbour> <http://city.example/id/district/docklands> ` +
			`<http://city.example/id/district/riverside> }
}`},
		{Name: "bikes-by-district", Form: "SELECT", Tags: []string{"bikes"}, Text: `SELECT ?district (SUM(?bikes) AS ?available) ` +
			`(COUNT(?dock) AS ?docks) WHERE {
  ?dock a :BikeDock ; :district ?district ; :bikes ?bikes ; :open true .
} GROUP BY ?district`},
		{Name: "worst-air", Form: "SELECT", Ordered: true, Tags: []string{"air"}, Text: `SELECT ?sensor ?label ?pm10 WHERE {
  ?sensor a :AirSensor ; rdfs:label ?label ; :pm10 ?pm10 .
} ORDER BY DESC(?pm10) ?sensor LIMIT 5`},
		{Name: "broken-sensors", Form: "SELECT", Tags: []string{"air"}, Text: `SELECT ?sensor WHERE {
  ?sensor a :AirSensor FILTER NOT EXISTS { ?sensor :pm10 ?any }
}`},
		{Name: "river-levels", Form: "SELECT", Tags: []string{"river"}, Text: `SELECT ?gauge ?level ?state (?level - ?usual AS ?above) WHERE {
  ?gauge a :WaterGauge ; :level ?level ; :usualLevel ?usual ; :state ?state .
}`},
		{Name: "flood-alarm", Form: "ASK", Tags: []string{"river", "alarm"}, Text: `ASK { ?gauge a :WaterGauge ; :state "alarm" }`},
		{Name: "concerts", Form: "SELECT", Tags: []string{"events"}, Text: `SELECT ?event ?title ?venue ?begins ?price WHERE {
  ?event :kind "concert" ; rdfs:label ?title ; :venue/rdfs:label ?venue ; :begins ?begins .
  OPTIONAL { ?event :price ?price }
}`},
		{Name: "sold-out", Form: "CONSTRUCT", Tags: []string{"events"}, Text: `CONSTRUCT { ?event a :SoldOutEvent ; rdfs:label ?title } WHERE {
  ?event :soldOut true ; rdfs:label ?title .
}`},
		{Name: "offers", Form: "CONSTRUCT", Tags: []string{"events", "blank-nodes"}, Text: `CONSTRUCT { ?venue :offers [ :title ` +
			`?title ; :price ?price ] } WHERE {
  ?event :venue ?venue ; rdfs:label ?title ; :price ?price .
  FILTER (?price < 20)
}`},
		{Name: "next-event", Form: "SELECT", Ordered: true, Tags: []string{"events"}, Text: `SELECT ?event ?title ?begins WHERE {
  ?event a :Event ; rdfs:label ?title ; :begins ?begins .
} ORDER BY ?begins ?event LIMIT 1`},
		{Name: "gauge-1", Form: "DESCRIBE", Tags: []string{"river"}, Text: `DESCRIBE <http://city.example/id/gauge/001>`},
		{Name: "districts", Form: "SELECT", Tags: []string{"still"}, Text: `SELECT ?district ?name ?population WHERE {
  ?district a :District ; rdfs:label ?name ; :population ?population .
  FILTER (lang(?name) = "en")
}`},
	}
	for n := range list {
		list[n].Text = prefixes + list[n].Text
	}
	return list
}
