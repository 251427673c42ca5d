package store

import (
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/proof"
	"github.com/freshet/freshet/scheduler/rounds"
)

// The form of a batch in the journal. It has the time and the bounds of retention of the node
// that found its outcomes, and results and deltas as they are stored. Of a delta it has only
// what decides whether the outcome follows the stored result.

// A batchRest is the part of a batch that is stored as JSON.
type batchRest struct {
	Slot    *scheduler.Slot   `json:"slot,omitempty"`
	Health  *registry.Health  `json:"health,omitempty"`
	Cohorts []cohort.State    `json:"cohorts,omitempty"`
	Rounds  []registry.Round  `json:"rounds,omitempty"`
	Models  []rounds.Model    `json:"models,omitempty"`
	Proof   *proof.Endpoint   `json:"proof,omitempty"`
	Beside  *scheduler.Beside `json:"beside,omitempty"`
	// Edits are those of the outcomes, by query.
	Edits map[string][]registry.DataEdit `json:"edits,omitempty"`
	Aging time.Time                      `json:"aging,omitzero"`
}

func (w *writer) append(b []byte) ([]byte, error) {
	b = putTime(putText(b, w.endpoint), w.now)
	for _, n := range []int64{int64(w.keep.Changes), int64(w.keep.Age), w.keep.Bytes} {
		b = binary.AppendVarint(b, n)
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, w.token), w.b.Space)
	b = binary.AppendUvarint(b, uint64(len(w.b.Outcomes)))
	for i := range w.b.Outcomes {
		b = appendOutcome(b, &w.b.Outcomes[i])
	}
	var learnt []byte
	if w.b.Policy != nil {
		learnt = appendPolicy(nil, w.b.Policy)
	}
	b = putTexts(putText(b, string(learnt)), w.b.DroppedCohorts)
	var edits map[string][]registry.DataEdit
	for i := range w.b.Outcomes {
		if o := &w.b.Outcomes[i]; len(o.Edits) > 0 {
			if edits == nil {
				edits = map[string][]registry.DataEdit{}
			}
			edits[o.Query] = o.Edits
		}
	}
	rest, err := json.Marshal(batchRest{w.b.Slot, w.b.Health, w.b.Cohorts, w.b.Rounds, w.b.Models, w.b.Proof, w.b.Beside, edits, w.aging})
	return putText(b, string(rest)), err
}

func (w *writer) decode(in *scan) {
	w.b = new(scheduler.Batch)
	w.endpoint, w.now = in.text(), in.time()
	w.keep = Retention{Changes: int(in.signed()), Age: time.Duration(in.signed()), Bytes: in.signed()}
	w.token, w.b.Space = in.number(), in.number()
	w.b.Outcomes = make([]scheduler.Outcome, in.count())
	for i := range w.b.Outcomes {
		decodeOutcome(in, &w.b.Outcomes[i])
	}
	if learnt := in.bytes(); len(learnt) > 0 {
		p, err := parsePolicy(learnt)
		if err != nil {
			in.fail()
		}
		w.b.Policy = &p
	}
	w.b.DroppedCohorts = in.texts()
	var rest batchRest
	if v := in.bytes(); in.bad || json.Unmarshal(v, &rest) != nil {
		in.fail()
	}
	w.b.Slot, w.b.Health, w.b.Cohorts, w.b.Rounds, w.b.Models = rest.Slot, rest.Health, rest.Cohorts, rest.Rounds, rest.Models
	w.b.Proof, w.b.Beside, w.aging = rest.Proof, rest.Beside, rest.Aging
	for i := range w.b.Outcomes {
		if o := &w.b.Outcomes[i]; o.Prepared != nil {
			o.Edits = rest.Edits[o.Query]
		}
	}
}

func appendOutcome(b []byte, o *scheduler.Outcome) []byte {
	b = putText(putText(b, o.Query), o.Stats.Position.Epoch)
	b = putText(b, string((&record{stats: o.Stats}).append(nil)))
	b = putTime(b, o.Checked)
	b = putBool(b, o.Turned)
	b = putBool(b, o.Prepared != nil)
	if o.Prepared == nil {
		return b
	}
	p := o.Prepared.(*prepared)
	b = putText(putBool(b, o.Delta.Baseline), o.Delta.OldHash)
	return putText(putText(b, string(p.result)), string(p.delta))
}

func decodeOutcome(in *scan, o *scheduler.Outcome) {
	o.Query = in.text()
	epoch := in.text()
	r, err := parseRecord(in.bytes())
	if err != nil {
		in.fail()
	}
	o.Stats = r.stats
	o.Stats.Position.Epoch = epoch
	o.Checked = in.time()
	o.Turned = in.bool()
	if in.bool() {
		o.Delta = &diff.Delta{Baseline: in.bool(), OldHash: in.text()}
		o.Prepared = &prepared{result: in.bytes(), delta: in.bytes()}
	}
}
