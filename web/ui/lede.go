package ui

// A lede is the first sentence of a page: the answer, and the problems.
type lede struct {
	Strong string
	Rest   []phrase
}

type phrase struct{ Text, Link string }

// A state is displayed as a shape and a word.
type state struct{ Class, Word string }
