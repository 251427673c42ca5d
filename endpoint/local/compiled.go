package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// Cache holds the compiled engine. Engines of one process that share a Cache
// read, check and compile the engine once, and then start in a millisecond.
// With a directory the next process starts in 0.1 s instead of about 3 s.
type Cache struct {
	compiled wazero.CompilationCache

	mu      sync.Mutex
	runtime wazero.Runtime // nil before the first engine
	engine  wazero.CompiledModule
	table   wazero.CompiledModule
}

// NewCache returns a cache in dir, which is created if it does not exist; ""
// means the user's cache directory. If it is not writable, the error says why,
// and the returned Cache works in memory only.
func NewCache(dir string) (*Cache, error) {
	err := error(nil)
	if dir == "" {
		if dir, err = os.UserCacheDir(); err == nil {
			dir = filepath.Join(dir, "freshet", "compiled")
		}
	}
	if err == nil {
		var compiled wazero.CompilationCache
		if compiled, err = wazero.NewCompilationCacheWithDir(dir); err == nil {
			return &Cache{compiled: compiled}, nil
		}
	}
	return &Cache{compiled: wazero.NewCompilationCache()}, fmt.Errorf("compiled engine is not kept: %w", err)
}

// Close frees the compiled code. Close the engines that use it first.
func (c *Cache) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, err := context.Background(), error(nil)
	if c.runtime != nil {
		err = c.runtime.Close(ctx)
	}
	return errors.Join(err, c.compiled.Close(ctx))
}

// compile compiles the engine and what all instances share: the code of the table helper and the
// host functions, which find their instance in the context. All engines of a Cache are the same file.
func (c *Cache) compile(wasm []byte) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engine != nil {
		return nil
	}
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithCompilationCache(c.compiled))
	defer func() {
		if err != nil {
			err = errors.Join(err, runtime.Close(ctx))
		}
	}()
	engine, err := runtime.CompileModule(ctx, wasm)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrEngineVersion, err)
	}
	if err := checkImports(engine); err != nil {
		return err
	}
	table, err := runtime.CompileModule(ctx, tableHelper())
	if err != nil {
		return fmt.Errorf("link the engine: %w", err)
	}
	host := runtime.NewHostModuleBuilder(importModule)
	for _, d := range engine.ImportedFunctions() {
		_, name, _ := d.Import()
		host.NewFunctionBuilder().WithGoFunction(dispatch(name), d.ParamTypes(), d.ResultTypes()).Export(name)
	}
	if _, err := host.Instantiate(ctx); err != nil {
		return fmt.Errorf("link the engine: %w", err)
	}
	c.runtime, c.engine, c.table = runtime, engine, table
	return nil
}

// instanceKey is the context key of the *instance.
type instanceKey struct{}

func dispatch(name string) api.GoFunc {
	return func(ctx context.Context, stack []uint64) {
		ctx.Value(instanceKey{}).(*instance).host[name](ctx, stack)
	}
}
