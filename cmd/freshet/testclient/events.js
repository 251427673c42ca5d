// Follows an event stream with npm eventsource and writes a line of JSON for each
// event:
//
//   node events.js URL
const say = line => process.stdout.write(JSON.stringify(line) + '\n')

import('eventsource').then(({ EventSource }) => {
  const source = new EventSource(process.argv[2])
  source.onopen = () => say({ kind: 'open' })
  for (const kind of ['snapshot', 'change', 'alive', 'gap', 'complete']) {
    source.addEventListener(kind, e => say({ kind, id: e.lastEventId, data: JSON.parse(e.data) }))
  }
})
