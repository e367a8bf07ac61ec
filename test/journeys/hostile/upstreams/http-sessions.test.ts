import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { until } from '../../../sandbox/tagged-processes.ts';
import { callModern, type JsonClient, openClient, readOutcome } from '../../json-mcp-client.ts';
import { maxWaitMs } from '../../start-probed-ambit.ts';
import { startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';
import {
  answerCorrectly,
  type Behaviour,
  openings,
  sendJson,
  startUpstream,
  type Upstream,
} from './start-http-upstream.ts';

let ambit: WatchedAmbit;
const remotes = new Map<string, { methods: Record<string, Behaviour>; brief: boolean; upstream?: Upstream }>();

beforeAll(async () => {
  const servers: Record<string, unknown> = {};
  for (const [name, remote] of remotes) {
    remote.upstream = await startUpstream({}, remote.methods);
    servers[name] = { url: remote.upstream.url, ...(remote.brief && { timeoutSeconds: 2 }) };
  }
  ambit = await startWatchedAmbit({ servers });
});
afterEach(() => ambit.expectHealthy());
afterAll(async () => {
  await ambit?.stop();
  for (const { upstream } of remotes.values()) await upstream?.stop();
});

/**
 * An upstream of this test's own behind the one gateway, and the client that uses it. With `brief`, a call to it may
 * take two seconds only.
 */
function remote(
  methods: Record<string, Behaviour>,
  brief = false,
): {
  upstream(): Upstream;
  open(): Promise<JsonClient>;
  call(): Promise<string>;
} {
  const name = `remote-${remotes.size}`;
  remotes.set(name, { methods, brief });
  return {
    upstream: () => remotes.get(name)?.upstream as Upstream,
    open: () => openClient(ambit.mcp(name), ambit.token),
    call: async () => readOutcome(await callModern(ambit.mcp(name), ambit.token, 'echo')),
  };
}

function handshakes({ seen }: Upstream): number {
  return seen.filter((each) => each === 'POST initialize').length;
}

function withResult(id: unknown, result: Record<string, unknown>): string {
  return JSON.stringify({ jsonrpc: '2.0', id, result });
}

/** Sessions that live until they are forgotten; a request without a living one gets 404. */
function forgetful(replaced: Record<string, Behaviour> = {}, brief = false) {
  let count = 0;
  let living = '';
  const initialize: Behaviour = ({ id, params }, response) => {
    if (!self.serving) {
      response.writeHead(500).end();
      return;
    }
    living = `s${++count}`;
    const { protocolVersion } = params;
    sendJson(response, withResult(id, { protocolVersion, capabilities: {}, serverInfo: {} }), 200, {
      'mcp-session-id': living,
    });
  };
  const call: Behaviour = ({ id, request }, response) => {
    const lost = JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } });
    if (request.headers['mcp-session-id'] === living) sendJson(response, answerCorrectly(id, living));
    else sendJson(response, lost, 404);
  };
  const self = {
    serving: true,
    initialize,
    forget() {
      living = '';
    },
    ...remote({ initialize: (...each) => self.initialize(...each), 'tools/call': call, ...replaced }, brief),
  };
  return self;
}

describe('a session the upstream has forgotten', () => {
  const simple = forgetful();
  test('is opened anew, once, without the caller noticing', async () => {
    const client = await simple.open();
    expect(readOutcome(await client.call('echo'))).toBe('s1');
    simple.forget();
    expect(readOutcome(await client.call('echo'))).toBe('s2');
    expect(handshakes(simple.upstream())).toBe(2);
    expect(simple.upstream().seen.slice(-4)).toEqual([
      'POST tools/call echo',
      'POST initialize',
      'POST notifications/initialized',
      'POST tools/call echo',
    ]);
  });

  const crowded = forgetful();
  test('is opened anew once for all the calls that find it so', async () => {
    const client = await crowded.open();
    crowded.forget();
    const calls = await Promise.all(Array.from({ length: 20 }, (_, id) => client.call('echo', {}, id)));
    expect(calls.map(readOutcome)).toEqual(Array(20).fill('s2'));
    expect(handshakes(crowded.upstream())).toBe(2);
  });

  const hopeless = forgetful({ 'tools/call': (_asked, response) => void response.writeHead(404).end() });
  test('is not opened endlessly when that does not help', async () => {
    const client = await hopeless.open();
    expect(readOutcome(await client.call('echo'))).toBe('!UPSTREAM_FAILED');
    expect(handshakes(hopeless.upstream())).toBe(2);
    expect(readOutcome(await client.call('echo'))).toBe('!UPSTREAM_FAILED');
    expect(handshakes(hopeless.upstream())).toBe(3);
  });

  const interrupted = forgetful();
  test('is opened anew later when that fails now', async () => {
    const client = await interrupted.open();
    interrupted.forget();
    interrupted.serving = false;
    expect(readOutcome(await client.call('echo'))).toBe('!UPSTREAM_FAILED');
    interrupted.serving = true;
    expect(readOutcome(await client.call('echo'))).toBe('s2');
  });
});

