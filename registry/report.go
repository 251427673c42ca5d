package registry

// A Report says what an endpoint can do, and which settings fit it.
type Report struct {
	URL      string     `json:"url"`
	Answers  bool       `json:"answers"`  // it answered as a SPARQL endpoint does
	Requests int        `json:"requests"` // that were sent
	Findings []Finding  `json:"findings"`
	Settings []Proposal `json:"settings"` // those that differ from the defaults
}

// A Finding is the outcome of one trial.
type Finding struct {
	Topic  string `json:"topic"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// A Proposal is a value for a setting, and why it fits.
type Proposal struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
	Why   string `json:"why"`
}
