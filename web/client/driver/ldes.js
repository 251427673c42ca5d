// Replicates a query's Linked Data Event Stream with ldes-client, for a test that changes the data, kills the server and
// starts the client again:
//
//   node driver/ldes.js STREAM none|ascending FOLDER UNTIL
//
// FOLDER keeps the state of the client and of this program. Once the change with the number UNTIL is there, the result that the
// versions make is compared with that of the server, byte by byte, and written.
import { readFileSync, writeFileSync, existsSync } from 'node:fs'
import { enhanced_fetch, intoConfig, replicateLDES } from 'ldes-client'

const [stream, ordered, folder, untilText] = process.argv.slice(2)
const until = Number(untilText)
const F = 'urn:freshet:ldes:'
const V = 'urn:freshet:var:'
const file = folder + '/versions.json'
const versions = new Map(existsSync(file) ? JSON.parse(readFileSync(file)) : []) // object → change and rows

const client = replicateLDES(intoConfig({
  url: stream,
  polling: true,
  pollInterval: 50,
  statePath: folder + '/client',
  noShape: true,
  fetch: enhanced_fetch({ safe: true, retry: { codes: [408, 425, 429, 500, 502, 503, 504], base: 20, maxRetries: 50 } })
}), ordered)

const label = iri => iri.match(/\.well-known\/genid\/[^/]+\/(.+)$/)?.[1]

// A term as SPARQL results JSON has it.
function json (t) {
  if (t.termType === 'Literal') {
    const term = { type: 'literal', value: t.value }
    if (t.language) term['xml:lang'] = t.language
    else if (t.datatype.value !== 'http://www.w3.org/2001/XMLSchema#string') term.datatype = t.datatype.value
    return term
  }
  return label(t.value) ? { type: 'bnode', value: label(t.value) } : { type: 'uri', value: t.value }
}

function triple (t) {
  if (t.termType !== 'Literal') return label(t.value) ? '_:' + label(t.value) : `<${t.value}>`
  const text = JSON.stringify(t.value)
  if (t.language) return text + '@' + t.language
  return t.datatype.value === 'http://www.w3.org/2001/XMLSchema#string' ? text : `${text}^^<${t.datatype.value}>`
}

function take (member) {
  const of = (s, p) => member.quads.filter(q => q.subject.equals(s) && q.predicate.value === p).map(q => q.object)
  const [object, change] = [of(member.id, F + 'versionOf')[0], Number(of(member.id, F + 'change')[0].value)]
  if ((versions.get(object.value)?.change ?? 0) > change) return change
  if (ordered === 'ascending' && change < newest) throw new Error(`change ${change} comes after ${newest}`)
  newest = Math.max(newest, change)
  const rows = []
  for (const row of of(member.id, F + 'row')) {
    const cells = new Map(member.quads.filter(q => q.subject.equals(row) && q.predicate.value.startsWith(V)).map(q => [q.predicate.value.slice(V.length), json(q.object)]))
    for (let n = Number(of(row, F + 'times')[0].value); n > 0; n--) rows.push([...cells])
  }
  const triples = member.quads.filter(q => q.subject.equals(member.id) && !q.predicate.value.startsWith(F))
    .map(q => `${triple(object)} ${triple(q.predicate)} ${triple(q.object)} .`)
  versions.set(object.value, { change, rows, triples })
  return change
}

async function truth () {
  const answer = await fetch(stream.replace(/\/ldes.*/, `/results`))
  return { text: await answer.text(), graph: answer.headers.get('Content-Type').includes('n-triples') }
}

const bytes = (a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))

function result (want) {
  const all = [...versions.values()]
  if (want.graph) return all.flatMap(v => v.triples).sort(bytes).map(line => line + '\n').join('')
  const vars = JSON.parse(want.text).head.vars
  const rows = all.flatMap(v => v.rows).map(cells => JSON.stringify(Object.fromEntries(vars.filter(v => new Map(cells).has(v)).map(v => [v, new Map(cells).get(v)]))))
  return `{"head":{"vars":${JSON.stringify(vars)}},"results":{"bindings":[${rows.sort(bytes).join(',')}]}}`
}

let newest = 0
let quiet
const reader = client.stream({ highWaterMark: 10 }).getReader()
while (true) {
  const next = reader.read()
  const got = await (newest >= until ? Promise.race([next, new Promise(resolve => { quiet = setTimeout(resolve, 700) })]) : next)
  clearTimeout(quiet)
  if (!got) break
  if (got.done) throw new Error('the stream ended')
  take(got.value)
}
writeFileSync(file, JSON.stringify([...versions]))
const want = await truth()
const have = result(want)
console.log(have === want.text ? `equal after change ${newest}: ${have.length} bytes` : `have ${have}\nwant ${want.text}`)
process.exit(have === want.text ? 0 : 1)
