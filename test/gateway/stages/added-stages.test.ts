import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { AmbitError } from '../../../src/errors.ts';
import { openGateway } from '../../../src/gateway/assembly/open-gateway.ts';
import type { Exchange, PreparedExchange } from '../../../src/gateway/exchange.ts';
import type { Gateway } from '../../../src/gateway/gateway.ts';
import type { AfterStage, AroundStage, BeforeStage, ListedStage, StageList } from '../../../src/gateway/stage.ts';
import type { FinalReply } from '../../../src/protocol/channel.ts';
import { createInProcessTransport } from '../../../src/public/create-gateway.ts';
import { defineServer, eras } from '../bounded-gateway.ts';
import { createRawClient } from '../raw-client.ts';
import { readJournal } from '../shared-data.ts';

type Requests = StageList<Exchange, FinalReply>;

const passed: string[] = [];

const denyForbidden: BeforeStage<PreparedExchange, void> = {
  name: 'denyForbidden',
  refuses: ['PERMISSION_DENIED'],
  before({ outgoing, upstream }) {
    passed.push(`denyForbidden ${upstream?.name}`);
    if (outgoing.bytes.includes('"forbidden"')) throw new AmbitError('PERMISSION_DENIED', { rule: 'test.forbidden' });
  },
};
const signReplies: AfterStage<PreparedExchange, FinalReply> = {
  name: 'signReplies',
  refuses: [],
  after(_, reply) {
    passed.push('signReplies');
    if (reply.kind !== 'message') return reply;
    return { ...reply, bytes: Buffer.from(reply.bytes.toString().replace('"content":[', '"signed":true,"content":[')) };
  },
};
const askTwice: AroundStage<PreparedExchange, unknown, FinalReply> = {
  name: 'askTwice',
  refuses: [],
  isNeeded: ({ isToolCall }) => isToolCall,
  async around(exchange, next) {
    passed.push('askTwice');
    await next(exchange);
    return next(exchange);
  },
};

function insertAfter(list: Requests, name: string, ...added: readonly ListedStage<FinalReply>[]): Requests {
  const place = list.stages.findIndex((each) => each.name === name) + 1;
  expect(place).toBeGreaterThan(0);
  return { ...list, stages: list.stages.toSpliced(place, 0, ...added) };
}

let folder: string;
let gateway: Gateway;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-stages-'));
  const configFile = join(folder, 'ambit.yaml');
  const servers = {
    keep: { ...defineServer('modern'), env: { ERA: 'modern', MARK: 'done', SEEN: join(folder, 'seen') } },
  };
  const text = JSON.stringify({ version: 1, sessions: { defaultTrust: 'direct' }, store: { kind: 'memory' }, servers });
  const { config } = await loadConfig({ text, file: configFile });
  gateway = await openGateway({
    config,
    configFile,
    dataDir: join(folder, 'data'),
    log: { info() {}, warn() {} },
    arrangeStages: (list) => insertAfter(list, 'requireApprovedTools', denyForbidden, signReplies, askTwice),
  });
});
afterAll(async () => {
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});

const addresses = [
  { address: '/mcp', at: '*', server: 'keep', tool: 'keep__mark' },
  { address: '/mcp', at: '*', server: 'ambit', tool: 'session_info' },
  { address: '/mcp/keep', at: 'keep', server: 'keep', tool: 'mark' },
  { address: '/mcp/ambit', at: 'ambit', server: 'ambit', tool: 'session_info' },
];

describe.each(eras)('in the %s era', (era) => {
  test.each(addresses)('a stage of each kind that is added holds at $address for $tool', async (each) => {
    const { record } = await gateway.openSession({});
    const client = await createRawClient(createInProcessTransport(gateway, record.id, each.at), era);
    await client.request('tools/list');
    passed.length = 0;
    const { result } = await client.request('tools/call', { name: each.tool, arguments: { session: 'current' } });
    expect(result).toMatchObject({ signed: true });
    // `askTwice` is the last of the three: the destination is reached twice, the stages before it are passed once.
    expect(passed).toEqual([`denyForbidden ${each.server}`, 'askTwice', 'signReplies']);

    const refused = await client.request('tools/call', { name: each.tool, arguments: { forbidden: 1 } });
    expect(refused.result).toMatchObject({
      isError: true,
      _meta: { 'ambit/error': { code: 'PERMISSION_DENIED', rule: 'test.forbidden' } },
    });
    const line = () =>
      readJournal(join(folder, 'data')).find(
        (each) => each['sessionId'] === record.id && each['rule'] === 'test.forbidden',
      );
    await expect.poll(line).toBeDefined();
    expect(line()).toMatchObject({ name: each.tool, server: each.server, outcome: 'PERMISSION_DENIED' });
    await client.close();
  });
});

test('the server has seen the allowed calls twice and the refused ones never', () => {
  expect(readFileSync(join(folder, 'seen'), 'utf8')).toBe('mark\n'.repeat(2 * 2 * eras.length));
});
