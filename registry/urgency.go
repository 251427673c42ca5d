package registry

import (
	"errors"
	"regexp"
)

// The syntax of urgency, the value of a change by its age, and of life, how
// long a change can be observed. The policies that use them read the same
// syntax.
var (
	urgencies = regexp.MustCompile(`^(uniform|exp,(0?\.[0-9]{1,9}|0|1(\.0{1,9})?)|sliding,[0-9]{1,6})$`)
	lives     = regexp.MustCompile(`^(append|overwrite|window,[0-9]{1,6}|changes,([1-9]|[1-5][0-9]|6[0-4]))$`)

	errUrgency = errors.New("urgency is uniform, exp,r with r from 0 to 1, or sliding,W with a number of slots")
	errLife    = errors.New("life is append, overwrite, window,W with a number of slots, or changes,Z with Z from 1 to 64")
)

// CheckUrgency returns an error if s is not an urgency. "" means the policy's
// default.
func CheckUrgency(s string) error {
	if s == "" || urgencies.MatchString(s) {
		return nil
	}
	return errUrgency
}

// CheckLife returns an error if s is not a life. "" means the policy's default.
func CheckLife(s string) error {
	if s == "" || lives.MatchString(s) {
		return nil
	}
	return errLife
}

func checkUrgencyAndLife(urgency, life string) error {
	if err := CheckUrgency(urgency); err != nil {
		return WrongField(KindBadSetting, "/urgency", "%v", err)
	}
	if err := CheckLife(life); err != nil {
		return WrongField(KindBadSetting, "/life", "%v", err)
	}
	return nil
}
