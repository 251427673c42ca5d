package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// shrink looks for the smallest part of a world that is wrong, by leaving out one part after another for as
// long as the same is still wrong, with a bug or none. It prints how to run it again, and its story.
func (c *command) shrink(ctx context.Context, bug int) error {
	whole := plan.New(c.seed)
	try := func(without []string) (*Run, []string, error) {
		p, err := whole.Without(without...)
		if err != nil {
			return nil, nil, err
		}
		r, err := Simulate(ctx, c.module, p, bug)
		if err != nil {
			return nil, nil, err
		}
		return r, r.wrong(), nil
	}
	gone := c.parts()
	last, wrong, err := try(gone)
	if err != nil {
		return err
	}
	if len(wrong) == 0 {
		return fmt.Errorf("seed %d is not wrong", c.seed)
	}
	parts, runs := slices.DeleteFunc(whole.Parts(), func(name string) bool { return slices.Contains(gone, name) }), 1
	for n := (len(parts) + 1) / 2; n > 0; {
		before := len(parts)
		for from := 0; from < len(parts); {
			some := parts[from:min(from+n, len(parts))]
			r, w, err := try(append(slices.Clone(gone), some...))
			if err != nil {
				return err
			}
			if runs++; !alike(w, wrong) {
				from += n
				continue
			}
			last, wrong, gone = r, w, append(gone, some...)
			parts = slices.Delete(parts, from, from+len(some))
		}
		if n > 1 || len(parts) == before || len(parts) == 0 { // else what another part needed may go now
			n /= 2
		}
	}
	c.without = strings.Join(gone, ",")
	fmt.Printf("After %d worlds:\n", runs)
	for _, w := range wrong[:min(len(wrong), 10)] {
		fmt.Println("  " + w)
	}
	fmt.Printf("  Again: %s -story\n%s", c.again(c.seed), story(last))
	return nil
}

// alike reports whether some of what is wrong in a world was wrong in another one, too: whether the texts begin with the same words.
func alike(is, was []string) bool {
	return slices.ContainsFunc(is, func(a string) bool {
		return slices.ContainsFunc(was, func(b string) bool { return slices.Equal(begins(a), begins(b)) })
	})
}

// begins returns the first words of a text, without numbers.
func begins(text string) []string {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	return words[:min(len(words), 6)]
}
