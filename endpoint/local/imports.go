package local

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"time"

	"github.com/tetratelabs/wazero/api"
)

// importModule is the module name of the engine's host functions.
const importModule = "./node_bg.js"

// hostFunction reads its arguments from the stack and puts its result there.
type hostFunction = func(context.Context, []uint64)

// hostFunctions returns implementations of the imports by full name. The hashes in the names belong to the
// engine's release.
func (i *instance) hostFunctions() map[string]hostFunction {
	all := i.values()
	maps.Copy(all, i.objects())
	maps.Copy(all, i.surroundings())
	return all
}

// values are the tests and conversions of JavaScript values.
func (i *instance) values() map[string]hostFunction {
	is := func(test func(any) bool) hostFunction {
		return func(_ context.Context, s []uint64) { s[0] = flag(test(i.glue.value(s[0]))) }
	}
	return map[string]hostFunction{
		"__wbg___wbindgen_is_falsy_863e44ed68df4b26":     is(falsy),
		"__wbg___wbindgen_is_function_acc5528be2b923f2":  is(func(v any) bool { _, ok := v.(jsMethod); return ok }),
		"__wbg___wbindgen_is_null_6d937fbfb6478470":      is(func(v any) bool { return v == nil }),
		"__wbg___wbindgen_is_undefined_721f8decd50c87a3": is(func(v any) bool { return v == jsUndefined{} }),
		"__wbg___wbindgen_is_string_1fca8072260dd261":    is(func(v any) bool { _, ok := v.(string); return ok }),
		"__wbg___wbindgen_is_object_0beba4a1980d3eea":    is(isObject),
		"__wbg_instanceof_Uint8Array_f080092dc70f5d58":   is(func(v any) bool { _, ok := v.(*jsBytes); return ok }),
		"__wbg___wbindgen_string_get_71bb4348194e31f0": func(ctx context.Context, s []uint64) {
			if text, ok := i.glue.value(s[1]).(string); ok {
				i.returnText(ctx, s[0], text)
				return
			}
			i.module.Memory().WriteUint64Le(uint32(s[0]), 0)
		},
		"__wbg___wbindgen_debug_string_8a447059637473e2": func(ctx context.Context, s []uint64) {
			i.returnText(ctx, s[0], fmt.Sprint(i.glue.value(s[1])))
		},
		"__wbindgen_cast_0000000000000003": func(_ context.Context, s []uint64) {
			s[0] = i.glue.ref(i.text(s[0], s[1]))
		},
		"__wbg_length_589238bdcf171f0e": func(_ context.Context, s []uint64) {
			b, _ := i.glue.value(s[0]).(*jsBytes)
			s[0] = uint64(len(b.data))
		},
		"__wbg_prototypesetcall_d721637c7ca66eb8": func(_ context.Context, s []uint64) {
			b, _ := i.glue.value(s[2]).(*jsBytes)
			i.module.Memory().Write(uint32(s[0]), b.data[:min(uint64(uint32(s[1])), uint64(len(b.data)))])
		},
	}
}

// objects are the accesses to objects, arrays and iterators.
func (i *instance) objects() map[string]hostFunction {
	get := func(_ context.Context, s []uint64) {
		s[0] = i.glue.ref(property(i.glue.value(s[0]), i.glue.value(s[1])))
	}
	next := func(_ context.Context, s []uint64) {
		iterator, ok := i.glue.value(s[0]).(jsIterator)
		if !ok {
			panic(fmt.Errorf("next of %T", i.glue.value(s[0])))
		}
		value, more := iterator.next()
		s[0] = i.glue.ref(jsStep{value: value, done: !more})
	}
	failure := func(_ context.Context, s []uint64) { s[0] = i.glue.ref(&jsError{i.text(s[0], s[1])}) }
	return map[string]hostFunction{
		"__wbg_get_9a29be2cb383ed9a": get,
		"__wbg_get_dddb90ff5d27a080": get,
		"__wbg_has_4f060fe202ad7e87": func(_ context.Context, s []uint64) {
			s[0] = flag(property(i.glue.value(s[0]), i.glue.value(s[1])) != any(jsUndefined{}))
		},
		// Symbols are only passed back to get.
		"__wbg_iterator_cc47ba25a2be735a":      func(_ context.Context, s []uint64) { s[0] = i.glue.ref(jsSymbol("iterator")) },
		"__wbg_asyncIterator_523a9858481ea9a3": func(_ context.Context, s []uint64) { s[0] = i.glue.ref(jsSymbol("asyncIterator")) },
		"__wbg_call_8e98ed2f3c86c4b5": func(_ context.Context, s []uint64) {
			method, ok := i.glue.value(s[0]).(jsMethod)
			if !ok {
				panic(fmt.Errorf("call of %T", i.glue.value(s[0])))
			}
			s[0] = i.glue.ref(method())
		},
		"__wbg_next_402fa10b59ab20c3": func(_ context.Context, s []uint64) {
			s[0] = i.glue.ref(property(i.glue.value(s[0]), "next"))
		},
		"__wbg_next_0c4066e251d2eff9": next,
		"__wbg_next_e8d68f27c98c4764": next,
		"__wbg_done_b62d4a7d2286852a": func(_ context.Context, s []uint64) {
			step, _ := i.glue.value(s[0]).(jsStep)
			s[0] = flag(step.done)
		},
		"__wbg_value_49f783bb59765962": func(_ context.Context, s []uint64) {
			step, _ := i.glue.value(s[0]).(jsStep)
			s[0] = i.glue.ref(step.value)
		},
		"__wbg_Error_fdd633d4bb5dd76a": failure,
		"__wbg_new_aafdf86a292b3ca7":   failure,
		"__wbg_new_e66a4b7758dd2e5c":   failure,
	}
}

