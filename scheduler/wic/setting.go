package wic

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// An Urgency is the value of a captured change by its age t in instants. The zero
// value is Uniform.
type Urgency struct {
	Kind string `json:"kind"`
	// Param is r of exp, from 0 to 1, or W of sliding, a whole number of at least 0.
	Param float64 `json:"param"`
}

// The kinds of urgency.
const (
	Uniform = "uniform" // 1
	Exp     = "exp"     // r^t
	Sliding = "sliding" // 1 for t ≤ W, else 0
)

// A Life is the probability that a change of instant k is still available at j. The
// zero value is Append.
type Life struct {
	Kind string `json:"kind"`
	// W is the W of window, at least 0, or the Z of changes, at least 1.
	W int `json:"W"`
}

// The kinds of life.
const (
	Append    = "append"    // 1
	Window    = "window"    // 1 for j − k ≤ W, else 0
	Changes   = "changes"   // the probability of fewer than Z changes since
	Overwrite = "overwrite" // the probability of no change since: Π (1 − π)
)

// ErrSetting is wrapped by the errors about urgencies and lives.
var ErrSetting = errors.New("bad setting")

// Check returns an error if the urgency is invalid.
func (u Urgency) Check() error {
	switch u.Kind {
	case "", Uniform:
		return nil
	case Exp:
		if !(u.Param >= 0 && u.Param <= 1) {
			return fmt.Errorf("%w: urgency exp has r from 0 to 1, not %v", ErrSetting, u.Param)
		}
		return nil
	case Sliding:
		if !(u.Param >= 0 && u.Param <= maxWindow) || u.Param != math.Trunc(u.Param) {
			return fmt.Errorf("%w: urgency sliding has a whole W from 0 to %d, not %v", ErrSetting, maxWindow, u.Param)
		}
		return nil
	}
	return fmt.Errorf("%w: urgency %q; there are uniform, exp and sliding", ErrSetting, u.Kind)
}

const (
	maxWindow  = 1 << 20
	maxChanges = 64
)

// Check returns an error if the life is invalid.
func (l Life) Check() error {
	switch {
	case l.Kind == "" || l.Kind == Append || l.Kind == Overwrite:
		return nil
	case l.Kind == Window && l.W >= 0 && l.W <= maxWindow, l.Kind == Changes && l.W >= 1 && l.W <= maxChanges:
		return nil
	case l.Kind == Window:
		return fmt.Errorf("%w: life window has W from 0 to %d, not %d", ErrSetting, maxWindow, l.W)
	case l.Kind == Changes:
		return fmt.Errorf("%w: life changes has Z from 1 to %d, not %d", ErrSetting, maxChanges, l.W)
	}
	return fmt.Errorf("%w: life %q; there are append, window, changes and overwrite", ErrSetting, l.Kind)
}

// ParseUrgency reads "uniform", "exp,0.5" and "sliding,3".
func ParseUrgency(s string) (Urgency, error) {
	kind, param, given := strings.Cut(s, ",")
	u := Urgency{Kind: kind}
	if given {
		x, err := strconv.ParseFloat(param, 64)
		if err != nil || kind == Uniform {
			return Urgency{}, fmt.Errorf("%w: urgency %q", ErrSetting, s)
		}
		if u.Param = x; x == 0 {
			u.Param = 0 // not −0
		}
	} else if kind == Exp || kind == Sliding {
		return Urgency{}, fmt.Errorf("%w: urgency %s is written %s,number", ErrSetting, s, s)
	}
	return u, u.Check()
}

// ParseLife reads "append", "window,10", "changes,2" and "overwrite".
func ParseLife(s string) (Life, error) {
	kind, param, given := strings.Cut(s, ",")
	l := Life{Kind: kind}
	if given {
		n, err := strconv.Atoi(param)
		if err != nil || kind == Append || kind == Overwrite {
			return Life{}, fmt.Errorf("%w: life %q", ErrSetting, s)
		}
		l.W = n
	} else if kind == Window || kind == Changes {
		return Life{}, fmt.Errorf("%w: life %s is written %s,number", ErrSetting, s, s)
	}
	return l, l.Check()
}

// String is the spelling that ParseUrgency reads.
func (u Urgency) String() string {
	switch u.Kind {
	case Exp, Sliding:
		return u.Kind + "," + strconv.FormatFloat(u.Param, 'g', -1, 64)
	}
	return Uniform
}

// String is the spelling that ParseLife reads.
func (l Life) String() string {
	switch l.Kind {
	case Window, Changes:
		return l.Kind + "," + strconv.Itoa(l.W)
	case Overwrite:
		return Overwrite
	}
	return Append
}

// decay returns the factor by which urgency decreases with each instant.
func (u Urgency) decay() float64 {
	if u.Kind == Exp {
		return u.Param
	}
	return 1
}

// reach returns the largest age at which a change still counts, −1 if there is none.
func reach(u Urgency, l Life) int {
	n := -1
	if l.Kind == Window {
		n = l.W
	}
	if u.Kind == Sliding && (n < 0 || int(u.Param) < n) {
		n = int(u.Param)
	}
	return n
}

// states returns how many counts of later changes have to be distinguished.
func (l Life) states() int {
	if l.Kind == Changes {
		return l.W
	}
	return 1
}

// dies reports whether later changes end a change's life.
func (l Life) dies() bool { return l.Kind == Changes || l.Kind == Overwrite }
