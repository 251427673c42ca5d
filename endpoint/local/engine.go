// Package local runs an embedded SPARQL engine, Oxigraph compiled to
// WebAssembly, as a real SPARQL 1.1 endpoint in this process: for demos, for
// tests, and for small datasets. It also reads and applies changesets in the
// layout of DBpedia Live.
//
// The engine file is not part of the module: `make deps` fetches the pinned release, `make
// build` puts it into the programs, and FindEngine finds it. Data is kept in memory only.
//
// On 64-bit Linux and macOS the memory of an engine is reserved address space that grows
// in place, unless the address space of the process is limited. BenchmarkLoadMemory
// measures how much an engine with the data of the demo requests, and how much is resident.
package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options of Open.
type Options struct {
	Path   string       // engine file; "" = FindEngine("")
	Logger *slog.Logger // nil = silent
}

// Engine is a SPARQL engine with one dataset in memory. It is safe for
// concurrent use but runs one call at a time. Other calls wait as long as their
// contexts allow.
type Engine struct {
	program *program
	log     *slog.Logger

	exclusive chan struct{} // holds one token; its holder may use the following fields
	current   *instance     // nil after a stop, until the rebuild
	journal   journal
	closed    bool

	rebuilding sync.WaitGroup
	version    atomic.Pointer[string]
}

// Open starts an engine with an empty dataset. The error wraps ErrNoEngine or
// ErrEngineVersion when the file is absent or of another release.
func Open(ctx context.Context, o Options) (*Engine, error) {
	path, err := o.Path, error(nil)
	if path == "" {
		if path, err = FindEngine(""); err != nil {
			return nil, err
		}
	}
	wasm, err := readEngine(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoEngine, err)
	} else if err != nil {
		return nil, fmt.Errorf("read the engine: %w", err)
	}
	e := &Engine{log: o.Logger, exclusive: make(chan struct{}, 1)}
	e.newVersion()
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	started := time.Now()
	if e.program, err = compile(wasm, e.log); err == nil {
		e.current, err = newInstance(ctx, e.program)
	}
	if err != nil {
		return nil, fmt.Errorf("open the engine %s: %w", path, err)
	}
	e.log.Debug("engine started", "path", path, "took", time.Since(started))
	e.exclusive <- struct{}{}
	return e, nil
}

// Close waits for the running call and frees all memory. Later calls return
// ErrClosed.
func (e *Engine) Close() error {
	<-e.exclusive
	if e.closed {
		e.exclusive <- struct{}{}
		return nil
	}
	e.closed = true
	if e.current != nil {
		e.current.close()
		e.current = nil
	}
	e.journal = journal{}
	e.exclusive <- struct{}{}
	e.rebuilding.Wait()
	return nil
}

// do calls f with exclusive access to the instance. If f breaks the instance,
// because its context ended or the engine crashed, another one is built from
// the journal in the background while the caller continues.
func (e *Engine) do(ctx context.Context, f func(*instance) error) error {
	if ctx.Err() != nil {
		return cut(ctx)
	}
	select {
	case <-e.exclusive:
	case <-ctx.Done():
		return cut(ctx)
	}
	if e.closed {
		e.exclusive <- struct{}{}
		return ErrClosed
	}
	if e.current == nil { // the last rebuild failed
		if err := e.rebuild(); err != nil {
			e.exclusive <- struct{}{}
			return err
		}
	}
	err := f(e.current)
	if e.current == nil || e.current.healthy() {
		e.exclusive <- struct{}{}
		return err
	}
	lastWords := e.current.glue.panicMessage
	e.rebuilding.Go(func() {
		defer func() { e.exclusive <- struct{}{} }()
		if started := time.Now(); e.rebuild() == nil { // an error is logged there; the next call tries again
			e.log.Info("engine rebuilt after a stop", "took", time.Since(started))
		}
	})
	switch {
	case !errors.Is(err, errBroken):
		return err
	case ctx.Err() != nil:
		return cut(ctx)
	case lastWords != "":
		return &CallError{Kind: ErrEval, Message: "the engine crashed: " + lastWords}
	}
	return &CallError{Kind: ErrEval, Message: err.Error()}
}

