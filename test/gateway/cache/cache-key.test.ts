import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type CacheSharing,
  callDigest,
  type PartitionSession,
  partitionOf,
} from '../../../src/gateway/cache/call-cache.ts';
import { readMessage } from '../../../src/protocol/message.ts';
import { counts } from '../../proof.ts';

const digestParams = (params: string) =>
  callDigest(readMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`)));
const plain = digestParams('{"name":"t","arguments":{"a":1,"b":[true,null]}}');

describe('what a call asks', () => {
  test.each([
    '{"arguments":{"b":[true,null],"a":1},"name":"t"}',
    '{ "name" : "t", "arguments" : { "a" : 1.0, "b" : [ true, null ] } }',
    '{"name":"t","arguments":{"\\u0061":1,"b":[true,null]},"_meta":{}}',
    '{"name":"t","arguments":{"a":1,"b":[true,null]},"_meta":{"progressToken":7,"traceparent":"00-x"}}',
  ])('is the same however it is written: %s', (params) => {
    expect(plain).toBeDefined();
    expect(digestParams(params)).toBe(plain);
  });

  test('a call without arguments asks what one with none does', () => {
    expect(digestParams('{"name":"t"}')).toBe(digestParams('{"name":"t","arguments":{}}'));
  });

  test.each([
    '{"name":"t","arguments":{"a":2,"b":[true,null]}}',
    '{"name":"t","arguments":{"a":"1","b":[true,null]}}',
    '{"name":"t","arguments":{"a":1,"b":[null,true]}}',
    '{"name":"t","arguments":{"a":1,"b":[true,null],"c":null}}',
    '{"name":"t","arguments":{"a":1,"b":[true,null]},"_meta":{"tenant":"x"}}',
    '{"name":"t","arguments":{"a":1,"b":[true,null],"__proto__":{}}}',
  ])('is another with anything else: %s', (params) => {
    expect(digestParams(params)).toBeDefined();
    expect(digestParams(params)).not.toBe(plain);
  });

  test.each([
    ['a number no double holds', '{"name":"t","arguments":{"a":12345678901234567890}}'],
    ['half a character', '{"name":"t","arguments":{"a":"\\ud800"}}'],
    ['a name twice', '{"name":"t","arguments":{"a":1,"a":2}}'],
    ['arguments twice', '{"name":"t","arguments":{"a":1},"arguments":{"a":2}}'],
    ['the tool twice', '{"name":"t","name":"u","arguments":{}}'],
    ['another spelling', '{"name":"t","Arguments":{"a":1}}'],
    ['an answer to a question', '{"name":"t","arguments":{},"inputResponses":{}}'],
    ['a state to go on from', '{"name":"t","arguments":{},"requestState":"s"}'],
    ['a task', '{"name":"t","arguments":{},"task":{"ttl":1}}'],
    ['anything unknown', '{"name":"t","arguments":{},"x":1}'],
  ])('has no digest with %s', (_what, params) => {
    let digest: string | undefined;
    try {
      digest = digestParams(params);
    } catch {
      // Then it is no message at all.
    }
    expect(digest).toBeUndefined();
  });

  test('different arguments never have the same', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.dictionary(fc.string(), fc.jsonValue()),
        (one, two) => {
          const [a, b] = [one, two].map((args) => digestParams(`{"name":"t","arguments":${JSON.stringify(args)}}`));
          if (a !== undefined && a === b)
            expect(JSON.parse(JSON.stringify(one))).toEqual(JSON.parse(JSON.stringify(two)));
        },
      ),
    );
  });
});

const session: fc.Arbitrary<PartitionSession> = fc.record({
  id: fc.constantFrom('s1', 's2', 's3'),
  userId: fc.constantFrom('ada', 'eve', '', 's1', 'w1'),
  workspaceId: fc.constantFrom(undefined, 'w1', 'w2', 'ada'),
  trustLevel: fc.constantFrom('direct', 'sandboxed'),
  permissions: fc.constantFrom<string[][]>([], ['a'], ['b'], ['a', 'b'], ['b', 'a'], ['a,b'], ['a', 'a']),
});
const pers = fc.constantFrom<CacheSharing[]>('session', 'user', 'workspace');
const personal = fc.constantFrom('', 'ada 1', 'eve 1');

describe('L7: who shares a result', () => {
  test('only those of equal trust, permissions and workspace, and of the one thing that was chosen', () => {
    const isSameJson = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
    const sortPermissions = ({ permissions }: PartitionSession) => [...new Set(permissions)].sort();
    fc.assert(
      fc.property(pers, session, session, personal, personal, (per, a, b, x, y) => {
        const [one, two] = [partitionOf(per, a, x), partitionOf(per, b, y)];
        const alone = per === 'session' || (per === 'workspace' && a.workspaceId === undefined);
        const may =
          a.workspaceId === b.workspaceId &&
          a.trustLevel === b.trustLevel &&
          isSameJson(sortPermissions(a), sortPermissions(b)) &&
          x === y &&
          (alone ? a.id === b.id : per === 'user' || x !== '' ? a.userId === b.userId : true);
        expect(one.name === two.name).toBe(may);
        if (one.owner !== undefined) expect(one.owner).toBe(a.id);
        expect(one.owner !== undefined).toBe(alone);
        if (may && a.userId !== b.userId && !alone) expect(one.severalUsers).toBe(true);
      }),
      { numRuns: counts(600, 200_000) },
    );
  });

  test('partitions of different kinds never meet', () => {
    fc.assert(
      fc.property(session, session, personal, (a, b, x) => {
        const names = new Set((['session', 'user', 'workspace'] as const).map((per) => partitionOf(per, a, x).name));
        expect(names.size).toBe(a.workspaceId === undefined ? 2 : 3);
        expect(partitionOf('user', a, x).name).not.toBe(partitionOf('session', b, x).name);
      }),
    );
  });
});
