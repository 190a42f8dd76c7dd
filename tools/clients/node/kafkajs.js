// kafkajs behind the line protocol described in ../python/driver.py. It consumes only in groups, so it has
// no `consume` here (`tails` and `drain` make groups of their own), and it compresses by gzip alone without plug-ins.

const readline = require('node:readline');
const { Kafka, CompressionTypes, logLevel } = require('kafkajs');

const fromWord = (word) => (word === '-' ? null : Buffer.from(word.slice(1), 'hex'));

function parse(line) {
  const [place, timestamp, key, value, ...headers] = line.split(' ');
  const record = { partition: Number(place), key: fromWord(key), value: fromWord(value), headers: {} };
  if (Number(timestamp) >= 0) record.timestamp = timestamp;
  for (const header of headers) {
    const at = header.lastIndexOf('=');
    const name = header.slice(0, at);
    (record.headers[name] ??= []).push(fromWord(header.slice(at + 1)));
  }
  return record;
}

const toWord = (bytes) => (bytes === null ? '-' : `x${bytes.toString('hex')}`);

function show({ offset, timestamp, key, value, headers }) {
  const words = [offset, timestamp, toWord(key), toWord(value)];
  for (const [name, values] of Object.entries(headers)) {
    for (const one of [values].flat()) words.push(`${name}=${toWord(one)}`);
  }
  return words.join(' ');
}

function connect(options) {
  return new Kafka({ brokers: options.bootstrap.split(','), logLevel: logLevel.ERROR, retry: { retries: 5 } });
}

async function produce(options, messages) {
  const compression = CompressionTypes[options.codec === 'none' ? 'None' : options.codec.toUpperCase()];
  const idempotent = options.idempotent === 'true';
  const producer = connect(options).producer({ idempotent, maxInFlightRequests: 1, allowAutoTopicCreation: true });
  await producer.connect();
  try {
    const acks = options.acks === 'all' ? -1 : Number(options.acks);
    const answers = await producer.send({ topic: options.topic, acks, compression, messages });
    const next = new Map(answers.map((answer) => [answer.partition, Number(answer.baseOffset)]));
    return messages.map(({ partition }) => {
      const offset = next.get(partition) ?? -1;
      if (offset >= 0) next.set(partition, offset + 1);
      return String(offset);
    });
  } finally {
    await producer.disconnect();
  }
}

async function admin(options) {
  const client = connect(options).admin();
  const { topic } = options;
  const lines = [];
  const check = async (name, action) => {
    let line = '';
    for (let left = Number(process.env.CHECK_TRIES ?? 1); left > 0 && !line.startsWith('pass'); left -= 1) {
      try {
        const found = await action();
        line = found === true ? `pass ${name}` : `fail ${name} ${JSON.stringify(found)}`;
      } catch (error) {
        line = `fail ${name} ${error.name}: ${error.message}`.replaceAll('\n', ' ');
      }
    }
    lines.push(line);
  };
  const resource = { type: 2, name: topic };
  await client.connect();
  await check('create', () => client.createTopics({ topics: [{ topic, numPartitions: 3, replicationFactor: 1 }] }));
  await check('create again is refused', async () => !(await client.createTopics({ topics: [{ topic }] })));
  await check('listed', async () => (await client.listTopics()).includes(topic));
  await check('partitions', async () => (await client.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length === 3);
  await check('cluster', async () => (await client.describeCluster()).brokers.length >= 1);
  await check('more partitions', () => client.createPartitions({ topicPartitions: [{ topic, count: 5 }] }).then(() => true));
  await check('configs', async () => {
    const { resources } = await client.describeConfigs({ resources: [resource], includeSynonyms: true });
    return resources[0].configEntries.some(({ configName }) => configName === 'retention.ms');
  });
  await check('alter configs', async () => {
    const configEntries = [{ name: 'retention.ms', value: '86400000' }];
    await client.alterConfigs({ resources: [{ ...resource, configEntries }] });
    const { resources } = await client.describeConfigs({ resources: [{ ...resource, configNames: ['retention.ms'] }] });
    return resources[0].configEntries[0].configValue === '86400000';
  });
  // B27: this is the older AlterConfigs, which resets every key that it does not name.
  await check('alter configs resets the others', async () => {
    const configEntries = [{ name: 'segment.ms', value: '3600000' }];
    await client.alterConfigs({ resources: [{ ...resource, configEntries }] });
    const { resources } = await client.describeConfigs({ resources: [{ ...resource, configNames: ['retention.ms'] }] });
    return resources[0].configEntries[0].configValue !== '86400000';
  });
  await check('produce', async () => {
    const record = parse('0 1700000005000 x6b x76');
    const messages = [record, record, record];
    return (await produce({ ...options, codec: 'gzip', acks: 'all', idempotent: 'true' }, messages)).join() === '0,1,2';
  });
  await check('offsets', async () => {
    const first = (await client.fetchTopicOffsets(topic)).find(({ partition }) => partition === 0);
    return first.low === '0' && first.high === '3';
  });
  await check('offsets by time', async () => {
    const found = await client.fetchTopicOffsetsByTimestamp(topic, 1600000000000);
    return found.find(({ partition }) => partition === 0).offset === '0';
  });
  await check('delete records', async () => {
    await client.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: '2' }] });
    return (await client.fetchTopicOffsets(topic)).find(({ partition }) => partition === 0).low === '2';
  });
  await check('delete topic', async () => {
    await client.deleteTopics({ topics: [topic] });
    return !(await client.listTopics()).includes(topic);
  });
  await client.disconnect();
  return lines;
}

