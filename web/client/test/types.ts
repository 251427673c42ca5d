// The TypeScript compiler checks this file, which is not run. It uses each name, event,
// option and error type of the clients, and wrong uses have to be errors.
import {
  Freshet, MismatchError, RefusedError, Replica, Result, byBytes,
  type AliveEvent, type Binding, type CompleteEvent, type DeltaEvent, type ErrorEvent, type Event, type Filter, type FollowOptions, type Form,
  type Moment, type NetChange, type Options, type PastResult, type Position, type Rows, type Saved, type SnapshotEvent, type StatusEvent,
  type SubscribedEvent, type Subscription, type Term, type Version
} from '../freshet.js'
import { FollowError, QuadChanges, type Factory, type QuadDifference, type QuadOptions } from '../freshet-rdfjs.js'
import type * as RDF from '@rdfjs/types'

// The examples of the README have types.
const options: Options = { token: 'a token', WebSocket: globalThis.WebSocket, minBackoff: 5, maxBackoff: 100, trouble: event => console.warn(event.code.toFixed(), event.reason.trim()) }
const freshet = new Freshet('http://127.0.0.1:8080', options)
const saved: Saved | null = JSON.parse('null')
const filter: Filter = { min_jaccard: 0.1, min_rows: 2, vars: ['s'], where: [{ var: 's', op: '>', value: '10' }] }
const how: FollowOptions = { from: saved, rate: '5s', filter, mode: 'delta', ack: true }
const sub: Subscription = freshet.follow('departures', (event: Event) => {
  if (event.type === 'error') return console.error(event.message)
  if (event.type === 'delta') console.log(event.added?.results?.bindings[0]?.s?.value, event.seq - event.prev)
  if (sub.result) console.table(sub.result.bindings().map(row => row.s?.value ?? ''))
}, how)
freshet.follow({ endpoint: 'city', sparql: 'ASK {}' }).close()
new Freshet(new URL('https://freshet.example.org')).close()

// Each event has its fields, and there is no other.
export function name (event: Event): string {
  switch (event.type) {
    case 'subscribed': { const e: SubscribedEvent = event; return `${e.id} ${e.query} ${e.epoch} ${e.seq} ${e.resumed} ${e.reason === 'too_old'}` }
    case 'snapshot': { const e: SnapshotEvent = event; return `${e.form} ${e.ordered} ${e.results.results?.bindings.length} ${e.results.triples?.length} ${e.results.boolean} ${e.time}` }
    case 'delta': {
      const e: DeltaEvent = event
      const rows: Rows | undefined = e.added ?? e.removed
      return `${rows?.head?.vars} ${e.prev} ${e.checked_at} ${e.baseline} ${e.jaccard} ${e.hash} ${e.previous_hash} ${e.filtered} ${e.added_at} ${e.removed_at} ${e.boolean} ${e.previous}`
    }
    case 'alive': { const e: AliveEvent = event; return `${e.epoch} ${e.seq} ${e.checked_at}` }
    case 'status': { const e: StatusEvent = event; return `${e.state} ${e.checked_at} ${e.next_due} ${e.error}` }
    case 'complete': { const e: CompleteEvent = event; return e.reason }
    case 'error': { const e: ErrorEvent = event; const final: true = e.final; return `${e.code} ${e.message} ${final}` }
    default: { const none: never = event; return none }
  }
}

// A replica, a result and its terms.
const replica = new Replica(sub.save())
if (replica.delta({}) === 'again' || replica.alive({}) === 'dropped' || replica.snapshot({})) replica.restart('e', 0)
const position: Position | null = replica.position ?? sub.position
const form: Form = 'SELECT'
const result: Result = new Result(form, { ordered: true, vars: ['s'], rows: [], boolean: false })
const binding: Binding | undefined = result.bindings()[0]
const term: Term | undefined = binding?.s
console.log(term?.type === 'uri', term?.datatype, term?.['xml:lang'], result.length, result.vars[0], result.rows[0], result.boolean, result.form, result.ordered)
console.log(Result.from(form, false, { triples: [] }).document(), Result.parse('ASK', false, '{}'), [...result.rows].sort(byBytes))

