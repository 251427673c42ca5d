// Freshet's client for JavaScript: it follows SPARQL queries of a Freshet server
// and keeps their results up to date. Browsers and Node >= 20, no dependencies.
//
//   import { Freshet } from './freshet.js'
//
//   const freshet = new Freshet('http://127.0.0.1:8080', { token })
//   const sub = freshet.follow('departures', event => {
//     if (event.type === 'error') return console.error(event.message)   // final
//     if (event.type === 'delta') console.log(event.added, event.removed)
//     if (sub.result) render(sub.result.bindings())        // null before the first result
//   })
//   localStorage.departures = JSON.stringify(sub.save())   // and later:
//   freshet.follow('departures', handler, { from: JSON.parse(localStorage.departures ?? 'null') })
//
// It also serves as an example. Replica contains the rules for clients: apply a delta
// that starts at your position, ignore one that ends at or before it, and otherwise
// subscribe again from your position. Replica does not depend on sockets, so it
// works with server-sent events as well (see README.md).
//
// Node before 22 has no WebSocket. The client uses the npm package "ws" if it is
// installed; or pass a class as options.WebSocket.

const SUBPROTOCOL = 'freshet.v1'

/** Thrown when a delta does not fit the result that it is applied to. */
export class MismatchError extends Error {}

/**
 * Thrown if the server refuses to read a result of the past.
 * status: the HTTP status; kind: the problem type, such as 'gap' for a state that is no
 * longer kept, 'no-result' for one before the first result, or 'not-found'
 */
export class RefusedError extends Error {
  constructor (status, kind, detail) {
    super(detail)
    this.name = 'RefusedError'
    this.status = status
    this.kind = kind
  }
}

/**
 * A query's result. It is immutable; apply returns the next one.
 * form: 'SELECT' | 'ASK' | 'CONSTRUCT' | 'DESCRIBE'
 * vars: variables of a SELECT result
 * rows: canonical text of each row: JSON of a binding, or an N-Triples statement
 * boolean: the answer of an ASK query
 */
export class Result {
  constructor (form, { ordered = false, vars = [], rows = [], boolean = false } = {}) {
    Object.assign(this, { form, ordered, vars, rows, boolean })
    Object.freeze(this)
  }

  /** Builds a result from the results members of one or several snapshot messages. */
  static from (form, ordered, ...parts) {
    if (form === 'ASK') return new Result(form, { boolean: parts[0].boolean === true })
    const rows = parts.flatMap(part => rowTexts(form, part))
    return new Result(form, { ordered, vars: parts[0].head?.vars ?? [], rows: ordered ? rows : rows.sort(byBytes) })
  }

  /** Parses what document returned. */
  static parse (form, ordered, document) {
    if (form === 'CONSTRUCT' || form === 'DESCRIBE') return new Result(form, { rows: document.split('\n').slice(0, -1) })
    return Result.from(form, ordered, JSON.parse(document))
  }

  /** The number of rows or triples; 0 for ASK. */
  get length () { return this.rows.length }

  /** SELECT: the rows as SPARQL results JSON has them, {variable: {type, value, …}}. */
  bindings () { return this.rows.map(row => JSON.parse(row)) }

  /** The canonical text, byte-identical to the server's. Its SHA-256 is the published hash. */
  document () {
    switch (this.form) {
      case 'ASK': return `{"head":{},"boolean":${this.boolean}}`
      case 'SELECT': return `{"head":{"vars":${JSON.stringify(this.vars)}},"results":{"bindings":[${this.rows.join(',')}]}}`
      default: return this.rows.map(row => row + '\n').join('')
    }
  }

  /** Returns the result after a change. Throws MismatchError if the change does not fit. */
  apply (change) {
    if (change.form === 'ASK') return new Result('ASK', { boolean: change.boolean })
    const added = rowTexts(change.form, change.added)
    const removed = rowTexts(change.form, change.removed)
    const vars = change.added.head?.vars ?? []
    const rows = change.added_at
      ? splice(this.rows, removed, change.removed_at, added, change.added_at)
      : merge(this.rows, removed.sort(byBytes), added.sort(byBytes))
    return new Result(change.form, { ordered: !!change.added_at, vars, rows })
  }
}

