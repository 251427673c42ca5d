// The TypeScript compiler checks this file, which is not run: the examples of the
// README have types.
import { Freshet, Replica, type Event, type Saved } from '../freshet.js'

const freshet = new Freshet('http://127.0.0.1:8080', { token: 'a token', trouble: event => console.warn(event.code, event.reason) })
const saved: Saved | null = JSON.parse('null')
const sub = freshet.follow('departures', (event: Event) => {
  if (event.type === 'error') return console.error(event.message)
  if (event.type === 'delta') console.log(event.added?.results?.bindings[0]?.s?.value, event.seq - event.prev)
  if (sub.result) console.table(sub.result.bindings().map(row => row.s?.value ?? ''))
}, { from: saved, rate: '5s', filter: { min_rows: 2 } })
freshet.follow({ endpoint: 'city', sparql: 'ASK {}' }).close()
const replica = new Replica(sub.save())
if (replica.delta({}) === 'again') replica.restart()
// @ts-expect-error there is no such event
export const wrong = (event: Event): boolean => event.type === 'deltas'
