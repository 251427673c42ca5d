package store

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A registration is stored in a compact form, because a restart and a search read all of
// them: a version, marks, the text, the holders with their length, and the other fields.
// The id is not part of it, since it is the key.
const registrationVersion = 1

// Marks summarise a registration for filters that need not decode it.
const (
	markPause  byte = 1 << iota // the query or a holder is paused
	markWindow                  // a holder sets from or until
	markPublic                  // a holder publishes the result
)

func marksOf(q *registry.Query) (marks byte) {
	if q.Pause != nil {
		marks |= markPause
	}
	for i := range q.Holders {
		h := &q.Holders[i]
		if h.Pause != nil {
			marks |= markPause
		}
		if h.From != nil || h.Until != nil {
			marks |= markWindow
		}
		if h.Public {
			marks |= markPublic
		}
	}
	return marks
}

func appendRegistration(b []byte, q *registry.Query) []byte {
	b = slices.Grow(b, registrationRoom(q))
	b = append(b, registrationVersion, marksOf(q))
	b = putText(b, q.Text)
	var room [256]byte
	holders := room[:0]
	for i := range q.Holders {
		holders = appendHolder(holders, &q.Holders[i])
	}
	b = binary.AppendUvarint(b, uint64(len(q.Holders)))
	b = append(binary.AppendUvarint(b, uint64(len(holders))), holders...)
	b = putText(b, q.Endpoint)
	b = putText(b, string(q.Form))
	b = putBool(b, q.Ordered)
	b = putTexts(b, q.OrderKeys)
	b = binary.AppendVarint(b, q.Limit)
	b = putTexts(b, q.DefaultGraphs)
	b = putTexts(b, q.NamedGraphs)
	b = binary.AppendUvarint(b, uint64(len(q.Warnings)))
	for _, w := range q.Warnings {
		b = putText(putText(b, w.Code), w.Message)
		b = binary.AppendVarint(binary.AppendVarint(b, int64(w.Line)), int64(w.Column))
	}
	b = putMoment(b, q.CreatedAt)
	b = putPause(b, q.Pause)
	b = binary.AppendUvarint(b, q.Refreshes)
	b = putText(b, q.Normal)
	return putConstants(b, q.Normal, q.Constants)
}

// registrationRoom returns about the size of the output of appendRegistration.
func registrationRoom(q *registry.Query) int {
	return 128 + len(q.Text) + len(q.Normal) + 8*len(q.Constants) + 128*len(q.Holders) + 192*len(q.Warnings)
}

// decodeRegistration reads the output of appendRegistration. It copies everything out of b.
func decodeRegistration(b []byte, q *registry.Query) error {
	in := scan{b: b}
	if in.byte() != registrationVersion {
		in.fail()
	}
	in.byte() // marks
	q.Text = in.text()
	holders := in.count()
	in.number()
	for range holders {
		q.Holders = append(q.Holders, in.holder())
	}
	q.Endpoint, q.Form, q.Ordered = in.text(), diff.Form(in.text()), in.bool()
	q.OrderKeys, q.Limit = in.texts(), in.signed()
	q.DefaultGraphs, q.NamedGraphs = in.texts(), in.texts()
	for range in.count() {
		q.Warnings = append(q.Warnings, registry.Warning{Code: in.text(), Message: in.text(), Line: int(in.signed()), Column: int(in.signed())})
	}
	q.CreatedAt, q.Pause, q.Refreshes = in.moment(), in.pause(), in.number()
	q.Normal = in.text()
	q.Constants = in.constants(q.Normal)
	return in.end("a registration")
}

// A registrationHead is the front of a stored registration. It refers to the stored bytes.
type registrationHead struct {
	marks byte
	text  []byte
	body  []byte // the text, the holders and the other fields
}

func readRegistrationHead(b []byte) (h registrationHead, err error) {
	in := scan{b: b}
	if in.byte() != registrationVersion {
		in.fail()
	}
	h.marks = in.byte()
	size := in.number()
	h.body = in.b
	h.text = in.take(size)
	if in.bad {
		return h, fmt.Errorf("%w: a registration cannot be read", ErrDamaged)
	}
	return h, nil
}

// holders returns the stored holders and their number, and false if they cannot be read.
func (h *registrationHead) holders() (list []byte, count int, ok bool) {
	in := scan{b: h.body[len(h.text):]}
	count = in.count()
	list = in.bytes()
	return list, count, !in.bad
}

// Fields of a holder that are present or true.
const (
	holderWeight = 1 << iota
	holderAlone
	holderFrom
	holderUntil
	holderPublic
	holderMayPublish
	holderPause
	holderLive
	holderReleaseAt
	holderNode
)

