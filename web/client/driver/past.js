// Writes a line of JSON for each pair of states of a query: the earlier one, and the later
// one that the difference makes of it. For a test that knows both:
//
//   node driver/past.js URL QUERY LAST
import { Freshet, RefusedError } from '../freshet.js'

const [url, query, last] = process.argv.slice(2)
const WebSocket = globalThis.WebSocket ?? (await import('ws')).WebSocket
const freshet = new Freshet(url, { WebSocket })
for (let from = 1; from <= last; from++) {
  const { result, position } = await freshet.past(query, from)
  const again = await freshet.past(query, position)
  if (again.result.document() !== result.document() || position.seq !== from) throw new Error('the same position has another state')
  for (let to = from; to <= last; to++) {
    const change = await freshet.diff(query, position, to)
    const at = await freshet.past(query, new Date(new Date(change.to.time).getTime() + 1)) // the server has nanoseconds
    console.log(JSON.stringify({ from, to, before: result.document(), after: result.apply(change).document(), at: at.position.seq }))
  }
}
for (const when of [Number(last) + 1, new Date(0)]) {
  const err = await freshet.past(query, when).then(() => null, err => err)
  if (!(err instanceof RefusedError)) throw new Error(`${when}: ${err}`)
  console.log(JSON.stringify({ status: err.status, kind: err.kind }))
}
freshet.close()
