package local

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// journal is an exact copy, outside the engine, of everything that the engine
// accepted, so that a stopped instance can be replaced without loss. It
// consists of a snapshot of the dataset and what was accepted afterwards, in
// order: documents, and the texts of updates that have the same effect when
// they are repeated (see repeatable). After any other update the engine is
// dumped at once, and the dump is the new snapshot. Blank nodes are preserved
// except for their labels, which have no meaning outside.
type journal struct {
	entries []entry
	weight  int // bytes in the entries after the snapshot
	limit   int // of weight; 0 = foldWeight

	encoder *zstd.Encoder // kept because a new one takes megabytes
}

// entry is either a document, zstd-compressed, or an update.
type entry struct {
	document []byte
	format   string
	update   string
}

// foldWeight is how many bytes of updates and documents may accumulate before
// the next dump. A rebuild repeats them, which is slower than loading a dump.
const foldWeight = 16 << 20

// full reports whether it is time for a new snapshot. The bound grows with the
// snapshot, so that dumping remains a small part of the work.
func (j *journal) full() bool {
	bound := cmp.Or(j.limit, foldWeight)
	if len(j.entries) > 0 {
		bound = max(bound, 4*len(j.entries[0].document))
	}
	return j.weight > bound
}

func (j *journal) addUpdate(text string) {
	j.entries = append(j.entries, entry{update: text})
	j.weight += len(text)
}

func (j *journal) addDocument(document []byte, format string) {
	j.entries = append(j.entries, entry{document: document, format: format})
	j.weight += len(document)
}

// snapshot replaces everything by a dump of the instance.
func (j *journal) snapshot(ctx context.Context, i *instance) error {
	var document []byte
	err := i.dump(ctx, func(quads []byte) error {
		var err error
		document, err = j.compress(quads)
		return err
	})
	if err != nil {
		return fmt.Errorf("copy the dataset: %w", err)
	}
	names, err := emptyGraphs(ctx, i)
	if err != nil {
		return fmt.Errorf("copy the dataset: %w", err)
	}
	*j = journal{entries: []entry{{document: document, format: "nq"}}, limit: j.limit, encoder: j.encoder}
	for _, name := range names {
		j.addUpdate("CREATE SILENT GRAPH <" + name + ">")
	}
	return nil
}

// emptyGraphs lists the IRIs of named graphs without triples, which N-Quads
// cannot represent.
func emptyGraphs(ctx context.Context, i *instance) ([]string, error) {
	const question = "SELECT ?g { GRAPH ?g {} FILTER (isIRI(?g)) FILTER NOT EXISTS { GRAPH ?g { ?s ?p ?o } } }"
	answer, err := i.query(ctx, question, jsObject{"results_format": "json"})
	if err != nil {
		return nil, err
	}
	var parsed struct {
		Results struct {
			Bindings []map[string]struct{ Value string }
		}
	}
	if err := json.Unmarshal(answer, &parsed); err != nil {
		return nil, err
	}
	var names []string
	for _, row := range parsed.Results.Bindings {
		names = append(names, row["g"].Value)
	}
	return names, nil
}

// replay brings a new instance to the journal's state.
func (j *journal) replay(ctx context.Context, i *instance) error {
	for _, e := range j.entries {
		if e.format == "" {
			if err := i.update(ctx, e.update); err != nil {
				return fmt.Errorf("repeat an update: %w", err)
			}
			continue
		}
		r, err := zstd.NewReader(bytes.NewReader(e.document), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return fmt.Errorf("reload: %w", err)
		}
		err = i.load(ctx, r, e.format)
		r.Close()
		if err != nil {
			return fmt.Errorf("reload: %w", err)
		}
	}
	return nil
}

func (j *journal) compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := j.compressor(&out)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// compressor returns a writer of a new document to w. Only one may be open at a
// time.
func (j *journal) compressor(w io.Writer) (_ io.WriteCloser, err error) {
	if j.encoder == nil {
		j.encoder, err = zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		return j.encoder, err
	}
	j.encoder.Reset(w)
	return j.encoder, nil
}