/** The canonical text of each row of {head, results} or {triples}. */
function rowTexts (form, doc) {
  if (form !== 'SELECT') return [...doc.triples]
  // Members in the order of the head: JSON.parse moves those that look like numbers.
  return doc.results.bindings.map(row => '{' + doc.head.vars
    .filter(name => Object.hasOwn(row, name))
    .map(name => JSON.stringify(name) + ':' + JSON.stringify(row[name]))
    .join(',') + '}')
}

/** Removes and adds rows. All three lists are sorted. */
function merge (rows, removed, added) {
  const out = []
  let r = 0
  let a = 0
  for (const row of rows) {
    if (r < removed.length && removed[r] === row) {
      r++
      continue
    }
    while (a < added.length && byBytes(added[a], row) < 0) out.push(added[a++])
    out.push(row)
  }
  if (r < removed.length) throw new MismatchError('a removed row is not there')
  while (a < added.length) out.push(added[a++])
  return out
}

/** Deletes the rows at the old indices, then inserts at the new ones. Both lists are ascending. */
function splice (rows, removed, removedAt, added, addedAt) {
  const out = []
  let r = 0
  let a = 0
  const insert = () => { while (a < addedAt.length && addedAt[a] === out.length) out.push(added[a++]) }
  rows.forEach((row, i) => {
    if (r < removedAt.length && removedAt[r] === i) {
      if (removed[r++] !== row) throw new MismatchError(`row ${i} is not the removed one`)
      return
    }
    insert()
    out.push(row)
  })
  insert()
  if (r < removedAt.length || a < addedAt.length) throw new MismatchError('an index is out of range')
  return out
}

/**
 * Compares strings by their UTF-8 bytes. JavaScript compares UTF-16 units, which
 * puts characters beyond U+FFFF (surrogates, U+D800 to U+DFFF) before U+E000 to
 * U+FFFF instead of after.
 */
export function byBytes (a, b) {
  const n = Math.min(a.length, b.length)
  for (let i = 0; i < n; i++) {
    let x = a.charCodeAt(i)
    let y = b.charCodeAt(i)
    if (x === y) continue
    if (x >= 0xd800 && y >= 0xd800) {
      x = x >= 0xe000 ? x - 0x2000 : x + 0x800
      y = y >= 0xe000 ? y - 0x2000 : y + 0x800
    }
    return x - y
  }
  return a.length - b.length
}

/**
 * A copy of one query's result, kept up to date from messages of any transport.
 * result: Result, or null before the first
 * position: {epoch, seq}, or null while there is nothing to resume from
 */
export class Replica {
  constructor (saved) {
    this.result = null
    this.position = null
    this.parts = []
    if (!saved) return
    this.position = { epoch: saved.epoch, seq: saved.seq }
    if (saved.document !== undefined) this.result = Result.parse(saved.form, saved.ordered, saved.document)
  }

  /** Returns the state as plain JSON, to be passed to a new Replica later. */
  save () {
    if (!this.position) return null
    const { form, ordered } = this.result ?? {}
    return { ...this.position, form, ordered, document: this.result?.document() }
  }

  /** Discards the state and waits for a snapshot or the first result. */
  restart (epoch, seq) {
    this.result = null
    this.parts = []
    this.position = seq === 0 ? { epoch, seq } : null
  }

  /** Applies a snapshot or one part of it. Returns true once it is complete. */
  snapshot (m) {
    if (m.truncated) return false
    if (!(m.part > 1)) this.parts = [] // an interrupted snapshot is sent again from its beginning
    this.parts.push(m.results)
    if (m.part && !m.last) return false
    this.result = Result.from(m.form, m.ordered === true, ...this.parts)
    this.parts = []
    this.position = { epoch: m.epoch, seq: m.seq }
    return true
  }