// A member of a group: what comes is kept until it is asked for.
let member;

// A connection that breaks; what it interrupts the library leaves to its user.
const isBroken = (error) => ['KafkaJSConnectionError', 'KafkaJSConnectionClosedError'].includes((error.cause ?? error).name);

async function join(options) {
  for (let left = 5; ; left -= 1) {
    try {
      return await joinOnce(options);
    } catch (error) {
      await member.consumer.disconnect().catch(() => {});
      if (!isBroken(error) || left === 0) throw error;
    }
  }
}

async function joinOnce({ topic, group, ...options }) {
  const consumer = connect(options).consumer({
    groupId: group, sessionTimeout: 6000, heartbeatInterval: 500, rebalanceTimeout: 10000,
    // Its rebalances wait for the fetches that are under way.
    maxWaitTimeInMs: Number(options.wait_ms ?? 200),
    ...(options.create ? { allowAutoTopicCreation: options.create === 'true' } : {}),
  });
  member = { consumer, topic, came: member?.came ?? [], next: new Map(), partitions: [] };
  const { GROUP_JOIN, REBALANCING, CRASH } = consumer.events;
  consumer.on(GROUP_JOIN, ({ payload }) => {
    member.partitions = payload.memberAssignment[topic] ?? [];
    member.next.clear();
  });
  consumer.on(REBALANCING, () => { member.partitions = []; });
  // Without its coordinator for some tries the library stops for good: its user starts it again.
  consumer.on(CRASH, ({ payload }) => {
    member.partitions = [];
    if (!payload.restart) consumer.disconnect().catch(() => {}).then(() => join({ topic, group, ...options })).catch(console.error);
  });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      member.came.push(`${partition} ${message.offset}`);
      member.next.set(partition, Number(message.offset) + 1);
    },
  });
  return [];
}

async function poll({ ms }) {
  const end = Date.now() + Number(ms);
  while (member.came.length === 0 && Date.now() < end) await new Promise((done) => { setTimeout(done, 10); });
  return member.came.splice(0);
}

async function assigned() {
  return [...member.partitions].sort((one, other) => one - other).map(String);
}

async function commit() {
  const offsets = [...member.next].map(([partition, offset]) => ({ topic: member.topic, partition, offset: String(offset) }));
  if (offsets.length === 0) return [];
  try {
    await member.consumer.commitOffsets(offsets);
  } catch (error) {
    // What is not tried again it wraps.
    const type = error.type ?? error.cause?.type;
    // After a crash it pauses before it starts again, and is no consumer meanwhile.
    const isPaused = error.message.includes('consumer#run must be called first');
    if (!isPaused && !isBroken(error) && !['REBALANCE_IN_PROGRESS', 'ILLEGAL_GENERATION', 'UNKNOWN_MEMBER_ID'].includes(type)) throw error;
    return ['retry'];
  }
  return [];
}

async function leave() {
  await member.consumer.disconnect();
  return [];
}

async function tails({ topic, partition, end, ...options }) {
  const consumer = connect(options).consumer({ groupId: `tails-${topic}`, maxWaitTimeInMs: 10, minBytes: 1 });
  const [wanted, last] = [Number(partition), Number(end) - 1];
  const lines = [];
  let [offsets, reached] = [[], () => {}];
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  // From the beginning once, so that nothing of that is under way later.
  const begun = new Promise((done, fail) => { reached = done; setTimeout(fail, 30000, new Error('the end is not reached')).unref(); });
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ message }) => {
      offsets.push(Number(message.offset));
      if (Number(message.offset) === last) reached();
    },
  });
  await begun;
  for (let start = 0; start <= last; start += 1) {
    let timer;
    const end_of_it = new Promise((done) => { reached = done; timer = setTimeout(done, 30000); });
    offsets = [];
    consumer.seek({ topic, partition: wanted, offset: String(start) });
    await end_of_it;
    clearTimeout(timer);
    lines.push(offsets.join());
  }
  await consumer.disconnect();
  return lines;
}

async function drain({ topics, records, ...options }) {
  const names = topics.split(',');
  const lines = [];
  const consumer = connect(options).consumer({ groupId: `drain-${names[0]}` });
  await consumer.connect();
  await consumer.subscribe({ topics: names, fromBeginning: true });
  await new Promise((done, fail) => {
    setTimeout(done, 60000).unref();
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ topic, message }) => {
        lines.push(`${names.indexOf(topic)} ${show(message)}`);
        if (lines.length === Number(records)) done();
      },
    }).catch(fail);
  });
  await consumer.disconnect();
  return lines;
}

async function main() {
  const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  for (let next = await input.next(); !next.done; next = await input.next()) {
    const [command, ...words] = next.value.split(' ');
    const options = Object.fromEntries(words.map((word) => [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]));
    const records = [];
    for (let left = command === 'produce' ? Number(options.count) : 0; left > 0; left -= 1) {
      records.push(parse((await input.next()).value));
    }
    try {
      const lines = await { produce, admin, tails, drain, join, poll, assigned, commit, leave }[command](options, records);
      process.stdout.write([`ok ${lines.length}`, ...lines, ''].join('\n'));
    } catch (error) {
      console.error(error);
      process.stdout.write(`error ${error.name}: ${error.message}`.replaceAll('\n', ' ') + '\n');
    }
  }
}

main();
