import { test } from 'node:test'
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { Freshet, Replica, Result, byBytes } from '../freshet.js'

const term = value => ({ type: 'literal', value })
const rows = (...values) => ({ head: { vars: ['s'] }, results: { bindings: values.map(v => ({ s: term(v) })) } })
const values = result => result.bindings().map(b => b.s.value)
const delta = (prev, seq, removed, added, more = {}) =>
  ({ type: 'delta', form: 'SELECT', epoch: 'e', prev, seq, added: rows(...added), removed: rows(...removed), ...more })

function replica (...values) {
  const r = new Replica()
  r.snapshot({ form: 'SELECT', epoch: 'e', seq: 3, results: rows(...values) })
  return r
}

test('rows are ordered by their UTF-8 bytes', () => {
  const strings = ['', 'a', 'b', 'ab', 'é', '\ud7ff', '\ue000', '\uffff', '\u{10000}', '\u{10ffff}', 'a\u{1d11e}', 'a\uffee']
  const want = [...strings].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))
  assert.deepEqual([...strings].reverse().sort(byBytes), want)
})

test('a delta that continues is applied to the bag row by row', () => {
  const r = replica('b', 'a', 'a', 'c')
  assert.equal(r.delta(delta(3, 4, ['a', 'c'], ['b', 'd'])), 'applied')
  assert.deepEqual(values(r.result), ['a', 'b', 'b', 'd'])
  assert.deepEqual(r.position, { epoch: 'e', seq: 4 })
})

test('a folded delta is applied', () => {
  const r = replica('a')
  assert.equal(r.delta(delta(3, 9, ['a'], ['z'])), 'applied')
  assert.deepEqual(r.position, { epoch: 'e', seq: 9 })
})

test('a known delta is dropped, and a gap asks to subscribe again', () => {
  const r = replica('a')
  assert.equal(r.delta(delta(2, 3, ['a'], ['z'])), 'dropped')
  assert.equal(r.delta(delta(1, 2, ['a'], ['z'])), 'dropped')
  assert.equal(r.delta(delta(4, 5, ['a'], ['z'])), 'again')
  assert.equal(r.delta(delta(2, 5, ['a'], ['z'])), 'again')
  assert.equal(r.delta(delta(3, 4, ['a'], ['z'], { epoch: 'f' })), 'again')
  assert.deepEqual(values(r.result), ['a'])
  assert.deepEqual(r.position, { epoch: 'e', seq: 3 })
})

test('a delta that does not fit discards the state', () => {
  const r = replica('a')
  assert.equal(r.delta(delta(3, 4, ['x'], [])), 'again')
  assert.equal(r.position, null)
  assert.equal(r.save(), null)
})

test('a baseline is applied to no result', () => {
  const r = new Replica()
  assert.equal(r.delta(delta(0, 1, [], ['a'], { baseline: true })), 'again')
  r.restart('e', 0)
  assert.equal(r.delta(delta(0, 1, [], ['b', 'a'], { baseline: true })), 'applied')
  assert.deepEqual(values(r.result), ['a', 'b'])
})

test('alive advances the position', () => {
  const r = replica('a')
  assert.equal(r.alive({ epoch: 'e', seq: 7 }), 'applied')
  assert.equal(r.delta(delta(7, 8, ['a'], [])), 'applied')
  assert.equal(r.result.length, 0)
})

test('ordered results are spliced', () => {
  const old = Result.from('SELECT', true, rows('a', 'b', 'c', 'b'))
  const next = old.apply({ ...delta(0, 0, ['a', 'c'], ['c', 'x']), removed_at: [0, 2], added_at: [0, 3] })
  assert.deepEqual(values(next), ['c', 'b', 'b', 'x'])
  assert.throws(() => old.apply({ ...delta(0, 0, ['b'], []), removed_at: [0], added_at: [] }))
  assert.throws(() => old.apply({ ...delta(0, 0, [], ['b']), removed_at: [], added_at: [9] }))
})

