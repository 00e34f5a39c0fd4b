// amqplib against a broker: `node scenarios.js <scenario> <amqp url>` exits with 0 when the scenario holds.
//
// Every scenario gets a connection and a name that nobody else uses. Scenarios wait for events, never for time.

const assert = require('node:assert/strict');
const { randomUUID } = require('node:crypto');
const amqp = require('amqplib');
const callbackApi = require('amqplib/callback_api');

const scenarios = {};
const scenario = (name, run) => { scenarios[name] = run; };

// A queue of deliveries that can be awaited one by one.
async function consume(channel, queue, options) {
  const waiting = [];
  const arrived = [];
  const { consumerTag } = await channel.consume(queue, (message) => {
    if (waiting.length) waiting.shift()(message); else arrived.push(message);
  }, options);
  const next = () => arrived.length ? Promise.resolve(arrived.shift()) : new Promise((resolve) => waiting.push(resolve));
  return { next, arrived, consumerTag };
}

const text = (message) => message && message.content.toString();

scenario('server properties', async ({ connection }) => {
  const server = connection.connection.serverProperties;
  assert.ok(server.product);
  assert.ok(server.version);
  for (const name of ['publisher_confirms', 'exchange_exchange_bindings', 'basic.nack', 'consumer_cancel_notify',
    'connection.blocked', 'per_consumer_qos', 'authentication_failure_close']) {
    assert.equal(server.capabilities[name], true, name);
  }
});

scenario('wrong password', async ({ url }) => {
  await assert.rejects(amqp.connect(url.replace('guest:guest', 'guest:wrong')), /403|ACCESS_REFUSED/);
});

scenario('unknown vhost', async ({ url }) => {
  // amqplib keeps the reason to itself.
  await assert.rejects(amqp.connect(url.replace('%2f', 'nowhere')), /Expected ConnectionOpenOk; got <ConnectionClose/);
});

scenario('send and get', async ({ connection, name }) => {
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(name, { exclusive: true });
  assert.equal(await channel.get(name), false);
  channel.sendToQueue(name, Buffer.from('first'));
  channel.sendToQueue(name, Buffer.alloc(0));
  await channel.waitForConfirms();
  assert.equal((await channel.checkQueue(name)).messageCount, 2);
  const first = await channel.get(name);
  assert.equal(text(first), 'first');
  assert.equal(first.fields.messageCount, 1);
  assert.equal(first.fields.redelivered, false);
  channel.ack(first);
  assert.equal((await channel.get(name, { noAck: true })).content.length, 0);
});

scenario('consume, nack and redelivery', async ({ connection, name }) => {
  const channel = await connection.createChannel();
  await channel.assertQueue(name, { exclusive: true });
  await channel.prefetch(1);
  const messages = await consume(channel, name);
  channel.sendToQueue(name, Buffer.from('1'));
  channel.sendToQueue(name, Buffer.from('2'));
  const first = await messages.next();
  channel.nack(first);
  const again = await messages.next();
  assert.equal(text(again), '1');
  assert.equal(again.fields.redelivered, true);
  assert.equal(again.fields.consumerTag, messages.consumerTag);
  channel.reject(again, false);
  const second = await messages.next();
  assert.equal(text(second), '2');
  channel.ack(second);
  await channel.cancel(messages.consumerTag);
  assert.equal((await channel.checkQueue(name)).consumerCount, 0);
});

scenario('ackAll and nackAll', async ({ connection, name }) => {
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(name, { exclusive: true });
  for (let i = 0; i < 4; i += 1) channel.sendToQueue(name, Buffer.from(String(i)));
  await channel.waitForConfirms();
  await channel.get(name);
  await channel.get(name);
  channel.ackAll();
  await channel.get(name);
  await channel.get(name);
  channel.nackAll(true);
  assert.equal(text(await channel.get(name, { noAck: true })), '2');
  assert.equal(text(await channel.get(name, { noAck: true })), '3');
});

scenario('recover', async ({ connection, name }) => {
  const channel = await connection.createChannel();
  await channel.assertQueue(name, { exclusive: true });
  channel.sendToQueue(name, Buffer.from('again'));
  await channel.get(name);
  await channel.recover();
  assert.equal((await channel.get(name)).fields.redelivered, true);
});

scenario('thousand confirms outstanding', async ({ connection, name }) => {
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(name, { exclusive: true });
  let confirmed = 0;
  for (let i = 0; i < 1000; i += 1) {
    channel.sendToQueue(name, Buffer.from(String(i)), { persistent: true }, (error) => { if (!error) confirmed += 1; });
  }
  await channel.waitForConfirms();
  assert.equal(confirmed, 1000);
  assert.equal((await channel.checkQueue(name)).messageCount, 1000);
});

