// What the tests run to see kafkajs at work against our broker: node interop.js BOOTSTRAP WHAT PREFIX.
// It exits with 1, and says why on stderr, when anything is not as it must be.
'use strict'
const assert = require('node:assert/strict')
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')

const [bootstrap, what, prefix] = process.argv.slice(2)
const kafka = new Kafka({ brokers: bootstrap.split(','), logLevel: logLevel.NOTHING, retry: { initialRetryTime: 50 } })
const topic = `${prefix}-topic`
const groupId = `${prefix}-group`

async function until (condition) {
  const end = Date.now() + 30000
  while (!(await condition())) {
    assert(Date.now() < end, `in vain: ${condition}`)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

async function produce (values, options = {}) {
  const producer = kafka.producer(options.producer)
  await producer.connect()
  const messages = values.map(n => ({ key: `k${n % 10}`, value: `${n}`, headers: { h: 'x', many: ['1', '2'] } }))
  const sent = await producer.send({ topic, messages, acks: -1, compression: options.compression })
  await producer.disconnect()
  return sent
}

async function member (got, assignments, name) {
  const consumer = kafka.consumer({ groupId, heartbeatInterval: 100, maxWaitTimeInMs: 100 })
  consumer.on(consumer.events.GROUP_JOIN, event => {
    assignments[name] = (event.payload.memberAssignment[topic] || []).length
  })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => { got.push(message) } })
  return consumer
}

const range = (from, to) => Array.from({ length: to - from }, (_, n) => from + n)
const numbers = got => got.map(message => Number(message.value)).sort((a, b) => a - b)

// A broker of several hears of a change a moment after the controller has answered.
const eventually = async check => {
  const deadline = Date.now() + 20000
  for (let is = false; !is;) {
    is = await check().catch(error => { if (Date.now() > deadline) throw error })
    assert(is || Date.now() < deadline, `this never became true: ${check}`)
    if (!is) await new Promise(resolve => setTimeout(resolve, 50))
  }
}

const scenarios = {
  // Two members share what is produced, with and without idempotence; one leaves, the other goes on where it was.
  async group () {
    const admin = kafka.admin()
    await admin.connect()
    await admin.createTopics({ topics: [{ topic, numPartitions: 4 }] })
    const got = []
    const assignments = {}
    const first = await member(got, assignments, 'first')
    await until(() => assignments.first === 4)
    const second = await member(got, assignments, 'second')
    await until(() => assignments.first === 2 && assignments.second === 2)
    await produce(range(0, 500))
    await produce(range(500, 1000), { compression: CompressionTypes.GZIP })
    await produce(range(1000, 1500), { producer: { idempotent: true } })
    await until(() => got.length >= 1500)
    await first.disconnect()
    await until(() => assignments.second === 4)
    await produce(range(1500, 2000))
    await until(() => got.length >= 2000)
    await second.disconnect()
    assert.deepEqual(numbers(got), range(0, 2000))
    assert(got.every(message => message.headers.h.toString() === 'x' && message.headers.many.length === 2))
    const offsets = await admin.fetchOffsets({ groupId, topics: [topic] })
    const ends = await admin.fetchTopicOffsets(topic)
    assert.deepEqual(
      offsets[0].partitions.map(p => [p.partition, p.offset === '-1' ? '0' : p.offset]).sort(),
      ends.map(p => [p.partition, p.offset]).sort()
    )
    await admin.disconnect()
  },

  async transactions () {
    await produce([])
    const producer = kafka.producer({ transactionalId: prefix, idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    for (const [value, end] of [['1', 'commit'], ['2', 'abort'], ['3', 'commit']]) {
      const transaction = await producer.transaction()
      await transaction.send({ topic, messages: [{ value, partition: 0 }] })
      await transaction.sendOffsets({
        consumerGroupId: groupId, topics: [{ topic, partitions: [{ partition: 0, offset: value }] }]
      })
      await transaction[end]()
    }
    await producer.disconnect()
    const got = []
    const consumer = await member(got, {}, 'reader')
    await until(() => got.length >= 1)
    await consumer.disconnect()
    assert.deepEqual(numbers(got), [3]) // the group's offset is that of the last transaction
    const all = []
    const reader = kafka.consumer({ groupId: `${groupId}-2`, maxWaitTimeInMs: 100 })
    await reader.connect()
    await reader.subscribe({ topic, fromBeginning: true })
    await reader.run({ eachMessage: async ({ message }) => { all.push(message) } })
    await until(() => all.length >= 2)
    await reader.disconnect()
    assert.deepEqual(numbers(all), [1, 3])
  },

  async admin () {
    const admin = kafka.admin()
    await admin.connect()
    const configEntries = [{ name: 'retention.ms', value: '3600000' }]
    assert.equal(await admin.createTopics({ topics: [{ topic, numPartitions: 2, configEntries }] }), true)
    assert.equal(await admin.createTopics({ topics: [{ topic }] }), false)
    await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] })
    await eventually(async () => (await admin.listTopics()).includes(topic))
    await eventually(async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length === 3)
    const resource = { type: 2, name: topic }
    await admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries: [{ name: 'retention.ms', value: '7200000' }] }] })
    await eventually(async () => {
      const described = await admin.describeConfigs({ resources: [{ ...resource, configNames: ['retention.ms'] }] })
      return described.resources[0].configEntries[0].configValue === '7200000'
    })
    const sent = await produce(range(0, 30))
    assert(sent.length > 0)
    const ends = await admin.fetchTopicOffsets(topic)
    assert.equal(ends.reduce((sum, p) => sum + Number(p.high), 0), 30)
    const byTime = await admin.fetchTopicOffsetsByTimestamp(topic, Date.now() - 60000)
    assert(byTime.every(p => p.offset === '0' || Number(p.offset) === Number(ends.find(e => e.partition === p.partition).high)))
    // It joins the group and waits for a fetch of five seconds.
    await admin.resetOffsets({ groupId, topic, earliest: true })
    const offsets = await admin.fetchOffsets({ groupId, topics: [topic] })
    assert(offsets[0].partitions.length === 3 && offsets[0].partitions.every(p => p.offset === '-2' || p.offset === '0'))
    assert((await admin.listGroups()).groups.some(group => group.groupId === groupId))
    const { groups } = await admin.describeGroups([groupId])
    assert.equal(groups[0].state, 'Empty')
    const full = ends.find(p => Number(p.high) > 0)
    await admin.deleteTopicRecords({ topic, partitions: [{ partition: full.partition, offset: '1' }] })
    const after = await admin.fetchTopicOffsets(topic)
    assert.equal(after.find(p => p.partition === full.partition).low, '1')
    await admin.deleteGroups([groupId])
    assert((await admin.listGroups()).groups.every(group => group.groupId !== groupId))
    const cluster = await admin.describeCluster()
    assert.equal(cluster.brokers.length, bootstrap.split(',').length)
    await admin.deleteTopics({ topics: [topic] })
    await eventually(async () => !(await admin.listTopics()).includes(topic))
    await admin.disconnect()
  }
}

scenarios[what]().then(() => process.exit(0), error => {
  console.error(error)
  process.exit(1)
})
