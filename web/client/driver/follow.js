// Follows one query and writes a line of JSON for each event, for a test that
// knows the expected result:
//
//   node driver/follow.js URL QUERY ws|native|sse|readme UNTIL
//
// ws uses the npm package "ws", native the global WebSocket, sse server-sent events
// with the npm package "eventsource", and readme the example of README.md. UNTIL is
// the seq at which to stop. FRESHET_TOKEN may contain a token.
import { readFileSync } from 'node:fs'
import { Freshet, Replica } from '../freshet.js'

const [url, query, transport, until] = process.argv.slice(2)
const token = process.env.FRESHET_TOKEN
const say = line => process.stdout.write(JSON.stringify(line) + '\n')

function tell (m, replica) {
  say({
    type: m.type,
    prev: m.prev,
    seq: replica.position?.seq,
    epoch: replica.position?.epoch,
    resumed: m.resumed,
    reason: m.reason,
    message: m.message,
    hash: m.hash,
    document: replica.result?.document()
  })
  return replica.position?.seq >= Number(until)
}

async function sockets () {
  const WebSocket = transport === 'ws' ? (await import('ws')).WebSocket : globalThis.WebSocket
  const freshet = new Freshet(url, { token, WebSocket, minBackoff: 5, maxBackoff: 100 })
  const sub = freshet.follow(query, m => {
    if (tell(m, sub.replica) || m.final) freshet.close()
    if (m.final) process.exitCode = 1
  }, { ack: true })
}

async function events () {
  const { EventSource } = await import('eventsource')
  const replica = new Replica()
  const headers = token ? { Authorization: 'Bearer ' + token } : {}
  const source = new EventSource(`${url}/v1/queries/${query}/changes`, {
    fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, ...headers } })
  })
  const on = (kind, take) => source.addEventListener(kind, event => {
    const m = JSON.parse(event.data)
    take(m)
    if (tell({ ...m, type: kind }, replica)) source.close()
  })
  on('snapshot', m => replica.snapshot(m))
  on('alive', m => replica.alive(m))
  on('gap', () => replica.restart())
  on('change', m => {
    const what = replica.delta({ ...m })
    if (what === 'again') throw new Error(`change ${m.prev}..${m.seq} does not follow ${replica.position?.seq}`)
  })
}

// Runs the example of README.md.
async function readme () {
  const { EventSource } = await import('eventsource')
  const text = readFileSync(new URL('../README.md', import.meta.url), 'utf8')
  const code = text.split('```js\n').find(block => block.includes('function follow')).split('\n```')[0]
  const follow = new Function('Replica', 'EventSource', code.replace(/^import.*/, '') + '\nreturn follow')(Replica, EventSource)
  follow(`${url}/v1/queries/${query}`, replica => { if (tell({ type: 'event' }, replica)) process.exit() })
}

await ({ sse: events, readme }[transport] ?? sockets)()
