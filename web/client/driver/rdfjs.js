// Keeps a store of n3 true with the quads of one graph query, and queries it with
// Comunica, for a test that changes the data and kills the server:
//
//   node driver/rdfjs.js URL QUERY items|saved|stream UNTIL
//
// items iterates over differences, saved makes another QuadChanges from the saved state
// after each, and stream reads an RDF/JS Stream. The store is compared with what the
// server says of the same position. A line of JSON is written for each comparison.
import { Readable } from 'node:stream'
import { DataFactory, Parser, Store } from 'n3'
import { QueryEngine } from '@comunica/query-sparql-rdfjs-lite'
import { Freshet } from '../freshet.js'
import { QuadChanges } from '../freshet-rdfjs.js'

const [url, query, way, until] = process.argv.slice(2)
const WebSocket = globalThis.WebSocket ?? (await import('ws')).WebSocket
const graph = DataFactory.namedNode('http://graph/' + query)
const engine = new QueryEngine()
const store = new Store()
store.add(DataFactory.quad(graph, graph, graph)) // what the application has besides

const connect = () => new Freshet(url, { WebSocket, minBackoff: 5, maxBackoff: 100 })
const follow = (freshet, from) => new QuadChanges(freshet, query, { factory: DataFactory, graph, blanks: 'f', from })

// The quads that the server has at a position, parsed by n3. A server that was just killed is asked again.
async function truth ({ epoch, seq }) {
  while (true) {
    const answer = await fetch(`${url}/v1/queries/${query}/results.nt?seq=${epoch}:${seq}`).catch(() => null)
    if (answer?.ok) return new Parser({ blankNodePrefix: 'f' }).parse(await answer.text())
    if (answer && answer.status < 500) throw new Error(`${answer.status}: ${await answer.text()}`)
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

async function same (position) {
  const want = await truth(position)
  const inGraph = q => DataFactory.quad(q.subject, q.predicate, q.object, graph)
  return store.size === want.length + 1 && want.every(q => store.has(inGraph(q)))
}

// Comunica's answer is that of the quads themselves.
async function ask () {
  const answer = await engine.queryBindings('SELECT ?n { GRAPH ?g { ?s <http://x/m> ?b . ?b <http://x/k> ?n } }', { sources: [store] })
  const got = (await answer.toArray()).map(row => row.get('n').value).sort()
  const want = store.getObjects(null, DataFactory.namedNode('http://x/k'), graph).map(n => n.value).sort()
  return got.length > 0 && JSON.stringify(got) === JSON.stringify(want) ? got.length : fail(`Comunica finds ${got}, the store has ${want}`)
}

function fail (message) { throw new Error(message) }

function apply ({ added, removed }) {
  for (const quad of removed) store.has(quad) ? store.delete(quad) : fail('a removed quad is not there')
  for (const quad of added) store.has(quad) ? fail('an added quad is there already') : store.add(quad)
}

async function check (position) {
  if (!await same(position)) fail(`the store is not what the server has at ${position.seq}`)
  console.log(JSON.stringify({ seq: position.seq, rows: await ask() }))
  return position.seq >= Number(until)
}

async function items () {
  const freshet = connect()
  for await (const item of follow(freshet)) {
    apply(item)
    if (await check(item.position)) break
  }
  freshet.close()
}

async function saved () {
  for (let from = null, end = false; !end;) {
    const freshet = connect()
    const changes = follow(freshet, from)
    const reader = changes[Symbol.asyncIterator]()
    const { value: item } = await reader.next()
    apply(item)
    end = await check(item.position)
    const next = reader.next() // says that the item is processed
    from = JSON.parse(JSON.stringify(changes.save()))
    if (from.seq !== item.position.seq) fail(`the saved state is that of ${from.seq}, want ${item.position.seq}`)
    changes.close()
    await next
    freshet.close()
  }
}

// A quad of a stream does not say its position: the store is compared once the stream waits.
async function stream () {
  const freshet = connect()
  const changes = follow(freshet)
  const quads = Readable.from(changes.quads())
  quads.on('data', quad => apply(quad.isAddition ? { added: [quad], removed: [] } : { added: [], removed: [quad] }))
  const ended = new Promise((resolve, reject) => quads.on('end', resolve).on('error', reject))
  while (!(changes.save()?.seq >= Number(until))) await new Promise(resolve => setTimeout(resolve, 20))
  while (!await same(changes.save())) await new Promise(resolve => setTimeout(resolve, 20))
  await check(changes.save())
  changes.close()
  await ended
  freshet.close()
}

await { items, saved, stream }[way]()