scenario('mandatory message is returned, then confirmed', async ({ connection, name }) => {
  const channel = await connection.createConfirmChannel();
  const order = [];
  channel.on('return', (message) => order.push(['return', message.fields.replyCode, message.fields.replyText, text(message)]));
  await new Promise((resolve, reject) => {
    channel.publish('', name, Buffer.from('back'), { mandatory: true }, (error) => {
      order.push(['confirm']);
      if (error) reject(error); else resolve();
    });
  });
  assert.deepEqual(order, [['return', 312, 'NO_ROUTE', 'back'], ['confirm']]);
});

scenario('properties and headers round trip', async ({ connection, name }) => {
  const channel = await connection.createChannel();
  await channel.assertQueue(name, { exclusive: true });
  const headers = {
    string: 'süß ☕', yes: true, no: false, zero: 0, negative: -7, byte: 127, short: 32767, int: 2 ** 31 - 1,
    long: 2 ** 40, double: 3.141592653589793, bytes: Buffer.from([0, 255]), nested: { a: { b: [1, 'two', { c: null }] } },
    list: [1, 2, [3]], nothing: null, when: { '!': 'timestamp', value: 1700000000 },
    decimal: { '!': 'decimal', value: { digits: 1234, places: 2 } }, float: { '!': 'float', value: 0.25 },
  };
  const options = {
    contentType: 'text/plain', contentEncoding: 'utf-8', priority: 4, correlationId: 'c', replyTo: 'r', expiration: '60000',
    messageId: 'm', timestamp: 1700000000, type: 't', userId: 'guest', appId: 'a', deliveryMode: 2, headers,
  };
  channel.sendToQueue(name, Buffer.from('x'), options);
  const { properties } = await channel.get(name, { noAck: true });
  for (const key of Object.keys(options)) {
    if (key !== 'headers') assert.deepEqual(properties[key], options[key], key);
  }
  for (const key of Object.keys(headers)) {
    const expected = key === 'float' ? 0.25 : headers[key];
    assert.deepEqual(properties.headers[key], expected, key);
  }
});

scenario('bodies of several frames', async ({ connection, name }) => {
  const channel = await connection.createChannel();
  await channel.assertQueue(name, { exclusive: true });
  for (const size of [1, 4088, 4089, 131064, 131065, 3000000]) {
    const body = Buffer.alloc(size, 'q');
    channel.sendToQueue(name, body);
    const got = await channel.get(name, { noAck: true });
    assert.ok(body.equals(got.content), `size ${size}`);
  }
});

scenario('small frames and few channels', async ({ url, name }) => {
  const connection = await amqp.connect(`${url}?frameMax=4096&channelMax=4&heartbeat=60`);
  const channels = [];
  for (let i = 0; i < 4; i += 1) channels.push(await connection.createChannel());
  await assert.rejects((async () => connection.createChannel())(), /No channels left/);
  await channels[0].assertQueue(name, { exclusive: true });
  channels[3].sendToQueue(name, Buffer.alloc(50000, 'f'));
  await channels[3].checkQueue(name);
  const got = await channels[0].get(name, { noAck: true });
  assert.equal(got.content.length, 50000);
  await connection.close();
});

scenario('heartbeats keep an idle connection', async ({ url }) => {
  const connection = await amqp.connect(`${url}?heartbeat=1`);
  await new Promise((resolve) => { setTimeout(resolve, 3500); });
  await (await connection.createChannel()).close();
  await connection.close();
});

scenario('topic, headers and exchange bindings', async ({ connection, name }) => {
  const channel = await connection.createConfirmChannel();
  const [topic, headers, fanout] = [`${name}.t`, `${name}.h`, `${name}.f`];
  await channel.assertExchange(topic, 'topic', { autoDelete: true, durable: false });
  await channel.assertExchange(headers, 'headers', { autoDelete: true, durable: false });
  await channel.assertExchange(fanout, 'fanout', { autoDelete: true, durable: false });
  await channel.assertQueue(name, { exclusive: true });
  await channel.bindExchange(fanout, topic, 'log.*.error');
  await channel.bindExchange(fanout, headers, '', { 'x-match': 'all', kind: 'log', level: 3 });
  await channel.bindQueue(name, fanout, '');
  channel.publish(topic, 'log.disk.error', Buffer.from('1'));
  channel.publish(topic, 'log.error', Buffer.from('no'));
  channel.publish(headers, '', Buffer.from('2'), { headers: { kind: 'log', level: 3 } });
  channel.publish(headers, '', Buffer.from('no'), { headers: { kind: 'log' } });
  await channel.waitForConfirms();
  assert.equal((await channel.checkQueue(name)).messageCount, 2);
  assert.equal(text(await channel.get(name, { noAck: true })), '1');
  await channel.unbindExchange(fanout, topic, 'log.*.error');
  await channel.unbindQueue(name, fanout, '');
  assert.equal((await channel.purgeQueue(name)).messageCount, 1);
  assert.equal((await channel.deleteQueue(name)).messageCount, 0);
});