// The past.
export async function past (moments: Moment[]): Promise<boolean> {
  try {
    const then: PastResult = await freshet.past('departures', new Date())
    const change: NetChange = await freshet.diff('departures', then.position, 7)
    const to: Version = change.to
    await freshet.diff('departures', moments[0] ?? '2026-11-01')
    return then.result.apply(change).document() === then.checkedAt.toISOString() && to.seq > change.from.seq && to.checked_at > to.time && change.query + change.hash !== change.previous_hash + change.jaccard
  } catch (err) {
    if (err instanceof MismatchError) return err.message === ''
    if (err instanceof RefusedError) return err.status === 410 && err.kind === 'gap'
    throw err
  }
}

// Quads have the type that the factory makes.
export async function quads (factory: RDF.DataFactory<RDF.Quad>, store: RDF.DatasetCore): Promise<void> {
  const settings: QuadOptions<RDF.Quad> = { factory, graph: factory.namedNode('http://g'), blanks: 'x', from: saved, rate: '5s' }
  const changes = new QuadChanges(freshet, { endpoint: 'city', sparql: 'DESCRIBE <http://x>' }, settings)
  try {
    for await (const difference of changes) {
      const { added, removed, position }: QuadDifference<RDF.Quad> = difference
      for (const quad of removed) store.delete(quad)
      for (const quad of added) store.add(quad)
      console.log(position.seq, changes.save()?.document)
    }
    for await (const quad of changes.quads()) console.log(quad.isAddition, quad.subject.value)
  } catch (err) {
    if (err instanceof FollowError) console.error(err.code, err.message)
  }
  changes.close()
  const least: Factory<RDF.Quad> = factory
  console.log(least.blankNode('b').value, least.literal('a', 'en'), least.defaultGraph(), least.quad(1, 2, 3))
}

// Wrong uses.
// @ts-expect-error there is no such event
export const wrong = (event: Event): boolean => event.type === 'deltas'
// @ts-expect-error an alive event has no rows
export const rows = (event: AliveEvent): unknown => event.added
// @ts-expect-error there is no such option
freshet.follow('departures', () => {}, { rates: '5s' })
// @ts-expect-error a rate is a text
freshet.follow('departures', () => {}, { rate: 5 })
// @ts-expect-error there is no such mode
freshet.follow('departures', () => {}, { mode: 'deltas' })
// @ts-expect-error there is no such filter
freshet.follow('departures', () => {}, { filter: { jaccard: 1 } })
// @ts-expect-error a condition has a value
freshet.follow('departures', () => {}, { filter: { where: [{ var: 's', op: '=' }] } })
// @ts-expect-error a query is named, or has an endpoint
freshet.follow({ sparql: 'ASK {}' })
// @ts-expect-error the state may be missing
sub.save().seq
// @ts-expect-error the result may be missing
sub.result.bindings()
// @ts-expect-error results do not change
result.rows.push('')
// @ts-expect-error there is no such form
console.log(new Result('select'))
// @ts-expect-error there is no such option
console.log(new Freshet('http://127.0.0.1:8080', { tokens: '' }))
// @ts-expect-error a server is needed
console.log(new Freshet())
// @ts-expect-error position may be null
console.log(position.seq)
// @ts-expect-error a moment is given
freshet.past('departures')
// @ts-expect-error a moment is not an object of another kind
freshet.diff('departures', { seq: 3 })
// @ts-expect-error a refusal has a status
console.log(new RefusedError('gap', 'it is gone'))
// @ts-expect-error the factory is missing
console.log(new QuadChanges(freshet, 'departures', {}))
// @ts-expect-error a factory makes quads
console.log(new QuadChanges(freshet, 'departures', { factory: { namedNode: (iri: string) => iri } }))
