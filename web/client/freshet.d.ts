// Types of freshet.js.

/** A term of SPARQL 1.1 Query Results JSON. */
export interface Term {
  type: 'uri' | 'literal' | 'bnode'
  value: string
  datatype?: string
  'xml:lang'?: string
}

export type Binding = Record<string, Term>
export type Form = 'SELECT' | 'ASK' | 'CONSTRUCT' | 'DESCRIBE'

/** A position in a query's log. */
export interface Position { epoch: string, seq: number }

/** What save returns and options.from accepts: plain JSON. */
export interface Saved extends Position { form?: Form, ordered?: boolean, document?: string, filter?: Filter }

/** SPARQL results (SELECT) or triples (CONSTRUCT, DESCRIBE). */
export interface Rows {
  head?: { vars?: string[] }
  results?: { bindings: Binding[] }
  triples?: string[]
}

export interface SubscribedEvent { type: 'subscribed', id: string, query?: string, epoch: string, seq: number, resumed: boolean, reason?: 'too_old' | 'other_epoch' | 'ahead' }
export interface SnapshotEvent { type: 'snapshot', id: string, epoch: string, seq: number, time: string, form: Form, ordered?: boolean, results: Rows & { boolean?: boolean } }
export interface DeltaEvent {
  type: 'delta', id: string, epoch: string, prev: number, seq: number, time: string, checked_at: string, form: Form
  baseline?: boolean, jaccard?: number | null, hash?: string, previous_hash?: string, filtered?: boolean
  added?: Rows, removed?: Rows, added_at?: number[], removed_at?: number[], boolean?: boolean, previous?: boolean
}
export interface AliveEvent { type: 'alive', id: string, epoch: string, seq: number, checked_at?: string, proved?: string }
export interface StatusEvent { type: 'status', id: string, state: string, checked_at?: string, next_due?: string, error?: string }
export interface CompleteEvent { type: 'complete', id: string, reason: string }
/** With final: true it is the last event. The code is a word, or a WebSocket close code from 4400. */
export interface ErrorEvent { type: 'error', id?: string, code: string | number, message: string, final: true }

export type Event = SubscribedEvent | SnapshotEvent | DeltaEvent | AliveEvent | StatusEvent | CompleteEvent | ErrorEvent

export interface Filter {
  min_jaccard?: number
  min_rows?: number
  vars?: string[]
  where?: Array<{ var: string, op: string, value: string }>
}

export interface FollowOptions {
  /** Where to resume: what save returned. With another filter, it has no effect. */
  from?: Saved | null
  /** The minimum time between two messages, such as "5s". */
  rate?: string
  filter?: Filter
  mode?: 'delta' | 'snapshot'
  /** Acknowledges messages, so that the server waits for the handler. */
  ack?: boolean
}

export interface Options {
  token?: string
  /** A class. The default is the global one, or that of the npm package ws. */
  WebSocket?: unknown
  /** Milliseconds. */
  minBackoff?: number
  maxBackoff?: number
  /** Called with every close event after which the connection is tried again. */
  trouble?: (event: { code: number, reason: string }) => void
}

/** A query's result. It is immutable; apply returns the next one. */
export class Result {
  constructor (form: Form, parts?: { ordered?: boolean, vars?: string[], rows?: string[], boolean?: boolean })
  static from (form: Form, ordered: boolean, ...parts: Array<Rows & { boolean?: boolean }>): Result
  static parse (form: Form, ordered: boolean, document: string): Result
  readonly form: Form
  readonly ordered: boolean
  readonly vars: readonly string[]
  /** Canonical text of each row or triple. */
  readonly rows: readonly string[]
  /** The answer of an ASK query. */
  readonly boolean: boolean
  readonly length: number
  /** SELECT: the rows as SPARQL results JSON has them. */
  bindings (): Binding[]
  /** The canonical text, byte-identical to the server's. */
  document (): string
  /** Throws MismatchError if the change does not fit. */
  apply (change: Pick<DeltaEvent, 'form' | 'added' | 'removed' | 'added_at' | 'removed_at' | 'boolean'>): Result
}

export class MismatchError extends Error {}

/** The server refuses to read a result of the past. */
export class RefusedError extends Error {
  constructor (status: number, kind: string, detail: string)
  readonly status: number
  /** The problem type, such as 'gap' (no longer kept), 'no-result' (before the first result) or 'not-found' (no such query or change). */
  readonly kind: string
}

/** A state of a result: a Date or a time as text, the number of a change, or a position. */
export type Moment = Date | string | number | Position

/** A state of a result. */
export interface PastResult { result: Result, position: Position, checkedAt: Date }

/** The difference between two states. */
export interface NetChange {
  query: string, form: Form, jaccard: number, hash: string, previous_hash: string
  from: Version, to: Version
  added?: Rows, removed?: Rows, added_at?: number[], removed_at?: number[], boolean?: boolean, previous?: boolean
}

/** A state as differences name it. */
export interface Version extends Position { time: string, checked_at: string }

/** Compares strings by their UTF-8 bytes. */
export function byBytes (a: string, b: string): number

/** A copy of one query's result, kept up to date from messages of any transport. */
export class Replica {
  constructor (saved?: Saved | null)
  result: Result | null
  position: Position | null
  save (): Saved | null
  restart (epoch?: string, seq?: number): void
  snapshot (message: object): boolean
  delta (message: object): 'applied' | 'dropped' | 'again'
  alive (message: object): 'applied' | 'dropped' | 'again'
}

export interface Subscription {
  readonly result: Result | null
  readonly position: Position | null
  save (): Saved | null
  close (): void
}

/** A connection that follows any number of queries, reconnects after every interruption and resumes. */
export class Freshet {
  constructor (server: string | URL, options?: Options)
  /** query: an id, a name, or what to register. */
  follow (query: string | { endpoint: string, sparql: string }, handler?: (event: Event) => void, options?: FollowOptions): Subscription
  /** The result of a query as it was. Rejects with RefusedError, or with that of fetch. */
  past (query: string, when: Moment): Promise<PastResult>
  /** What changed between two states; to is the newest one by default. */
  diff (query: string, from: Moment, to?: Moment): Promise<NetChange>
  close (): void
}