scenario('consumer gets null when its queue is deleted', async ({ connection, name }) => {
  const channel = await connection.createChannel();
  const other = await connection.createChannel();
  await channel.assertQueue(name, { durable: false });
  const messages = await consume(channel, name);
  await other.deleteQueue(name);
  assert.equal(await messages.next(), null);
  await channel.assertQueue('', { exclusive: true });
});

scenario('channel error leaves the connection open', async ({ connection, name }) => {
  const broken = await connection.createChannel();
  const errors = [];
  broken.on('error', (error) => errors.push(error));
  await assert.rejects(broken.checkQueue(name), (error) => {
    assert.equal(error.code, 404);
    assert.match(error.message, new RegExp(`NOT_FOUND - no queue '${name}' in vhost '/'`));
    return true;
  });
  assert.equal(errors.length, 1);
  const healthy = await connection.createChannel();
  assert.match((await healthy.assertQueue('', { exclusive: true })).queue, /^amq\.gen-/);
});

scenario('exclusive queue is locked for others', async ({ connection, name, url }) => {
  await (await connection.createChannel()).assertQueue(name, { exclusive: true });
  const other = await amqp.connect(url);
  const channel = await other.createChannel();
  channel.on('error', () => {});
  await assert.rejects(channel.assertQueue(name, { exclusive: true }), (error) => error.code === 405);
  await other.close();
});

scenario('exclusive consumer', async ({ connection, name }) => {
  const first = await connection.createChannel();
  await first.assertQueue(name, { exclusive: true });
  await first.consume(name, () => {}, { exclusive: true });
  const second = await connection.createChannel();
  second.on('error', () => {});
  await assert.rejects(second.consume(name, () => {}), (error) => error.code === 403);
});

scenario('broker closes the connection', async ({ url, name }) => {
  const connection = await amqp.connect(url);
  const failed = new Promise((resolve) => { connection.once('error', resolve); });
  const closed = new Promise((resolve) => { connection.once('close', resolve); });
  const channel = await connection.createChannel();
  channel.on('error', () => {});
  channel.assertExchange(name, 'no-such-type').catch(() => {});
  const error = await failed;
  assert.equal(error.code, 503);
  await closed;
});

scenario('blocked handlers stay quiet', async ({ connection, name }) => {
  const seen = [];
  connection.on('blocked', (reason) => seen.push(reason));
  connection.on('unblocked', () => seen.push('unblocked'));
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue(name, { exclusive: true });
  channel.sendToQueue(name, Buffer.alloc(100000));
  await channel.waitForConfirms();
  assert.deepEqual(seen, []);
});

scenario('hundred channels', async ({ connection, name }) => {
  const channels = await Promise.all(Array.from({ length: 100 }, () => connection.createConfirmChannel()));
  await channels[0].assertQueue(name, { exclusive: true });
  for (const channel of channels) channel.sendToQueue(name, Buffer.from('x'));
  await Promise.all(channels.map((channel) => channel.waitForConfirms()));
  assert.equal((await channels[0].checkQueue(name)).messageCount, 100);
  await Promise.all(channels.map((channel) => channel.close()));
});

scenario('rpc over an exclusive reply queue', async ({ connection, name }) => {
  const server = await connection.createChannel();
  await server.assertQueue(name, { autoDelete: true, durable: false });
  await server.consume(name, (message) => {
    const answer = Buffer.from(String(Number(text(message)) ** 2));
    server.sendToQueue(message.properties.replyTo, answer, { correlationId: message.properties.correlationId });
    server.ack(message);
  });
  const client = await connection.createChannel();
  const { queue } = await client.assertQueue('', { exclusive: true });
  const replies = await consume(client, queue, { noAck: true });
  client.sendToQueue(name, Buffer.from('12'), { replyTo: queue, correlationId: 'k' });
  const reply = await replies.next();
  assert.equal(text(reply), '144');
  assert.equal(reply.properties.correlationId, 'k');
});

scenario('callback api', async ({ url, name }) => {
  await new Promise((resolve, reject) => {
    callbackApi.connect(url, (failure, connection) => {
      if (failure) { reject(failure); return; }
      connection.createChannel((error, channel) => {
        if (error) { reject(error); return; }
        channel.assertQueue(name, { exclusive: true });
        channel.consume(name, (message) => {
          assert.equal(text(message), 'called back');
          connection.close(resolve);
        }, { noAck: true });
        channel.sendToQueue(name, Buffer.from('called back'));
      });
    });
  });
});

async function main(name, url) {
  const connection = await amqp.connect(url);
  await scenarios[name]({ connection, url, name: `interop.node.${randomUUID()}` });
  await connection.close();
}

const [name, url] = process.argv.slice(2);
main(name, url).then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
