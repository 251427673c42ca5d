package store

import (
	"encoding/binary"

	"github.com/freshet/freshet/scheduler"
)

// The state that a policy keeps for an endpoint as a whole is stored beside the
// endpoint's health.

func policyKey(space uint64) []byte { return append(key8(space), "policy"...) }

const policyVersion = 1

func appendPolicy(b []byte, s *scheduler.PolicyState) []byte {
	b = append(b, policyVersion)
	b = putText(b, s.Policy)
	b = binary.AppendUvarint(b, uint64(len(s.State)))
	for _, f := range s.State {
		b = putFloat(b, f)
	}
	return b
}

func parsePolicy(b []byte) (scheduler.PolicyState, error) {
	in := scan{b: b}
	if in.byte() != policyVersion {
		in.fail()
	}
	s := scheduler.PolicyState{Policy: in.text()}
	if n := in.count(); n > 0 {
		s.State = make([]float64, n)
		for i := range s.State {
			s.State[i] = in.float()
		}
	}
	return s, in.end("what a policy has learnt")
}