func appendHolder(b []byte, h *registry.Holder) []byte {
	fields := bitIf(h.Weight != 0, holderWeight) | bitIf(h.Alone, holderAlone) | bitIf(h.From != nil, holderFrom) |
		bitIf(h.Until != nil, holderUntil) | bitIf(h.Public, holderPublic) | bitIf(h.MayPublish, holderMayPublish) |
		bitIf(h.Pause != nil, holderPause) | bitIf(h.Live, holderLive) | bitIf(h.ReleaseAt != nil, holderReleaseAt) | bitIf(h.Node != "", holderNode)
	b = binary.AppendUvarint(b, fields)
	b = putTexts(putText(putText(b, h.Caller), h.Name), h.Tags)
	b = binary.AppendVarint(binary.AppendVarint(b, int64(h.MaxStaleness)), int64(h.MinInterval))
	b = putMoment(putText(putText(b, h.Urgency), h.Life), h.Since)
	if h.Weight != 0 {
		b = putFloat(b, h.Weight)
	}
	for _, t := range []*time.Time{h.From, h.Until, h.ReleaseAt} {
		if t != nil {
			b = putMoment(b, *t)
		}
	}
	if h.Pause != nil {
		b = putPause(b, h.Pause)
	}
	if h.Node != "" {
		b = putText(b, h.Node)
	}
	return b
}

func bitIf(set bool, bit uint64) uint64 {
	if set {
		return bit
	}
	return 0
}

func (s *scan) holder() (h registry.Holder) {
	fields := s.number()
	h.Caller, h.Name, h.Tags = s.text(), s.text(), s.texts()
	h.MaxStaleness, h.MinInterval = registry.Duration(s.signed()), registry.Duration(s.signed())
	h.Urgency, h.Life, h.Since = s.text(), s.text(), s.moment()
	h.Alone, h.Public, h.MayPublish, h.Live = fields&holderAlone != 0, fields&holderPublic != 0, fields&holderMayPublish != 0, fields&holderLive != 0
	if fields&holderWeight != 0 {
		h.Weight = s.float()
	}
	for _, t := range []struct {
		field uint64
		to    **time.Time
	}{{holderFrom, &h.From}, {holderUntil, &h.Until}, {holderReleaseAt, &h.ReleaseAt}} {
		if fields&t.field != 0 {
			at := s.moment()
			*t.to = &at
		}
	}
	if fields&holderPause != 0 {
		h.Pause = s.pause()
	}
	if fields&holderNode != 0 {
		h.Node = s.text()
	}
	return h
}

func putPause(b []byte, p *registry.Pause) []byte {
	if p == nil {
		return putBool(b, false)
	}
	return putBool(putMoment(putText(putBool(b, true), p.By), p.At), p.All)
}

func (s *scan) pause() *registry.Pause {
	if !s.bool() {
		return nil
	}
	return &registry.Pause{By: s.text(), At: s.moment(), All: s.bool()}
}

// putConstants writes constants as references to the normal form, which contains almost
// all of them.
func putConstants(b []byte, normal string, constants []string) []byte {
	b = binary.AppendUvarint(b, uint64(len(constants)))
	if len(constants) == 0 {
		return b
	}
	places := iriPlaces(normal)
	for _, c := range constants {
		if i, ok := places[c]; ok {
			b = binary.AppendUvarint(b, uint64(len(c))<<1|1)
			b = binary.AppendUvarint(b, uint64(i))
		} else {
			b = append(binary.AppendUvarint(b, uint64(len(c))<<1), c...)
		}
	}
	return b
}

// iriPlaces returns where the texts between < and > begin in a normal form. It reads the
// normal form once, because a query of 1 MiB can have 100,000 constants.
func iriPlaces(normal string) map[string]int {
	places := map[string]int{}
	for rest := normal; ; {
		before, after, found := strings.Cut(rest, ">")
		if !found {
			return places
		}
		if i := strings.LastIndexByte(before, '<'); i >= 0 {
			places[before[i+1:]] = len(normal) - len(rest) + i + 1
		}
		rest = after
	}
}

// constants returns constants that share one string of their own: the planner keeps them
// and drops the normal form.
func (s *scan) constants(normal string) []string {
	n := s.count()
	if n == 0 {
		return nil
	}
	var joined []byte
	list, lengths := make([]string, n), make([]int, n)
	for i := range lengths {
		size := s.number()
		lengths[i] = int(size >> 1)
		if size&1 == 0 {
			joined = append(joined, s.take(size>>1)...)
			continue
		}
		at := s.number()
		if at > uint64(len(normal)) || size>>1 > uint64(len(normal))-at {
			s.fail()
			return nil
		}
		joined = append(joined, normal[at:at+size>>1]...)
	}
	if s.bad {
		return nil
	}
	rest := string(joined)
	for i, n := range lengths {
		list[i], rest = rest[:n], rest[n:]
	}
	return list
}