test('ASK and graphs', () => {
  const r = new Replica()
  r.restart('e', 0)
  assert.equal(r.delta({ form: 'ASK', epoch: 'e', prev: 0, seq: 1, baseline: true, boolean: true, previous: null }), 'applied')
  assert.equal(r.result.document(), '{"head":{},"boolean":true}')
  const g = Result.from('CONSTRUCT', false, { triples: ['<b> <p> "1" .', '<a> <p> "1" .'] })
  const next = g.apply({ form: 'CONSTRUCT', added: { triples: ['<c> <p> "1" .'] }, removed: { triples: ['<b> <p> "1" .'] } })
  assert.equal(next.document(), '<a> <p> "1" .\n<c> <p> "1" .\n')
})

test('the parts of a snapshot are joined', () => {
  const r = new Replica()
  assert.equal(r.snapshot({ form: 'SELECT', epoch: 'e', seq: 3, part: 1, results: rows('b') }), false)
  assert.equal(r.position, null)
  assert.equal(r.snapshot({ form: 'SELECT', epoch: 'e', seq: 3, part: 2, last: true, results: rows('a') }), true)
  assert.deepEqual(values(r.result), ['a', 'b'])
})

test('an interrupted snapshot is discarded', () => {
  const r = replica('x')
  const part = (n, last, value) => ({ form: 'SELECT', epoch: 'e', seq: 9, part: n, last, results: rows(value) })
  assert.equal(r.snapshot(part(1, undefined, 'a')), false)
  // The connection broke. After resuming, the same snapshot is sent again.
  assert.deepEqual(r.position, { epoch: 'e', seq: 3 })
  assert.equal(r.snapshot(part(1, undefined, 'a')), false)
  assert.equal(r.snapshot(part(2, true, 'b')), true)
  assert.deepEqual(values(r.result), ['a', 'b'])
  r.snapshot(part(1, undefined, 'a'))
  assert.equal(r.snapshot({ form: 'SELECT', epoch: 'e', seq: 10, results: rows('c') }), true)
  assert.deepEqual(values(r.result), ['c'])
})

test('a saved state can be resumed', () => {
  const r = new Replica(JSON.parse(JSON.stringify(replica('a', 'ü\u2028"').save())))
  assert.equal(r.delta(delta(3, 4, ['a'], ['b'])), 'applied')
  assert.deepEqual(values(r.result), ['b', 'ü\u2028"'])
})

test('variables that look like numbers keep their order', () => {
  const doc = '{"head":{"vars":["b","1"]},"results":{"bindings":[{"b":{"type":"literal","value":"x"},"1":{"type":"literal","value":"y"}}]}}'
  assert.equal(Result.parse('SELECT', false, doc).document(), doc)
})

// With FRESHET_URL and FRESHET_QUERY, the replica must have the published hash.
test('a live server', { skip: process.env.FRESHET_URL && process.env.FRESHET_QUERY ? false : 'FRESHET_URL and FRESHET_QUERY are not set' }, async () => {
  const WebSocket = globalThis.WebSocket ?? (await import('ws')).WebSocket
  const freshet = new Freshet(process.env.FRESHET_URL, { WebSocket, token: process.env.FRESHET_TOKEN })
  const hash = await new Promise((resolve, reject) => {
    const sub = freshet.follow(process.env.FRESHET_QUERY, m => {
      if (m.type === 'error') reject(new Error(m.message))
      if (m.type === 'snapshot') resolve([m.hash, 'sha256:' + createHash('sha256').update(sub.result.document()).digest('hex')])
    })
  }).finally(() => freshet.close())
  assert.equal(hash[1], hash[0])
})

/** A server for one client, as a class for options.WebSocket. answer(message, socket) gets what the client sends. */
function fakeServer (answer) {
  return class {
    constructor () {
      this.readyState = 1
      setTimeout(() => this.onopen())
    }

    send (text) {
      const m = JSON.parse(text)
      setTimeout(() => m.type === 'init' ? this.say({ type: 'ready' }) : answer(m, this))
    }

    say (m) { this.onmessage({ data: JSON.stringify(m) }) }
    close () {}
  }
}

const wait = ms => new Promise(resolve => setTimeout(resolve, ms))

/** Waits until something is so. */
async function until (so) {
  for (const end = Date.now() + 30000; !so(); await wait(5)) assert.ok(Date.now() < end, 'it does not come')
}

