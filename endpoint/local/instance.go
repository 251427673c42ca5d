package local

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// instance is one running copy of the engine with one store. It is not safe for
// concurrent use. After a call that returned errBroken only close may be
// called, because the engine stopped at an arbitrary point.
type instance struct {
	module api.Module
	table  api.Module
	memory linearMemory // of module
	host   map[string]hostFunction
	store  uint64 // address of the store in the engine's memory
	glue   glue
	broken bool

	functions map[string]api.Function // a Function has a stack of its own
}

// healthy reports whether the instance can serve another call.
func (i *instance) healthy() bool { return !i.broken && !i.module.IsClosed() }

// errBroken reports that the instance must be discarded.
var errBroken = errors.New("the engine stopped")

func newInstance(ctx context.Context, p *program) (_ *instance, err error) {
	i := &instance{functions: map[string]api.Function{}, glue: newGlue()}
	i.host = i.hostFunctions()
	defer func() {
		if err != nil {
			i.close()
		}
	}()
	if err := i.start(ctx, p); err != nil {
		return nil, err
	}
	results, err := i.call(ctx, "store_new", refUndefined)
	if err != nil {
		return nil, fmt.Errorf("start the engine: %w", err)
	}
	if uint32(results[2]) != 0 {
		return nil, fmt.Errorf("start the engine: %w", i.exceptionError(ctx, results[1]))
	}
	i.store = results[0]
	return i, nil
}

// start instantiates the engine's module and the table helper's. Neither has a
// name in the runtime, which they share with other instances.
func (i *instance) start(ctx context.Context, p *program) (err error) {
	config := wazero.NewModuleConfig().WithStartFunctions().WithName("")
	if i.module, err = p.runtime.InstantiateModule(i.memory.reserveMemory(context.WithValue(ctx, instanceKey{}, i)),
		p.engine, config); err != nil {
		return fmt.Errorf("start the engine: %w", err)
	}
	own := experimental.WithImportResolver(ctx, func(name string) api.Module {
		if name == engineName {
			return i.module
		}
		return nil
	})
	if i.table, err = p.runtime.InstantiateModule(own, p.table, config); err != nil {
		return fmt.Errorf("start the engine: %w", err)
	}
	_, err = i.call(ctx, "__wbindgen_start")
	return err
}

// close frees the memory.
func (i *instance) close() {
	for _, m := range []api.Module{i.table, i.module} {
		if m != nil {
			_ = m.Close(context.Background())
		}
	}
	i.memory.release()
}

// call runs an exported function. Its error is always errBroken: the engine
// reports its own errors in the results.
func (i *instance) call(ctx context.Context, name string, params ...uint64) ([]uint64, error) {
	return i.run(ctx, i.module, name, params...)
}

// tableCall runs a function of the table helper.
func (i *instance) tableCall(ctx context.Context, name string, params ...uint64) ([]uint64, error) {
	return i.run(ctx, i.table, name, params...)
}

func (i *instance) run(ctx context.Context, m api.Module, name string, params ...uint64) ([]uint64, error) {
	f := i.functions[name]
	if f == nil {
		if f = m.ExportedFunction(name); f == nil {
			i.broken = true
			return nil, fmt.Errorf("%w: %w: no function %s", errBroken, ErrEngineVersion, name)
		}
		i.functions[name] = f
	}
	results, err := f.Call(context.WithValue(ctx, instanceKey{}, i), params...)
	if err != nil {
		i.broken = true
		return nil, fmt.Errorf("%w in %s: %w", errBroken, name, err)
	}
	return results, nil
}

// sweep ends a call: it discards the values that calls referred to, except
// those that the engine keeps in its table, such as names that it looks up
// again. A search of the table costs as much as a small query, so a few values
// may accumulate first; large ones have been discarded already.
func (i *instance) sweep() {
	if len(i.glue.values) < sweepAt || !i.healthy() {
		return
	}
	ctx := context.Background()
	size, err := i.tableCall(ctx, "size")
	if err != nil {
		return
	}
	refs := map[uint64]bool{}
	for index := range uint64(uint32(size[0])) {
		ref, err := i.tableCall(ctx, "get", index)
		if err != nil {
			return
		}
		refs[ref[0]] = true
	}
	i.glue.keep(refs)
}

// mustCall is call for host functions: wazero turns the panic into an error of
// the outer call.
func (i *instance) mustCall(ctx context.Context, name string, params ...uint64) []uint64 {
	results, err := i.call(ctx, name, params...)
	if err != nil {
		panic(err)
	}
	return results
}