// rebuild replaces the instance by a new one with the journal's dataset. The
// caller has exclusive access.
func (e *Engine) rebuild() error {
	if e.current != nil {
		e.current.close()
		e.current = nil
	}
	ctx := context.Background()
	i, err := newInstance(ctx, e.program)
	if err == nil {
		if err = e.journal.replay(ctx, i); err != nil {
			i.close()
		}
	}
	if err != nil {
		e.log.Error("engine not rebuilt", "err", err)
		return fmt.Errorf("rebuild the engine: %w", err)
	}
	e.current = i
	e.newVersion()
	return nil
}

// Version identifies the state of the dataset: equal versions mean the same
// data with the same blank node labels. It changes with every accepted update
// or load and with every rebuild.
func (e *Engine) Version() string { return *e.version.Load() }

// newVersion starts a new version.
func (e *Engine) newVersion() { e.version.Store(new(rand.Text())) }

// Load adds a document in a format such as "nt", "nq", "ttl" or "rdf", or its
// media type, to the dataset; triples go to the default graph. On any error
// nothing is loaded. Blank nodes become new nodes.
func (e *Engine) Load(ctx context.Context, r io.Reader, format string) error {
	return e.do(ctx, func(i *instance) error {
		var kept bytes.Buffer
		w, err := e.journal.compressor(&kept)
		if err != nil {
			return err
		}
		err = i.load(ctx, io.TeeReader(r, w), format)
		if closing := w.Close(); err == nil {
			err = closing
		}
		if err != nil {
			return e.undo(err)
		}
		e.journal.addDocument(kept.Bytes(), format)
		e.newVersion()
		return nil
	})
}

// undo reverts a load that failed half way.
func (e *Engine) undo(err error) error {
	if errors.Is(err, errBroken) {
		return err // rebuilt anyway
	}
	if failed := e.rebuild(); failed != nil {
		return errors.Join(err, failed)
	}
	return err
}

// Query runs a read query and returns the serialised result. Formats for SELECT
// and ASK are "json", "xml", "csv" and "tsv", for CONSTRUCT and DESCRIBE "nt",
// "ttl" and "rdf"; media types work too. If either list of graph IRIs is not
// empty, the two form the query's dataset as in the SPARQL 1.1 Protocol.
func (e *Engine) Query(ctx context.Context, text, format string, defaultGraphs, namedGraphs []string) ([]byte, error) {
	result, _, err := e.query(ctx, text, format, defaultGraphs, namedGraphs)
	return result, err
}

// query is Query with the version of the dataset that the result belongs to.
func (e *Engine) query(ctx context.Context, text, format string, defaultGraphs, namedGraphs []string) (result []byte,
	version string, err error) {
	options := jsObject{"results_format": format}
	if len(defaultGraphs)+len(namedGraphs) > 0 {
		options["default_graph"] = graphs(defaultGraphs)
		options["named_graphs"] = graphs(namedGraphs)
	}
	err = e.do(ctx, func(i *instance) error {
		version = e.Version()
		result, err = i.query(ctx, text, options)
		if format == "xml" || format == "rdf" || strings.HasSuffix(format, "xml") {
			result = xmlText(result)
		}
		return err
	})
	return result, version, err
}

func graphs(iris []string) jsArray {
	list := make(jsArray, len(iris))
	for n, iri := range iris {
		list[n] = jsObject{"termType": "NamedNode", "value": iri}
	}
	return list
}

// Update runs a SPARQL update completely or not at all. Once it returns nil,
// the update survives any later stop of an instance.
func (e *Engine) Update(ctx context.Context, text string) error {
	return e.update(ctx, text, repeatable(text))
}

// update is Update for a text that is known to be repeatable or not.
func (e *Engine) update(ctx context.Context, text string, again bool) error {
	return e.do(ctx, func(i *instance) error {
		if err := i.update(ctx, text); err != nil {
			return err
		}
		if !again {
			// The update is done, so its context must not end the copying.
			if err := e.journal.snapshot(context.WithoutCancel(ctx), i); err != nil {
				i.broken = true // back to the state before, which the journal still has
				return err
			}
			e.newVersion()
			return nil
		}
		e.journal.addUpdate(text)
		e.newVersion()
		if e.journal.full() {
			if err := e.journal.snapshot(context.WithoutCancel(ctx), i); err != nil {
				e.log.Warn("journal not shortened", "err", err) // nothing is lost: the journal keeps it as text
			}
		}
		return nil
	})
}

// Size is the number of quads in the dataset.
func (e *Engine) Size(ctx context.Context) (n int, err error) {
	err = e.do(ctx, func(i *instance) error {
		n, err = i.size(ctx)
		return err
	})
	return n, err
}