  /** Applies a change by rule 1. Returns 'applied', 'dropped', or 'again': subscribe again from position. */
  delta (m) {
    const here = this.position
    if (here && m.epoch === here.epoch && m.seq <= here.seq) return 'dropped'
    if (!here || m.epoch !== here.epoch || m.prev !== here.seq) return 'again'
    try {
      const before = m.baseline ? new Result(m.form) : this.result
      if (!before || m.truncated) throw new MismatchError('there are no rows to apply it to, or none to apply')
      this.result = before.apply(m)
    } catch (err) {
      if (!(err instanceof MismatchError)) throw err
      this.restart() // the position is not the expected one: start again
      return 'again'
    }
    this.position = { epoch: m.epoch, seq: m.seq }
    return 'applied'
  }

  /** Advances the position: nothing changed up to it, or the changes cancelled out. */
  alive (m) {
    if (!this.position) return 'dropped'
    if (m.epoch !== this.position.epoch || m.seq < this.position.seq) return 'again'
    this.position = { epoch: m.epoch, seq: m.seq }
    return 'applied'
  }
}

/** One followed query of a Freshet connection. */
class Subscription {
  constructor (client, query, handler, options) {
    this.client = client
    this.query = query
    this.handler = handler
    this.options = options
    // What another filter left is no part of what this one leaves: begin with the whole result.
    const same = JSON.stringify(options.from?.filter ?? null) === JSON.stringify(options.filter ?? null)
    this.replica = new Replica(same ? options.from : null)
    this.id = null // of the current subscription; new for each one
    this.stale = false // by the last status
  }

  get result () { return this.replica.result }
  get position () { return this.replica.position }
  save () {
    const saved = this.replica.save()
    return saved && this.options.filter ? { ...saved, filter: this.options.filter } : saved
  }

  /** Stops following. */
  close () {
    this.client.subscriptions.delete(this)
    this.client.drop(this)
  }

  subscribe () {
    const { rate, filter, mode } = this.options
    this.id = 's' + ++this.client.count
    this.client.byId.set(this.id, this)
    this.client.send({ type: 'subscribe', id: this.id, query: this.query, resume: this.position ?? undefined, rate, filter, mode })
  }

  again () {
    this.client.drop(this)
    this.subscribe()
  }

  receive (m) {
    switch (m.type) {
      case 'subscribed':
        if (!m.resumed) this.replica.restart(m.epoch, m.seq)
        this.handler(m)
        return this.begun()
      case 'snapshot':
        if (this.replica.snapshot(m)) this.told(m)
        return
      case 'delta':
      case 'alive': {
        const what = this.replica[m.type](m)
        if (what === 'again') return this.again()
        if (what === 'applied') this.told(m)
        return
      }
      case 'complete':
        this.client.subscriptions.delete(this)
        this.client.byId.delete(this.id)
        return this.handler(m)
      case 'error':
        return this.refused(m)
      case 'status':
        this.stale = m.state === 'stale'
        return this.handler(m)
    }
  }

  /** Each subscription begins as live. */
  begun () {
    if (!this.stale || !this.client.subscriptions.has(this)) return
    this.stale = false
    this.handler({ type: 'status', id: this.id, state: 'live' })
  }

  told (m) {
    this.handler(m)
    if (this.options.ack && m.type !== 'alive') this.client.send({ type: 'ack', id: this.id, seq: m.seq })
  }

  refused (m) {
    this.client.byId.delete(this.id)
    if (m.code === 'unavailable' || m.code === 'limit') return this.client.later(this, milliseconds(m.retry_after))
    this.client.subscriptions.delete(this)
    this.handler({ ...m, final: true })
  }
}

/**
 * A connection to a server that follows any number of queries, reconnects after
 * every interruption and resumes. If it is lost while nothing is followed, it
 * reconnects with the next subscription.
 *
 * options: token, WebSocket (a class; default the global one), minBackoff and
 * maxBackoff (ms; 200 and 30000), trouble(event) called with every close event
 * after which the connection is tried again.
 */
