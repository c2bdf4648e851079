// What the tests run to see kafkajs log in to our broker: node secured.js BOOTSTRAP JSON, which says what lets it in.
// It writes three records and reads them back; it exits with 1, and says why on stderr, when it is refused.
'use strict'
const fs = require('node:fs')
const { Kafka, logLevel } = require('kafkajs')

const login = JSON.parse(process.argv[3])
const settings = { brokers: [process.argv[2]], logLevel: logLevel.NOTHING, retry: { retries: 1, initialRetryTime: 50 } }
if (login.CA) {
  settings.ssl = { ca: [fs.readFileSync(login.CA)] }
  if (login.Key) Object.assign(settings.ssl, { key: fs.readFileSync(login.Key), cert: fs.readFileSync(login.Key) })
}
if (login.Mechanism === 'OAUTHBEARER') {
  settings.sasl = { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: login.Token }) }
} else if (login.Mechanism) {
  settings.sasl = { mechanism: login.Mechanism.toLowerCase(), username: login.User, password: login.Password }
}

async function main () {
  const kafka = new Kafka(settings)
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic: login.Topic }] })
  await admin.disconnect()
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic: login.Topic, messages: ['one', 'two', 'three'].map(value => ({ value })) })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: login.Topic, maxWaitTimeInMs: 100 })
  await consumer.connect()
  await consumer.subscribe({ topic: login.Topic, fromBeginning: true })
  let seen = 0
  await new Promise(resolve => consumer.run({ eachMessage: async () => { if (++seen === 3) resolve() } }))
  await consumer.disconnect()
}

main().catch(problem => {
  console.error(`refused: ${problem.name}: ${problem.message}`)
  process.exit(1)
})
