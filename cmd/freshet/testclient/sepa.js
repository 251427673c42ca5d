// Subscribes with npm @arces-wot/sepa-js and writes a line of JSON for each thing
// that happens, for a test that knows the truth:
//
//   node sepa.js HOST PORT PATH NAME=TEXT...
//
// A line on stdin that is a name unsubscribes that subscription. Each client
// keeps its result as a bag of rows, as the format's notifications tell it.
const { SEPA } = require('@arces-wot/sepa-js')
const [host, port, path, ...queries] = process.argv.slice(2)
const say = line => process.stdout.write(JSON.stringify(line) + '\n')

// Subscriptions whose name begins with "shared" use one connection; the others
// have one each, because the library restores only one after a break.
const connection = () => new SEPA({
  host,
  sparql11protocol: { protocol: 'http', port, query: { path: '/query' }, update: { path: '/update' } },
  sparql11seprotocol: { protocol: 'ws', availableProtocols: { ws: { port, path } } },
  options: process.env.FRESHET_TOKEN ? { authorization: 'Bearer ' + process.env.FRESHET_TOKEN } : {}
})
const shared = connection()

const rows = document => 'boolean' in document ? [String(document.boolean)] : document.results.bindings.map(canonical)
const canonical = binding => JSON.stringify(Object.keys(binding).sort().map(name =>
  [name, binding[name].type, binding[name].value, binding[name].datatype ?? '', binding[name]['xml:lang'] ?? '']))

function follow (name, text) {
  let bag = new Map()
  let next = 0
  const sub = (name.startsWith('shared') ? shared : connection()).subscribe(text, undefined, name)
  sub.on('subscribed', () => { bag = new Map(); next = 0 })
  sub.on('notification', n => {
    const wrong = []
    if (n.sequence !== next++) wrong.push(`sequence ${n.sequence}, not ${next - 1}`)
    for (const row of rows(n.removedResults)) {
      const count = bag.get(row) ?? 0
      if (count === 0) wrong.push('removed a row that is not there: ' + row)
      if (count <= 1) bag.delete(row)
      else bag.set(row, count - 1)
    }
    for (const row of rows(n.addedResults)) bag.set(row, (bag.get(row) ?? 0) + 1)
    const all = []
    for (const [row, count] of bag) for (let i = 0; i < count; i++) all.push(row)
    say({ name, sequence: n.sequence, spuid: n.spuid, alias: n.alias, added: n.addedResults, removed: n.removedResults, rows: all.sort(), wrong })
  })
  sub.on('error', e => say({ name, error: e.error, status: e.status_code, description: e.error_description }))
  sub.on('unsubscribed', () => say({ name, unsubscribed: true }))
  return sub
}

const subs = Object.fromEntries(queries.map(q => {
  const at = q.indexOf('=')
  return [q.slice(0, at), follow(q.slice(0, at), q.slice(at + 1))]
}))

require('readline').createInterface({ input: process.stdin })
  .on('line', name => subs[name].unsubscribe())
  .on('close', () => process.exit(0))
