// Receives webhooks, verifies them with the npm package "standardwebhooks" and
// writes a line of JSON for each, for a test that knows the expected messages:
//
//   node driver/webhook.js
//
// The first line has the URL on which it listens. Each line on standard input is
// the secret to verify with from then on. Before the first secret all webhooks are
// refused.
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { Webhook } from 'standardwebhooks'

const say = line => process.stdout.write(JSON.stringify(line) + '\n')
let webhook

const server = createServer(async (req, res) => {
  const chunks = []
  for await (const c of req) chunks.push(c)
  const body = Buffer.concat(chunks).toString()
  try {
    const message = webhook.verify(body, req.headers)
    say({ event: message.type, id: req.headers['webhook-id'], data: message.data })
    res.writeHead(204).end()
  } catch (e) {
    say({ event: 'refused', id: req.headers['webhook-id'], message: e.message })
    res.writeHead(401).end()
  }
})
server.listen(0, '127.0.0.1', () => say({ event: 'listening', url: `http://127.0.0.1:${server.address().port}/hook` }))
createInterface({ input: process.stdin }).on('line', secret => { webhook = new Webhook(secret); say({ event: 'secret' }) })
