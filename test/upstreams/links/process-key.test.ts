import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ServerDefinition } from '../../../src/upstreams/definition.ts';
import {
  isShared,
  type ProcessOwner,
  type ProcessScope,
  processKey,
  processScopeFor,
  runFolderName,
} from '../../../src/upstreams/links/process-key.ts';

const scopes: readonly ProcessScope[] = ['call', 'session', 'user', 'workspace', 'shared'];
const word = fc.constantFrom('a', 'b', '","', '"]', '', 'null');
const facts: fc.Arbitrary<ProcessOwner> = fc.record({
  id: word,
  userId: word,
  workspaceId: fc.option(word, { nil: undefined }),
  trustLevel: fc.constantFrom('direct', 'sandboxed'),
});
/** What has to be equal for a process to be shared. */
const shares: Readonly<Record<ProcessScope, readonly (keyof ProcessOwner)[]>> = {
  call: ['id', 'workspaceId', 'trustLevel'],
  session: ['id', 'workspaceId', 'trustLevel'],
  user: ['userId', 'workspaceId', 'trustLevel'],
  workspace: ['workspaceId', 'trustLevel'],
  shared: ['trustLevel'],
};

describe.each(scopes)('scope %s', (scope) => {
  test('P8: a process is shared exactly by those for whom all that it is told is true, and never across trust levels', () => {
    fc.assert(
      fc.property(facts, facts, (one, other) => {
        const equal = shares[scope].every((field) => one[field] === other[field]);
        expect(processKey(scope, one) === processKey(scope, other)).toBe(equal);
        expect(runFolderName(scope, 's', one) === runFolderName(scope, 's', other)).toBe(equal);
        if (one.trustLevel !== other.trustLevel) expect(processKey(scope, one)).not.toBe(processKey(scope, other));
      }),
    );
  });

  test('its folder is a plain name, and each server has its own', () => {
    const anyone = { id: 'i', userId: '../../u', workspaceId: 'w', trustLevel: 'direct' } as const;
    expect(runFolderName(scope, 's', anyone)).toMatch(/^[a-z]+-[0-9a-f]{24}$/);
    expect(runFolderName(scope, 's', anyone)).not.toBe(runFolderName(scope, 't', anyone));
  });
});

test('a session in no workspace shares a process of that scope with nobody; over HTTP nothing is shared', () => {
  const server = (kind: string, scope: ProcessScope) => ({ kind, scope }) as unknown as ServerDefinition;
  expect(processScopeFor(server('stdio', 'workspace'), { workspaceId: undefined }, false)).toBe('session');
  expect(processScopeFor(server('stdio', 'workspace'), { workspaceId: 'w' }, false)).toBe('workspace');
  expect(processScopeFor(server('http', 'shared'), { workspaceId: 'w' }, false)).toBe('session');
  expect(scopes.map((scope) => processScopeFor(server('stdio', scope), { workspaceId: 'w' }, true))).toEqual(
    scopes.map((scope) => (scope === 'user' || scope === 'workspace' ? 'session' : scope)),
  );
  expect(scopes.filter(isShared)).toEqual(['user', 'workspace', 'shared']);
});
