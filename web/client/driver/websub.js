// Subscribes to a topic with the npm package "pubsubhubbub" and writes a line of
// JSON for each event, for a test that knows the expected events:
//
//   node driver/websub.js HUB TOPIC
//
// A line on standard input makes it unsubscribe. It uses no secret, because the
// package verifies with a different secret than it sends.
import pubsubhubbub from 'pubsubhubbub'

const [hub, topic] = process.argv.slice(2)
const say = line => process.stdout.write(JSON.stringify(line) + '\n')
const subscriber = pubsubhubbub.createServer({ callbackUrl: '' })

subscriber.on('error', e => say({ event: 'error', message: e.message }))
for (const event of ['subscribe', 'unsubscribe', 'denied']) {
  subscriber.on(event, data => {
    say({ event, topic: data.topic, message: data.error?.message })
    if (event === 'unsubscribe') process.exit(0)
  })
}
subscriber.on('feed', data => say({ event: 'feed', topic: data.topic, hub: data.hub, type: data.headers['content-type'], body: data.feed.toString() }))
subscriber.on('listen', () => {
  subscriber.callbackUrl = `http://127.0.0.1:${subscriber.server.address().port}/`
  subscriber.subscribe(topic, hub, err => err && say({ event: 'error', message: err.message }))
})
subscriber.listen(0, '127.0.0.1')
process.stdin.once('data', () => subscriber.unsubscribe(topic, hub, err => err && say({ event: 'error', message: err.message })))