export class Freshet {
  constructor (server, options = {}) {
    this.url = liveURL(server)
    this.options = { minBackoff: 200, maxBackoff: 30000, WebSocket: globalThis.WebSocket, ...options }
    this.subscriptions = new Set()
    this.byId = new Map()
    this.count = 0
    this.ready = false
    this.closed = false
    this.resting = false // lost while nothing was followed
    this.pause = this.options.minBackoff
    this.timers = new Set()
    this.socket = { readyState: 3, close () {} } // none yet
    if (this.options.WebSocket) this.connect()
    else this.load('ws')
  }

  /**
   * Uses the WebSocket of a package, for Node before 22. The name of the package is
   * not a literal, so that bundlers for browsers do not resolve it.
   */
  load (name) {
    import(name).then(module => {
      this.options.WebSocket = module.WebSocket
      if (!this.closed) this.connect()
    }, () => this.end('no_websocket', 'there is no global WebSocket: npm install ws, or pass a class as options.WebSocket'))
  }

  /** Ends the connection permanently: another attempt would fail too. */
  end (code, message) {
    if (this.closed) return
    this.closed = true
    for (const sub of this.subscriptions) sub.handler({ type: 'error', code, message, final: true })
  }

  /**
   * Follows a query: an id, a name, or {endpoint, sparql} to register one.
   * handler(event) is called with the server's messages: subscribed, snapshot,
   * delta, alive, status, complete, and error, with final: true if another attempt
   * would fail too. options: from (what save returned), rate ("5s"), filter, mode,
   * ack.
   */
  follow (query, handler = () => {}, options = {}) {
    const sub = new Subscription(this, query, handler, options)
    this.subscriptions.add(sub)
    if (this.ready) sub.subscribe()
    if (this.resting && !this.closed) this.connect()
    return sub
  }

