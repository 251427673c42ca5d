// Types of freshet-rdfjs.js. They fit those of the package @rdfjs/types, without needing it.

import type { Freshet, Position, Saved } from './freshet.js'

/** What a DataFactory of RDF/JS needs for quads Q with terms T. */
export interface Factory<Q extends object = object, T = any> {
  namedNode (value: string): T
  blankNode (value?: string): T
  literal (value: string, languageOrDatatype?: any): T
  defaultGraph (): T
  quad (subject: any, predicate: any, object: any, graph?: any): Q
}

export interface QuadOptions<Q extends object> {
  /** A DataFactory, such as that of the package n3. */
  factory: Factory<Q>
  /** The graph term of the quads. The default is the default graph. */
  graph?: unknown
  /** A prefix of the labels of blank nodes, for stores with several results. */
  blanks?: string
  /** Where to resume: what save returned. */
  from?: Saved | null
  /** The minimum time between two messages of the server, such as "5s". */
  rate?: string
}

/** The difference to the item before. */
export interface QuadDifference<Q> { added: Q[], removed: Q[], position: Position }

/** Thrown by the iteration if the query cannot be followed. code is that of the error event, or 'form' for a query without quads. */
export class FollowError extends Error {
  constructor (code: string | number, message: string)
  readonly code: string | number
}

/** The differences by which the result of a graph query becomes what it is. It can be iterated once. */
export class QuadChanges<Q extends object> implements AsyncIterable<QuadDifference<Q>> {
  constructor (freshet: Freshet, query: string | { endpoint: string, sparql: string }, options: QuadOptions<Q>)
  [Symbol.asyncIterator] (): AsyncGenerator<QuadDifference<Q>, void, void>
  /** Single quads; isAddition tells those that were added from those that were removed. Readable.from makes an RDF/JS Stream of it. */
  quads (): AsyncGenerator<Q & { isAddition: boolean }, void, void>
  /** The state after the last item that was processed completely. */
  save (): Saved | null
  /** Ends the iteration. */
  close (): void
}
