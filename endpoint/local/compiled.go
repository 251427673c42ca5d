package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// engineDigest is the SHA-256 digest of the engine file. What another release wants of its host may
// differ in ways that no one documents.
const engineDigest = "be0b89d82fa81b91c23426af04e301f1ff276dce1fded8ca2bd2a13c371cc327"

// A program is the compiled engine, and what all instances share: the code of the table helper and the
// host functions, which find their instance in the context.
type program struct {
	runtime       wazero.Runtime
	engine, table wazero.CompiledModule
}

// The program of this process. An instance of it starts in a millisecond.
var (
	compiling sync.Mutex
	compiled  *program // nil before the first engine
)

// compile checks and compiles the engine file, once in a process. The user's cache directory keeps the code: with it the
// next process starts in 0.1 s instead of about 3 s.
func compile(wasm []byte, log *slog.Logger) (_ *program, err error) {
	if digest := sha256.Sum256(wasm); hex.EncodeToString(digest[:]) != engineDigest {
		return nil, fmt.Errorf("%w (npm oxigraph 0.5.11, file node_bg.wasm; run \"make deps\")", ErrEngineVersion)
	}
	compiling.Lock()
	defer compiling.Unlock()
	if compiled != nil {
		return compiled, nil
	}
	ctx, cache := context.Background(), wazero.NewCompilationCache()
	dir, err := os.UserCacheDir()
	if err == nil {
		var kept wazero.CompilationCache
		if kept, err = wazero.NewCompilationCacheWithDir(filepath.Join(dir, "freshet", "compiled")); err == nil {
			cache = kept
		}
	}
	if err != nil {
		log.Warn("engine starts slowly, because its compiled code cannot be kept", "err", err)
	}
	p := &program{runtime: wazero.NewRuntimeWithConfig(ctx,
		wazero.NewRuntimeConfig().WithCloseOnContextDone(true).WithCompilationCache(cache))}
	if err = p.link(ctx, wasm); err != nil {
		return nil, errors.Join(err, p.runtime.Close(ctx))
	}
	compiled = p
	return p, nil
}

func (p *program) link(ctx context.Context, wasm []byte) (err error) {
	if p.engine, err = p.runtime.CompileModule(ctx, wasm); err != nil {
		return fmt.Errorf("compile the engine: %w", err)
	}
	if p.table, err = p.runtime.CompileModule(ctx, tableHelper()); err != nil {
		return fmt.Errorf("link the engine: %w", err)
	}
	host := p.runtime.NewHostModuleBuilder(importModule)
	for _, d := range p.engine.ImportedFunctions() {
		_, name, _ := d.Import()
		host.NewFunctionBuilder().WithGoFunction(dispatch(name), d.ParamTypes(), d.ResultTypes()).Export(name)
	}
	if _, err = host.Instantiate(ctx); err != nil {
		return fmt.Errorf("link the engine: %w", err)
	}
	return nil
}

// instanceKey is the context key of the *instance.
type instanceKey struct{}

// dispatch returns the host function with a name. Some imports have none: they serve the engine's JavaScript objects and
// promises, which are never requested, because results are always serialised and loads are synchronous.
func dispatch(name string) api.GoFunc {
	return func(ctx context.Context, stack []uint64) {
		f := ctx.Value(instanceKey{}).(*instance).host[name]
		if f == nil {
			panic(fmt.Errorf("the engine called %s, which is not supported", name))
		}
		f(ctx, stack)
	}
}