// surroundings are the clock, randomness, the global object and exceptions.
func (i *instance) surroundings() map[string]hostFunction {
	absent := func(_ context.Context, s []uint64) { s[0] = 0 }
	return map[string]hostFunction{
		"__wbg_now_d2e0afbad4edbe82": func(_ context.Context, s []uint64) {
			s[0] = api.EncodeF64(float64(time.Now().UnixMilli()))
		},
		"__wbg_getRandomValues_3f44b700395062e5": func(_ context.Context, s []uint64) {
			if b, ok := i.module.Memory().Read(uint32(s[0]), uint32(s[1])); ok {
				_, _ = rand.Read(b) // never fails
			}
		},
		"__wbg_static_accessor_GLOBAL_THIS_2fee5048bcca5938": func(ctx context.Context, s []uint64) {
			index := i.mustCall(ctx, "__externref_table_alloc")[0]
			i.tableSet(ctx, index, refGlobal)
			s[0] = index
		},
		"__wbg_static_accessor_GLOBAL_ce44e66a4935da8c": absent,
		"__wbg_static_accessor_SELF_44f6e0cb5e67cdad":   absent,
		"__wbg_static_accessor_WINDOW_168f178805d978fe": absent,
		"__wbg_error_a6fa202b58aa1cd3": func(ctx context.Context, s []uint64) {
			// The engine reports a panic here just before it traps.
			i.glue.panicMessage = i.text(s[0], s[1])
			i.mustCall(ctx, "__wbindgen_free", s[0], s[1], 1)
		},
		"__wbg_warn_51d35a4c740f6509": func(context.Context, []uint64) {},
		"__wbg_stack_3b0d974bbf31e44f": func(ctx context.Context, s []uint64) {
			i.returnText(ctx, s[0], "")
		},
		"__wbg___wbindgen_throw_ea4887a5f8f9a9db": func(_ context.Context, s []uint64) {
			panic(fmt.Errorf("the engine threw: %s", i.text(s[0], s[1])))
		},
		"__wbindgen_init_externref_table": func(ctx context.Context, s []uint64) {
			results, err := i.tableCall(ctx, "grow", refUndefined, 4)
			if err != nil {
				panic(err)
			}
			i.tableSet(ctx, 0, refUndefined)
			for n, ref := range []uint64{refUndefined, refNull, refTrue, refFalse} {
				i.tableSet(ctx, results[0]+uint64(n), ref)
			}
		},
	}
}

func (i *instance) tableSet(ctx context.Context, index, ref uint64) {
	if _, err := i.tableCall(ctx, "set", index, ref); err != nil {
		panic(err)
	}
}

// text copies a string out of the engine's memory.
func (i *instance) text(address, length uint64) string {
	b, _ := i.module.Memory().Read(uint32(address), uint32(length))
	return string(b)
}

// returnText passes a string to the engine by writing its address and length at
// ret.
func (i *instance) returnText(ctx context.Context, ret uint64, text string) {
	address, length, err := i.copyIn(ctx, text)
	if err != nil {
		panic(err)
	}
	i.module.Memory().WriteUint64Le(uint32(ret), address&0xffffffff|length<<32)
}
