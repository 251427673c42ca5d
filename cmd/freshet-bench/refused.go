package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// errRefused means that an endpoint rejects an update permanently, so that a retry does
// not help.
var errRefused = errors.New("the endpoint refuses an update")

// deliver sends an update. If the endpoint refuses it, deliver finds and reports the
// triples that the endpoint refuses, and leaves them out: real data has literals that
// do not fit their datatype, and some stores reject these.
func (h *recordingSource) deliver(ctx context.Context, update string) error {
	refusal := h.post(ctx, update)
	if !errors.Is(refusal, errRefused) {
		return refusal
	}
	first, last := strings.IndexByte(update, '\n'), strings.LastIndexByte(update, '\n')
	if first == last || strings.HasPrefix(update, "DELETE WHERE") {
		return refusal // not a block of triples, one a line
	}
	triples := strings.Split(update[first+1:last], "\n")
	good, err := h.acceptedTriples(ctx, triples)
	if clear := h.post(ctx, "CLEAR SILENT GRAPH <"+h.trialGraph()+">"); err == nil {
		err = clear
	}
	switch {
	case err != nil:
		return err
	case len(good) == len(triples):
		return refusal
	}
	return h.post(ctx, update[:first+1]+strings.Join(good, "\n")+update[last:])
}

// trialGraph is the graph in which acceptedTriples tries triples.
func (h *recordingSource) trialGraph() string {
	return "urn:freshet:trial:" + url.PathEscape(h.graph)
}

// acceptedTriples returns the triples that the endpoint accepts. It finds the others
// by bisection.
func (h *recordingSource) acceptedTriples(ctx context.Context, triples []string) ([]string, error) {
	block := "{ GRAPH <" + h.trialGraph() + "> {\n" + strings.Join(triples, "\n") + "\n} }"
	err := h.post(ctx, "INSERT "+block+" WHERE {}") // Virtuoso has no blank nodes in data
	switch {
	case err == nil:
		return triples, nil
	case !errors.Is(err, errRefused):
		return nil, err
	case len(triples) == 1:
		fmt.Fprintf(h.w.Stderr, "left out, because %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		return nil, nil
	}
	half := len(triples) / 2
	left, err := h.acceptedTriples(ctx, triples[:half:half])
	if err != nil {
		return nil, err
	}
	right, err := h.acceptedTriples(ctx, triples[half:])
	return append(left, right...), err
}
