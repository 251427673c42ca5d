// Quads of a followed graph query (CONSTRUCT, DESCRIBE) for libraries of RDF/JS
// (https://rdf.js.org), such as n3 and Comunica. No dependencies: the caller passes a
// DataFactory.
//
//   import { Freshet } from './freshet.js'
//   import { QuadChanges } from './freshet-rdfjs.js'
//   import { DataFactory, Store } from 'n3'
//
//   const changes = new QuadChanges(new Freshet(server), 'departures', { factory: DataFactory })
//   const store = new Store()
//   for await (const { added, removed } of changes) {
//     for (const quad of removed) store.delete(quad)
//     for (const quad of added) store.add(quad)
//   }
//
// The differences add up to the result, also over interruptions, restarts of the server
// and histories that do not reach back. Readable.from(changes.quads()) is an RDF/JS Stream.

/** Thrown by the iteration if the query cannot be followed. code is that of the error event. */
export class FollowError extends Error {
  constructor (code, message) {
    super(message)
    this.name = 'FollowError'
    this.code = code
  }
}

/**
 * An async iterable of {added, removed, position}: the quads by which a query's result
 * differs from the item before. The first item has the difference to options.from, or all
 * quads. What happens while an item is processed is added up for the next one, so that a
 * slow reader needs no more memory than the result. It can be iterated once.
 *
 * options: factory (a DataFactory), graph (a term; default the default graph), blanks (a
 * prefix of the labels of blank nodes, for stores with several results), from (what save
 * returned), rate ("5s").
 */
export class QuadChanges {
  constructor (freshet, query, { factory, graph, blanks = '', from = null, rate } = {}) {
    if (typeof factory?.quad !== 'function') throw new TypeError('options.factory is missing: pass a DataFactory of RDF/JS, such as that of the package n3')
    this.quadOf = quadParser(factory, graph ?? factory.defaultGraph(), blanks)
    this.pending = new Map() // the text of a triple → whether it was added; what the reader does not know
    this.fresh = false // whether there is an item for the reader
    this.rows = [] // of the result that pending leads to
    this.at = null // {position, result} that pending leads to
    this.given = null // that of the item that the reader was given
    this.read = null // that of the item that the reader has processed
    this.from = from
    this.ended = null // {error} once no further item comes
    this.wake = () => {}
    this.subscription = freshet.follow(query, event => this.receive(event), { from, rate })
    if (this.subscription.result) this.rows = this.subscription.result.rows
  }

  /** The state after the last item that was processed completely, as plain JSON, to be passed as options.from. */
  save () {
    if (!this.read) return this.from
    const { position, result } = this.read
    return { ...position, form: result.form, ordered: false, document: result.document() }
  }

  /** Ends the iteration. */
  close () {
    this.subscription.close()
    this.end()
  }

  end (error) {
    this.ended ??= { error }
    this.wake()
  }

  receive (event) {
    if (event.type === 'error') return this.end(new FollowError(event.code, event.message))
    if (event.type === 'complete') return this.end()
    if (event.type !== 'snapshot' && event.type !== 'delta') return
    const { result, position } = this.subscription
    const { form, rows } = result
    if (form !== 'CONSTRUCT' && form !== 'DESCRIBE') {
      this.subscription.close()
      return this.end(new FollowError('form', `the query is a ${form} query, and only CONSTRUCT and DESCRIBE have quads`))
    }
    const { removed, added } = event.type === 'delta' && !event.baseline
      ? { removed: event.removed.triples, added: event.added.triples }
      : difference(this.rows, rows)
    for (const text of removed) this.note(text, false)
    for (const text of added) this.note(text, true)
    this.rows = rows
    this.at = { position, result }
    this.fresh = true
    this.wake()
  }

  /** Adds one step to pending. A step and its reverse cancel out. */
  note (text, addition) {
    if (this.pending.has(text)) this.pending.delete(text)
    else this.pending.set(text, addition)
  }

  async * [Symbol.asyncIterator] () {
    try {
      while (true) {
        this.read = this.given
        if (this.fresh) {
          yield this.take()
          continue
        }
        if (this.ended?.error) throw this.ended.error
        if (this.ended) return
        await new Promise(resolve => { this.wake = resolve })
      }
    } finally {
      this.close()
    }
  }

  take () {
    const added = []
    const removed = []
    for (const [text, addition] of this.pending) (addition ? added : removed).push(this.quadOf(text))
    this.pending = new Map()
    this.fresh = false
    this.given = this.at
    return { added, removed, position: this.at.position }
  }

  /**
   * The same as an async iterable of single quads, whose property isAddition tells those
   * that were added from those that were removed. Of one difference, the removed quads
   * come first.
   */
  async * quads () {
    for await (const { added, removed } of this) {
      for (const quad of removed) yield Object.assign(quad, { isAddition: false })
      for (const quad of added) yield Object.assign(quad, { isAddition: true })
    }
  }
}

/** The difference between two sets of texts. */
function difference (old, now) {
  const before = new Set(old)
  const after = new Set(now)
  return { removed: old.filter(text => !after.has(text)), added: now.filter(text => !before.has(text)) }
}

// A canonical N-Triples statement: an IRI or a blank node, an IRI, and any term.
const IRI = '<([^>]*)>'
const NODE = '_:(\\S+)'
const STATEMENT = new RegExp(`^(?:${IRI}|${NODE}) ${IRI} (?:${IRI}|${NODE}|"((?:[^"\\\\]|\\\\.)*)"(?:@(\\S+)|\\^\\^${IRI})?) \\.$`, 's')
const ESCAPES = { t: '\t', b: '\b', n: '\n', r: '\r', f: '\f', '"': '"', '\\': '\\' }

function unescape (text) {
  if (!text.includes('\\')) return text
  return text.replace(/\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))/gs, (all, short, long, char) =>
    char === undefined ? String.fromCodePoint(parseInt(short ?? long, 16)) : ESCAPES[char] ?? all)
}

/** Returns a function that makes a quad of a canonical N-Triples statement. */
function quadParser (factory, graph, blanks) {
  const iri = text => factory.namedNode(unescape(text))
  const node = label => factory.blankNode(blanks + label)
  return text => {
    const m = STATEMENT.exec(text)
    if (!m) throw new SyntaxError('this is not a statement of N-Triples: ' + text)
    const [, subject, subjectNode, predicate, object, objectNode, value, language, datatype] = m
    return factory.quad(
      subject !== undefined ? iri(subject) : node(subjectNode),
      iri(predicate),
      object !== undefined ? iri(object)
        : objectNode !== undefined ? node(objectNode)
          : factory.literal(unescape(value), language ?? (datatype === undefined ? undefined : iri(datatype))),
      graph)
  }
}