// takeReference removes a value from the engine's table of references and
// returns it.
func (i *instance) takeReference(ctx context.Context, index uint64) (any, error) {
	results, err := i.tableCall(ctx, "get", index)
	if err != nil {
		return nil, err
	}
	value := i.glue.forget(results[0])
	if _, err := i.call(ctx, "__externref_table_dealloc", index); err != nil {
		return nil, err
	}
	return value, nil
}

// exceptionError turns a JavaScript exception into an error.
func (i *instance) exceptionError(ctx context.Context, index uint64) error {
	value, err := i.takeReference(context.WithoutCancel(ctx), index)
	if err != nil {
		return err
	}
	if e, ok := value.(*jsError); ok {
		return callError(e.message)
	}
	return callError(fmt.Sprint(value))
}

// copyIn copies text into the engine's memory; the callee owns it.
func (i *instance) copyIn(ctx context.Context, text string) (address, length uint64, err error) {
	results, err := i.call(ctx, "__wbindgen_malloc", uint64(len(text)), 1)
	if err != nil {
		return 0, 0, err
	}
	if !i.module.Memory().WriteString(uint32(results[0]), text) {
		i.broken = true
		return 0, 0, fmt.Errorf("%w: text does not fit into memory", errBroken)
	}
	return results[0], uint64(len(text)), nil
}

// query runs a read query and returns the serialised result.
func (i *instance) query(ctx context.Context, text string, options jsObject) ([]byte, error) {
	defer i.sweep()
	address, length, err := i.copyIn(ctx, text)
	if err != nil {
		return nil, err
	}
	results, err := i.call(ctx, "store_query", i.store, address, length, i.glue.ref(options))
	if err != nil {
		return nil, err
	}
	if uint32(results[2]) != 0 {
		return nil, i.exceptionError(ctx, results[1])
	}
	value, err := i.takeReference(context.WithoutCancel(ctx), results[0])
	if err != nil {
		return nil, err
	}
	serialised, ok := value.(string)
	if !ok {
		i.broken = true
		return nil, fmt.Errorf("%w: result is not text", errBroken)
	}
	return []byte(serialised), nil
}

// update runs an update; the engine does all of it or nothing.
func (i *instance) update(ctx context.Context, text string) error {
	defer i.sweep()
	address, length, err := i.copyIn(ctx, text)
	if err != nil {
		return err
	}
	results, err := i.call(ctx, "store_update", i.store, address, length, refUndefined)
	if err != nil {
		return err
	}
	if uint32(results[1]) != 0 {
		return i.exceptionError(ctx, results[0])
	}
	return nil
}

// load passes a document to the engine in chunks of one call, so that blank
// nodes keep their identity across chunks. After an error a part is loaded.
func (i *instance) load(ctx context.Context, r io.Reader, format string) error {
	defer i.sweep()
	source := &jsChunks{reader: r, buffer: make([]byte, chunkSize)}
	defer source.forget()
	options := jsObject{"format": format, "no_transaction": true}
	results, err := i.call(ctx, "store_load", i.store, i.glue.ref(source), i.glue.ref(options), refUndefined, refUndefined)
	if err != nil {
		return err
	}
	if uint32(results[1]) != 0 {
		err = i.exceptionError(ctx, results[0])
	}
	if source.err != nil {
		return fmt.Errorf("read: %w", source.err)
	}
	return err
}

// dump calls visit with the whole dataset as N-Quads; the bytes are only valid
// inside visit.
func (i *instance) dump(ctx context.Context, visit func([]byte) error) error {
	defer i.sweep()
	options := jsObject{"format": "nq"}
	results, err := i.call(ctx, "store_dump", i.store, i.glue.ref(options), refUndefined)
	if err != nil {
		return err
	}
	if uint32(results[3]) != 0 {
		return i.exceptionError(ctx, results[2])
	}
	view, ok := i.module.Memory().Read(uint32(results[0]), uint32(results[1]))
	if !ok {
		i.broken = true
		return fmt.Errorf("%w: dump outside memory", errBroken)
	}
	err = visit(view)
	if _, free := i.call(ctx, "__wbindgen_free", results[0], results[1], 1); free != nil {
		return free
	}
	return err
}

// size counts the quads.
func (i *instance) size(ctx context.Context) (int, error) {
	results, err := i.call(ctx, "store_size", i.store)
	if err != nil {
		return 0, err
	}
	if uint32(results[2]) != 0 {
		return 0, i.exceptionError(ctx, results[1])
	}
	return int(uint32(results[0])), nil
}
