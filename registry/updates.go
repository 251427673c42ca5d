package registry

// Updates are messages for a client that several queries have moved on. They do not say what changed.
type Updates struct {
	First, Last []byte // the data of the first event, and of the last one unless the client leaves
	Topics      []UpdatesTopic
}

// An UpdatesTopic is one query of Updates.
type UpdatesTopic struct {
	Query   string
	After   *Position     // what the client knows; nil: nothing
	Message func() []byte // returns the data of the event
}
