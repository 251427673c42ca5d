package local

// engineName is the name under which the table helper imports the table of its
// engine.
const engineName = "engine"

// tableHelper is a WebAssembly module of four functions, assembled by hand,
// because wazero has no API for tables of external references:
//
//	(module (import "engine" "__wbindgen_externrefs" (table 0 externref))
//	  (func (export "get") (param i32) (result externref))
//	  (func (export "set") (param i32 externref))
//	  (func (export "grow") (param externref i32) (result i32))
//	  (func (export "size") (result i32)))
func tableHelper() []byte {
	const (
		i32, externref     = 0x7f, 0x6f
		typeSec, importSec = 1, 2
		funcSec, exportSec = 3, 7
		codeSec            = 10
		localGet, end      = 0x20, 0x0b
		tableGet, tableSet = 0x25, 0x26
		miscPrefix         = 0xfc
		miscGrow, miscSize = 15, 16
	)
	name := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	out := []byte{0, 'a', 's', 'm', 1, 0, 0, 0}
	section := func(id byte, body []byte) { out = append(append(out, id, byte(len(body))), body...) }

	section(typeSec, []byte{
		4,
		0x60, 1, i32, 1, externref,
		0x60, 2, i32, externref, 0,
		0x60, 2, externref, i32, 1, i32,
		0x60, 0, 1, i32,
	})
	imports := append([]byte{1}, name(engineName)...)
	imports = append(imports, name("__wbindgen_externrefs")...)
	section(importSec, append(imports, 1, externref, 0, 0))
	section(funcSec, []byte{4, 0, 1, 2, 3})
	exports := []byte{4}
	for i, n := range []string{"get", "set", "grow", "size"} {
		exports = append(append(exports, name(n)...), 0, byte(i))
	}
	section(exportSec, exports)
	code := []byte{4}
	for _, body := range [][]byte{
		{0, localGet, 0, tableGet, 0, end},
		{0, localGet, 0, localGet, 1, tableSet, 0, end},
		{0, localGet, 0, localGet, 1, miscPrefix, miscGrow, 0, end},
		{0, miscPrefix, miscSize, 0, end},
	} {
		code = append(append(code, byte(len(body))), body...)
	}
	section(codeSec, code)
	return out
}
