// Reads a feed with npm rss-parser and writes what it finds as one line of JSON:
//
//   node feed.js URL
const Parser = require('rss-parser')

new Parser({ customFields: { item: ['change'] } }).parseURL(process.argv[2]).then(feed => {
  const items = feed.items.map(i => ({ id: i.id, title: i.title, link: i.link, date: i.isoDate, summary: i.summary, content: i.content, change: JSON.parse(i.change) }))
  process.stdout.write(JSON.stringify({ title: feed.title, url: feed.feedUrl, items }) + '\n')
}, e => { process.stderr.write(String(e) + '\n'); process.exitCode = 1 })
