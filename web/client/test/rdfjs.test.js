// Tests of freshet-rdfjs.js with a live server: FRESHET_URL, FRESHET_QUERY (a SELECT query) and
// FRESHET_GRAPH (a CONSTRUCT query with terms that are hard to parse).
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { DataFactory, Parser } from 'n3'
import { WebSocket } from 'ws'
import { Freshet } from '../freshet.js'
import { FollowError, QuadChanges } from '../freshet-rdfjs.js'

const { FRESHET_URL: url, FRESHET_QUERY: query, FRESHET_GRAPH: graph } = process.env
const live = { skip: url && query && graph ? false : 'FRESHET_URL, FRESHET_QUERY and FRESHET_GRAPH are not set' }
function connect (t) {
  const freshet = new Freshet(url, { WebSocket })
  t.after(() => freshet.close())
  return freshet
}

test('quads are those that n3 reads', live, async t => {
  const freshet = connect(t)
  const changes = new QuadChanges(freshet, graph, { factory: DataFactory, blanks: 'x_' })
  for await (const { added, removed } of changes) {
    const document = changes.subscription.result.document()
    const want = new Parser({ format: 'N-Triples', blankNodePrefix: 'x_' }).parse(document)
    assert.ok(want.length >= 10)
    assert.equal(added.length, want.length)
    for (const [i, quad] of want.entries()) assert.ok(added[i].equals(quad), `${added[i].object.value} is not ${quad.object.value}`)
    assert.deepEqual(removed, [])
    assert.equal(changes.save(), null) // it is not processed yet
    break
  }
})

test('a query without quads is refused', live, async t => {
  const freshet = connect(t)
  await assert.rejects(async () => { for await (const item of new QuadChanges(freshet, query, { factory: DataFactory })) assert.fail(item) },
    err => err instanceof FollowError && err.code === 'form' && /SELECT/.test(err.message))
})

test('an unknown query ends the iteration with its error', live, async t => {
  const freshet = connect(t)
  await assert.rejects(async () => { for await (const item of new QuadChanges(freshet, 'none', { factory: DataFactory })) assert.fail(item) },
    err => err instanceof FollowError && err.code === 'unknown_query')
})

test('close ends an iteration that waits', live, async t => {
  const freshet = connect(t)
  const changes = new QuadChanges(freshet, graph, { factory: DataFactory })
  const seen = []
  for await (const { position } of changes) {
    seen.push(position.seq)
    setTimeout(() => changes.close())
  }
  assert.deepEqual(seen, [1])
  assert.equal(changes.save().seq, 1)
})

test('a step and its reverse cancel out while the reader is busy', live, async t => {
  const freshet = connect(t)
  const changes = new QuadChanges(freshet, graph, { factory: DataFactory })
  const statement = '<http://x/later> <http://x/p> "1" .'
  const step = (prev, seq, added, removed) => changes.subscription.receive({ type: 'delta', form: 'CONSTRUCT', epoch: changes.at.position.epoch, prev, seq, added: { triples: added }, removed: { triples: removed } })
  const items = []
  for await (const { added, removed, position } of changes) {
    items.push([added.length > 0, removed.length, position.seq])
    if (items.length === 1) {
      step(1, 2, [statement], [])
      step(2, 3, [], [statement])
    } else if (items.length === 2) {
      step(3, 4, [statement], [])
      step(4, 5, ['<http://x/last> <http://x/p> "1" .'], [])
    } else {
      assert.deepEqual(added.map(quad => quad.subject.value), ['http://x/later', 'http://x/last'])
      break
    }
  }
  assert.deepEqual(items, [[true, 0, 1], [false, 0, 3], [true, 0, 5]])
})

test('a missing factory is named', () => {
  assert.throws(() => new QuadChanges({}, 'q'), /options.factory/)
})