describe('a protocol version that would not fit into a header', () => {
  const versions = [
    ['a line end', '2025-11-25\r\nx-evil: 1'],
    ['a line end alone', '2025-11-25\n'],
    ['a NUL', '2025-11-25\0'],
    ['another alphabet', '２０２５-１１-２５'],
    ['too much', `2025-11-25${'x'.repeat(100_000)}`],
  ].map(([what, protocolVersion]) => {
    const initialize: Behaviour = ({ id }, response) =>
      sendJson(response, withResult(id, { protocolVersion, capabilities: {}, serverInfo: {} }), 200, {
        'mcp-session-id': 'upstream-1',
      });
    return { what, odd: remote({ initialize }) };
  });

  test.each(versions)('because of $what never gets there', async ({ odd }) => {
    const client = await odd.open();
    expect(readOutcome(await client.call('echo'))).toBe('right');
    expect((await client.send({ method: 'notifications/x' })).status).toBe(202);
    await client.leave();
    await until(
      () => odd.upstream().seen.includes('DELETE'),
      maxWaitMs,
      () => odd.upstream().seen.join(),
    );
    for (const { request } of odd.upstream().asked) {
      expect(request.headers['x-evil']).toBeUndefined();
      expect(request.headers['mcp-protocol-version']).toBeUndefined();
    }
  });
});

describe('an upstream, asked for its era,', () => {
  const broken = (
    [
      ['breaks off', (_asked, _response, socket) => void socket.resetAndDestroy()],
      [
        'breaks off in the middle of its answer',
        (_asked, response, socket) => {
          response.writeHead(200, { 'content-type': 'application/json', 'content-length': 100 });
          response.write('{', () => socket.resetAndDestroy());
        },
      ],
    ] satisfies [string, Behaviour][]
  ).map(([what, act]) => {
    let first = true;
    const discover: Behaviour = (...each) => {
      if (first) act(...each);
      else openings['server/discover']?.(...each);
      first = false;
    };
    return { what, once: remote({ 'server/discover': discover }) };
  });
  test.each(broken)('that $what is asked again', async ({ once }) => {
    expect(await once.call()).toBe('!UPSTREAM_FAILED');
    expect(await once.call()).toBe('right');
  });
});

// Both wait for a time limit: they do so at the same time.
describe.concurrent('within two seconds', () => {
  const stalled = forgetful({}, true);
  test('a session the upstream has forgotten holds up nothing but the calls that wait while it is opened anew', async () => {
    const client = await stalled.open();
    stalled.forget();
    const { initialize } = stalled;
    stalled.initialize = () => {};
    expect(readOutcome(await client.call('echo'))).toBe('!UPSTREAM_TIMEOUT');
    stalled.initialize = initialize;
    // The stalled handshake may still have a moment; then the next call begins another.
    const said = [readOutcome(await client.call('echo')), readOutcome(await client.call('echo'))];
    expect(said[1]).toBe('s2');
  });

  let silent = true;
  const discoverLate: Behaviour = (...each) => {
    if (!silent) openings['server/discover']?.(...each);
  };
  const never = remote({ 'server/discover': discoverLate }, true);
  test('an upstream that never answers when asked for its era: UPSTREAM_TIMEOUT, and it may recover', async () => {
    expect(await never.call()).toBe('!UPSTREAM_TIMEOUT');
    silent = false;
    const said = [await never.call(), await never.call()];
    expect(said[1]).toBe('right');
  });
});