  /**
   * Reads the result of a query as it was. when: a Date or a time as text, the number of a
   * change, or a position. Returns {result, position, checkedAt}.
   */
  async past (query, when) {
    const path = '/v1/queries/' + encodeURIComponent(query)
    const { id, form, ordered = false } = await (await this.get(path)).json()
    const of = typeof when === 'number' || when?.epoch ? 'seq' : 'at'
    const graph = form === 'CONSTRUCT' || form === 'DESCRIBE'
    const answer = await this.get(`/v1/queries/${id}/results.${graph ? 'nt' : 'srj'}?${of}=${encodeURIComponent(moment(when))}`)
    const [epoch, seq] = answer.headers.get('ETag').replace(/^W\//, '').slice(1).split('.')
    return {
      result: Result.parse(form, ordered, await answer.text()),
      position: { epoch, seq: Number(seq) },
      checkedAt: new Date(answer.headers.get('Freshet-Checked-At'))
    }
  }

  /**
   * Returns what changed between two states, each given as in past; to is the newest one by
   * default. The answer has added and removed like a delta, and result.apply takes it.
   */
  async diff (query, from, to) {
    const until = to === undefined ? '' : '&to=' + encodeURIComponent(moment(to))
    return (await this.get(`/v1/queries/${encodeURIComponent(query)}/changes/diff?from=${encodeURIComponent(moment(from))}${until}`)).json()
  }

  async get (path) {
    const headers = this.options.token ? { Authorization: 'Bearer ' + this.options.token } : {}
    const answer = await fetch(this.url.replace(/^ws/, 'http').replace(/\/v1\/live$/, '') + path, { headers })
    if (answer.ok) return answer
    const problem = await answer.json().catch(() => ({}))
    throw new RefusedError(answer.status, String(problem.type ?? '').split('/').pop(), problem.detail ?? problem.title ?? answer.statusText)
  }

  /** Closes the connection and ends all subscriptions. */
  close () {
    this.closed = true
    for (const t of this.timers) clearTimeout(t)
    this.timers.clear()
    clearInterval(this.pulse)
    this.socket.close(1000)
  }

  connect () {
    this.resting = false
    const socket = this.socket = new this.options.WebSocket(this.url, SUBPROTOCOL)
    socket.onopen = () => this.send({ type: 'init', token: this.options.token, client: 'freshet.js' })
    socket.onmessage = event => { if (socket === this.socket) this.receive(JSON.parse(event.data)) }
    socket.onclose = event => { if (socket === this.socket) this.lost(event) }
    // Not every implementation sends a close event after an error event, and a
    // connection attempt without an answer takes very long to fail.
    const giveUp = reason => { if (socket === this.socket && !this.ready) this.lost({ code: 1006, reason }) }
    socket.onerror = () => this.in(100, () => giveUp('error'))
    this.in(20000, () => giveUp('no answer'))
  }

  send (message) {
    if (this.socket.readyState === 1) this.socket.send(JSON.stringify(message))
  }

  receive (m) {
    // The message after large comes as a whole, so it may be long until then. The server cuts slower lines: 32 KiB in 10 s.
    this.heard = Date.now() + (m.type === 'large' ? m.bytes / 3.2 : 0)
    if (this.closed) return
    if (m.type === 'ready') return this.begin(m)
    const sub = this.byId.get(m.id)
    if (!sub) return // the subscription has ended
    if (m.type !== 'error') this.pause = this.options.minBackoff // the connection works
    sub.receive(m)
  }

  begin (m) {
    this.ready = true
    for (const sub of this.subscriptions) sub.subscribe()
    // Pings of the WebSocket protocol are invisible to scripts. Send our own, and
    // treat silence as a broken connection.
    const period = milliseconds(m.ping) || 25000
    clearInterval(this.pulse)
    this.pulse = setInterval(() => {
      if (Date.now() - this.heard > 3 * period) return this.lost({ code: 1006, reason: 'silence' })
      this.send({ type: 'ping' })
    }, period)
  }

  drop (sub) {
    if (!this.byId.delete(sub.id)) return
    this.send({ type: 'unsubscribe', id: sub.id })
  }

  /** Reconnects, except after 44xx, where something has to change first. */
  lost (event) {
    const old = this.socket
    this.socket = { readyState: 3, close () {} }
    this.ready = false
    this.byId.clear()
    clearInterval(this.pulse)
    old.close()
    if (this.closed) return
    if (event.code >= 4400 && event.code < 4500) return this.end(event.code, event.reason)
    this.resting = !this.subscriptions.size // the next subscription connects again
    if (this.resting) return
    this.options.trouble?.(event)
    this.after(() => this.connect())
  }

  /** Subscribes again after a pause, of at least ms, unless a new connection has done so. */
  later (sub, ms) {
    this.after(() => { if (this.ready && this.subscriptions.has(sub) && !this.byId.has(sub.id)) sub.subscribe() }, ms)
  }

  /** Calls f after ms and a growing, random pause, so that clients do not reconnect all at once. */
  after (f, ms = 0) {
    this.in(ms + this.pause * (0.5 + Math.random()), f)
    this.pause = Math.min(2 * this.pause, this.options.maxBackoff)
  }

  in (ms, f) {
    const t = setTimeout(() => {
      this.timers.delete(t)
      f()
    }, ms)
    this.timers.add(t)
  }
}

/** The text of a moment in an address. */
function moment (when) {
  if (when instanceof Date) return when.toISOString()
  return when?.epoch ? `${when.epoch}:${when.seq}` : String(when)
}

function liveURL (server) {
  const url = new URL(server, globalThis.location?.href)
  url.protocol = url.protocol.replace('http', 'ws')
  if (!url.pathname.endsWith('/v1/live')) url.pathname = url.pathname.replace(/\/$/, '') + '/v1/live'
  return url.href
}

/** Parses a Go duration ("25s", "1m0s", "100ms"). Returns milliseconds. */
function milliseconds (text) {
  const units = { h: 3600e3, m: 60e3, s: 1e3, ms: 1 }
  return [...String(text).matchAll(/([\d.]+)(ms|h|m|s)/g)].reduce((sum, [, n, unit]) => sum + n * units[unit], 0)
}