test('a refused subscription is not asked for twice after the connection broke', async () => {
  const asked = []
  const freshet = new Freshet('http://127.0.0.1:1', {
    minBackoff: 200,
    WebSocket: fakeServer((m, socket) => {
      asked.push(m.id)
      if (asked.length > 1) return socket.say({ type: 'subscribed', id: m.id, epoch: 'e', seq: 0 })
      socket.say({ type: 'error', id: m.id, code: 'unavailable', message: '' })
      freshet.pause = 1 // so it connects again before it asks again
      socket.onclose({ code: 1006 })
    })
  })
  freshet.follow('q')
  await wait(500)
  freshet.close()
  assert.deepEqual(asked, ['s1', 's2'])
})

test('a refused subscription is asked for again after growing pauses, of what the server asks for at least', async () => {
  for (const [more, most] of [[{}, 12], [{ retry_after: '150ms' }, 3]]) {
    let asked = 0
    const freshet = new Freshet('http://127.0.0.1:1', {
      minBackoff: 5,
      WebSocket: fakeServer((m, socket) => {
        asked++
        socket.say({ type: 'error', id: m.id, code: 'unavailable', message: '', ...more })
      })
    })
    freshet.follow('q')
    await wait(400)
    freshet.close()
    assert.ok(asked > 1 && asked <= most, `asked ${asked} times`)
  }
})

test('a saved state has no effect with another filter', async () => {
  const filter = { where: [{ var: 's', op: '>', value: '1' }] }
  const follow = async (from, filter) => {
    let asked
    const freshet = new Freshet('http://127.0.0.1:1', {
      WebSocket: fakeServer((m, socket) => {
        if (m.type !== 'subscribe') return
        asked = m.resume
        socket.say({ type: 'subscribed', id: m.id, epoch: 'e', seq: 3, resumed: !!m.resume })
        if (!m.resume) socket.say({ type: 'snapshot', id: m.id, epoch: 'e', seq: 3, form: 'SELECT', results: rows('a') })
      })
    })
    let done = false
    const sub = freshet.follow('q', m => { done ||= m.type === 'snapshot' || m.resumed }, { from, filter })
    await until(() => done)
    freshet.close()
    return [JSON.parse(JSON.stringify(sub.save())), asked]
  }
  const [saved] = await follow(null, filter)
  assert.deepEqual(saved.filter, filter)
  assert.deepEqual((await follow(saved, filter))[1], { epoch: 'e', seq: 3 })
  for (const other of [undefined, { ...filter, min_rows: 2 }]) assert.equal((await follow(saved, other))[1], undefined)
  const [plain] = await follow(null)
  assert.deepEqual((await follow(plain))[1], { epoch: 'e', seq: 3 })
  assert.equal((await follow(plain, filter))[1], undefined)
})

test('a query that was stale is live after a reconnection', async () => {
  let n = 0
  const states = []
  const freshet = new Freshet('http://127.0.0.1:1', {
    minBackoff: 1,
    WebSocket: fakeServer((m, socket) => {
      if (m.type !== 'subscribe') return
      socket.say({ type: 'subscribed', id: m.id, epoch: 'e', seq: 0, resumed: n > 0 })
      if (++n > 2) return
      socket.say({ type: 'status', id: m.id, state: 'stale' })
      socket.onclose({ code: 1006 })
    })
  })
  freshet.follow('q', m => states.push(m.state ?? m.type))
  await until(() => states.length > 6)
  freshet.close()
  assert.deepEqual(states, ['subscribed', 'stale', 'subscribed', 'live', 'stale', 'subscribed', 'live'])
})

test('a connection that is lost while nothing is followed comes back with the next subscription', async () => {
  const asked = []
  let troubles = 0
  const freshet = new Freshet('http://127.0.0.1:1', {
    minBackoff: 1,
    trouble: () => troubles++,
    WebSocket: fakeServer((m, socket) => {
      asked.push(m.type)
      if (m.type === 'unsubscribe') socket.onclose({ code: 4007, reason: 'nothing is followed' })
    })
  })
  for (let n = 1; n < 3; n++) {
    const sub = freshet.follow('q')
    await until(() => asked.length === 2 * n - 1)
    sub.close()
    await until(() => asked.length === 2 * n)
    await wait(50)
    assert.equal(freshet.socket.readyState, 3, 'it connects although nothing is followed')
  }
  freshet.close()
  freshet.follow('q')
  await wait(50)
  assert.equal(asked.length, 4)
  assert.equal(troubles, 0)
})

