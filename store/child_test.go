package store

// childMain is what the test binary does when a test runs it again as a
// process of its own; false when it was not.
func childMain() bool { return false }