test('the time for a large message is no silence', async () => {
  for (const [announced, lost] of [[true, false], [false, true]]) {
    let troubles = 0
    class Server extends fakeServer(() => {}) {
      say (m) { super.say(m.type === 'ready' ? { ...m, ping: '20ms' } : m) }

      send (text) {
        const m = JSON.parse(text)
        if (announced && m.type === 'subscribe') this.say({ type: 'large', id: m.id, bytes: 320000 })
        super.send(text)
      }
    }
    const freshet = new Freshet('http://127.0.0.1:1', { minBackoff: 60000, WebSocket: Server, trouble: () => troubles++ })
    freshet.follow('q')
    await (lost ? until(() => troubles > 0) : wait(500))
    freshet.close()
    assert.equal(troubles > 0, lost)
  }
})

test('the package ws is used if there is no global WebSocket', async () => {
  const { WebSocketServer } = await import('ws')
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  await new Promise(resolve => server.on('listening', resolve))
  const asked = new Promise(resolve => server.on('connection', socket => socket.on('message', m => resolve(JSON.parse(m)))))
  const freshet = new Freshet(`http://127.0.0.1:${server.address().port}`, { WebSocket: null })
  assert.equal((await asked).type, 'init')
  freshet.close()
  for (const socket of server.clients) socket.terminate()
  server.close()
})

test('a handler gets an error if there is no WebSocket at all', async () => {
  class Bare extends Freshet { load () { super.load('no-such-package') } }
  const event = await new Promise(resolve => new Bare('http://127.0.0.1:1', { WebSocket: null }).follow('q', resolve))
  assert.equal(event.type, 'error')
  assert.equal(event.final, true)
  assert.match(event.message, /npm install ws/)
})

test('the types are those of the modules', async () => {
  const { default: ts } = await import('typescript')
  const here = new URL('.', import.meta.url).pathname
  const program = ts.createProgram([here + 'types.ts'], { noEmit: true, strict: true, noUnusedLocals: true, noUncheckedIndexedAccess: true, types: [], skipLibCheck: false,
    target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler, lib: ['lib.es2022.d.ts', 'lib.dom.d.ts'] })
  assert.equal(ts.formatDiagnostics(ts.getPreEmitDiagnostics(program), { getCurrentDirectory: () => here, getCanonicalFileName: x => x, getNewLine: () => '\n' }), '')
  const checker = program.getTypeChecker()
  const used = program.getSourceFile(here + 'types.ts').text
  for (const module of ['freshet', 'freshet-rdfjs']) {
    const file = program.getSourceFiles().find(x => x.fileName.endsWith(`/${module}.d.ts`))
    const names = checker.getExportsOfModule(checker.getSymbolAtLocation(file))
    const values = names.filter(x => x.flags & ts.SymbolFlags.Value).map(x => x.name).sort()
    assert.deepEqual(values, Object.keys(await import(`../${module}.js`)).sort(), `the exports of ${module}.js`)
    for (const { name } of names) assert.match(used, new RegExp(`\\b${name}\\b`), `types.ts does not use ${name}`)
  }
})

// The members that the types of a class declare are those that it has.
test('the declared members exist', async () => {
  const { default: ts } = await import('typescript')
  const declared = {}
  for (const module of ['freshet', 'freshet-rdfjs']) {
    const { readFileSync } = await import('node:fs')
    const source = ts.createSourceFile(module, readFileSync(new URL(`../${module}.d.ts`, import.meta.url), 'utf8'), ts.ScriptTarget.ES2022)
    for (const node of source.statements) {
      if (ts.isClassDeclaration(node)) declared[node.name.text] = node.members.filter(ts.isMethodDeclaration).map(x => x.name.text ?? 'iterator')
    }
  }
  const classes = { ...await import('../freshet.js'), ...await import('../freshet-rdfjs.js') }
  assert.ok(Object.keys(declared).length >= 7)
  for (const [name, members] of Object.entries(declared)) {
    for (const member of members) {
      const has = classes[name][member] ?? classes[name].prototype[member === 'iterator' ? Symbol.asyncIterator : member]
      assert.equal(typeof has, 'function', `${name}.${member}`)
    }
  }
})
