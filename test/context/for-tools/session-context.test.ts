import { readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ToolContext } from '../../../src/context/for-tools/session-context.ts';
import { explainInjection, injectSessionContext } from '../../../src/context/for-tools/session-context.ts';
import { isAmbitError } from '../../../src/errors.ts';
import { proof } from '../../proof.ts';
import { runBench } from '../../run-bench.ts';
import { repository } from '../../structure/source-files.ts';

const context: ToolContext = {
  sessionId: 'sess_abc123',
  workspaceId: 'my-project',
  trustLevel: 'sandboxed',
  userId: 'idp.example.com|4711',
  agentId: 'coder',
  workspacePath: '/srv/my-project',
};
const told = {
  AMBIT_SESSION_ID: 'sess_abc123',
  AMBIT_WORKSPACE_ID: 'my-project',
  AMBIT_TRUST_LEVEL: 'sandboxed',
  AMBIT_USER_ID: 'idp.example.com|4711',
  AMBIT_AGENT_ID: 'coder',
  AMBIT_WORKSPACE_PATH: '/srv/my-project',
};

function refusal(act: () => unknown): string {
  try {
    act();
  } catch (error) {
    if (isAmbitError(error)) return `${error.code}: ${error.message}`;
    throw error;
  }
  return 'nothing was refused';
}

describe('P1: the context of a stdio server', () => {
  test('session, workspace, trust level, user, agent and path; the rest of it stays', () => {
    const servers = {
      notes: { command: 'node', args: ['notes.js'], env: { NOTES_DIR: '/srv/notes' }, disabled: false },
    };
    expect(injectSessionContext(servers, context)).toEqual({
      notes: { command: 'node', args: ['notes.js'], env: { NOTES_DIR: '/srv/notes', ...told }, disabled: false },
    });
  });

  test.each([undefined, null, ''])('a workspace of %j is the empty string', (workspaceId) => {
    const { x } = injectSessionContext({ x: { command: 'y' } }, { ...context, workspaceId });
    expect(x?.env).toMatchObject({ AMBIT_WORKSPACE_ID: '' });
  });

  test('absent values are left out, and the keys are included when there are some', () => {
    const some = { sessionId: 's1', trustLevel: 'direct', jwks: '{"keys":[]}' };
    expect(injectSessionContext({ x: { command: 'y' } }, some)['x']?.env).toEqual({
      AMBIT_SESSION_ID: 's1',
      AMBIT_WORKSPACE_ID: '',
      AMBIT_TRUST_LEVEL: 'direct',
      AMBIT_JWKS: '{"keys":[]}',
    });
    expect(injectSessionContext({ x: { command: 'y' } }, { jwks: '{}' })['x']?.env).toEqual({ AMBIT_JWKS: '{}' });
  });

  test('the names are repeated under each prefix', () => {
    const env = injectSessionContext({ x: { command: 'y' } }, context, { prefixes: ['AMBIT', 'PARACHUTE'] })['x']?.env;
    const again = Object.fromEntries(Object.entries(told).map(([n, v]) => [n.replace('AMBIT', 'PARACHUTE'), v]));
    expect(env).toEqual({ ...told, ...again });
  });

  test('a server over HTTP has no environment', () => {
    const servers = { web: { url: 'https://x.example/mcp', headers: { A: 'b' } } };
    expect(injectSessionContext(servers, context)).toEqual(servers);
  });
});

test('P2: the input is never changed, frozen or not, and nothing of it is shared where it was widened', () => {
  const deep = Object.freeze({ a: Object.freeze({ command: 'x', env: Object.freeze({ A: 'b' }) }) });
  const before = JSON.stringify(deep);
  const after = injectSessionContext(deep, context);
  expect(JSON.stringify(deep)).toBe(before);
  expect(after).not.toBe(deep);
  expect(after['a']?.env).not.toBe(deep.a.env);
});

test('odd names stay own names: nothing reaches a prototype', () => {
  const servers = JSON.parse('{"__proto__":{"command":"x","env":{"__proto__":"y","constructor":"z"}}}') as Record<
    string,
    { command: string; env: Record<string, string> }
  >;
  const after = injectSessionContext(servers, context, { overrides: {} });
  expect(Object.keys(after)).toEqual(['__proto__']);
  const { env } = Object.values(after)[0] as { env: Record<string, string> };
  expect(Object.entries(env)).toEqual(
    expect.arrayContaining([
      ['__proto__', 'y'],
      ['constructor', 'z'],
      ['AMBIT_TRUST_LEVEL', 'sandboxed'],
    ]),
  );
});

describe('P3: names the operator has set', () => {
  const env = { AMBIT_SESSION_ID: 'fixed', AMBIT_TRUST_LEVEL: 'direct', ambit_user_id: 'x', OTHER: 'o' };

  test('stay and are shown as pinned, but nobody pins the trust level', () => {
    const { servers, provenance } = explainInjection({ x: { command: 'y', env } }, context);
    expect(servers['x']?.env).toEqual({ ...told, AMBIT_SESSION_ID: 'fixed', ambit_user_id: 'x', OTHER: 'o' });
    expect(provenance['x']).toEqual({
      AMBIT_SESSION_ID: 'pinned',
      AMBIT_WORKSPACE_ID: 'injected',
      AMBIT_TRUST_LEVEL: 'injected',
      AMBIT_USER_ID: 'injected',
      AMBIT_AGENT_ID: 'injected',
      AMBIT_WORKSPACE_PATH: 'injected',
      ambit_user_id: 'configured',
      OTHER: 'configured',
    });
  });

  test('a pinned trust level does not even survive where none is told, or under another prefix only', () => {
    expect(injectSessionContext({ x: { command: 'y', env } }, { sessionId: 's' })['x']?.env).not.toHaveProperty(
      'AMBIT_TRUST_LEVEL',
    );
    const only = injectSessionContext({ x: { command: 'y', env } }, context, { prefixes: ['PARACHUTE'] })['x']?.env;
    expect(only).not.toHaveProperty('AMBIT_TRUST_LEVEL');
    expect(only).toMatchObject({ PARACHUTE_TRUST_LEVEL: 'sandboxed' });
  });

  test('a prefix said twice pins nothing', () => {
    const { provenance } = explainInjection({ x: { command: 'y' } }, context, { prefixes: ['AMBIT', 'AMBIT'] });
    expect(new Set(Object.values(provenance['x'] ?? {}))).toEqual(new Set(['injected']));
  });

  describe.each(['imported', 'project'] as const)('from a file of source %s', (source) => {
    test.each(['AMBIT_SESSION_ID', 'AMBIT_TRUST_LEVEL', 'ambit_session_id', 'AMBIT_JWKS', 'PARACHUTE_USER_ID'])(
      '%s is refused, naming server and variable',
      (name) => {
        const servers = { fine: { command: 'a' }, notes: { command: 'b', env: { [name]: 'secret' } } };
        const words = refusal(() => injectSessionContext(servers, context, { source }));
        expect(words).toContain(`CONFIG_INVALID: The server "notes" cannot be started with the variable ${name}`);
        expect(words).not.toContain('secret');
      },
    );

    test('so are the names of a prefix that only this configuration has', () => {
      const servers = { x: { command: 'b', env: { ORBIT_TRUST_LEVEL: 'direct' } } };
      const options = { source, prefixes: ['AMBIT', 'ORBIT'] };
      expect(refusal(() => injectSessionContext(servers, context, options))).toContain('ORBIT_TRUST_LEVEL');
    });

    test.each([
      ['LD_PRELOAD', 'x'],
      ['DYLD_INSERT_LIBRARIES', 'x'],
      ['NODE_OPTIONS', '--require x'],
      ['PYTHONSTARTUP', 'x'],
      ['PATH', '/evil'],
      ['FINE', 'a\u0000b'],
      ['FINE', 'a\nLD_PRELOAD=x'],
    ])('%s=%j is refused', (name, value) => {
      const servers = { x: { command: 'b', env: { [name]: value } } };
      expect(refusal(() => injectSessionContext(servers, context, { source }))).toContain('CONFIG_INVALID');
    });
  });
});

describe('P7: variables of a workspace', () => {
  const servers = { x: { command: 'y', env: { A: 'configured', B: 'b' } }, z: { command: 'y' } };

  test('are set last, for the server they name only', () => {
    const { servers: after, provenance } = explainInjection(servers, context, { overrides: { x: { A: 'w', C: 'c' } } });
    expect(after['x']?.env).toEqual({ ...told, A: 'w', B: 'b', C: 'c' });
    expect(provenance['x']).toMatchObject({ A: 'workspace', B: 'configured', C: 'workspace' });
    expect(after['z']?.env).toEqual(told);
  });

  test.each(['AMBIT_TRUST_LEVEL', 'AMBIT_SESSION_ID', 'ambit_trust_level', 'LD_PRELOAD', 'NODE_OPTIONS'])(
    'never are %s',
    (name) => {
      const overrides = { x: { [name]: 'direct' } };
      expect(refusal(() => injectSessionContext(servers, context, { overrides }))).toContain(
        `"x" cannot be started with the variable ${name}`,
      );
    },
  );

  test('are not looked for on a prototype', () => {
    const overrides = Object.create({ x: { A: 'inherited' } }) as Record<string, Record<string, string>>;
    expect(injectSessionContext(servers, context, { overrides })['x']?.env?.['A']).toBe('configured');
  });
});

describe('P6: what enters is checked', () => {
  test.each([
    ['trusted', 'direct'],
    ['untrusted', 'sandboxed'],
  ])('trust "%s" is told as %s', (trustLevel, level) => {
    const { x } = injectSessionContext({ x: { command: 'y' } }, { ...context, trustLevel });
    expect(x?.env).toMatchObject({ AMBIT_TRUST_LEVEL: level });
  });

  test.each([
    { trustLevel: 'root' },
    { trustLevel: 'Direct' },
    { trustLevel: '' },
    { trustLevel: 'constructor' },
    { sessionId: '' },
    { sessionId: 'a b' },
    { sessionId: 'a\nAMBIT_TRUST_LEVEL=direct' },
    { sessionId: '../x' },
    { workspaceId: 'A' },
    { workspaceId: '../x' },
    { userId: 'a\u0000b' },
    { userId: '' },
    { agentId: 'a\nb' },
    { workspacePath: '/a\u0000b' },
    { sessionId: 5 as unknown as string },
  ])('%j is refused', (wrong) => {
    expect(refusal(() => injectSessionContext({ x: { command: 'y' } }, { ...context, ...wrong }))).toContain(
      `REQUEST_INVALID: The ${Object.keys(wrong)[0]} of the context is not valid`,
    );
  });

  test.each([[[]], [['ambit']], [['AMBIT_']], [['A=B']], [['']]])('prefixes %j are refused', (prefixes) => {
    expect(refusal(() => injectSessionContext({}, context, { prefixes }))).toContain('CONFIG_INVALID');
  });
});

test('P4: whatever a server brings along, what it is told about its trust is ours', () => {
  const name = fc.oneof(fc.constantFrom(...Object.keys(told)), fc.string({ minLength: 1 }));
  const envs = fc.dictionary(name, fc.string());
  fc.assert(
    fc.property(envs, envs, (env, other) => {
      const { servers, provenance } = explainInjection(
        { x: { command: 'y', env }, z: { command: 'y', env: other } },
        context,
      );
      for (const [server, brought] of [
        ['x', env],
        ['z', other],
      ] as const) {
        const after = servers[server]?.env ?? {};
        expect(after['AMBIT_TRUST_LEVEL']).toBe('sandboxed');
        expect(Object.keys(provenance[server] ?? {}).sort()).toEqual(Object.keys(after).sort());
        const kept = Object.entries(brought).filter(([each]) => each !== 'AMBIT_TRUST_LEVEL');
        for (const [each, value] of kept) expect(after[each]).toBe(value);
        expect(Object.keys(after).length).toBe(new Set([...Object.keys(brought), ...Object.keys(told)]).size);
      }
    }),
  );
});

describe('P10: injection costs little', () => {
  /** An object that counts how often its members are read. */
  function countReads<T extends object>(target: T, counter: { reads: number }): T {
    return new Proxy(target, {
      get(...args) {
        counter.reads++;
        return Reflect.get(...args);
      },
    });
  }

  function countFor(servers: number) {
    const [ofContext, ofServers] = [{ reads: 0 }, { reads: 0 }];
    const all = Array.from({ length: servers }, (_, i) => [
      `server-${i}`,
      countReads({ command: 'node', env: countReads({ A: 'a' }, ofServers) }, ofServers),
    ]);
    const overrides = Object.fromEntries(all.map(([name]) => [name, { B: 'b' }]));
    injectSessionContext(Object.fromEntries(all), countReads(context, ofContext), { overrides });
    return { context: ofContext.reads, perServer: ofServers.reads / servers };
  }

  test('the context is read once for all servers, and each server as often as if it were the only one', () => {
    const one = countFor(1);
    expect(one.perServer).toBeGreaterThan(0);
    expect(countFor(10)).toEqual(one);
    expect(countFor(1000)).toEqual(one);
  });

  test('it loads nothing that could wait: no file, no process, no network', () => {
    const files = new Set<string>();
    const outside = new Set<string>();
    (function visit(file: string): void {
      if (files.has(file)) return;
      files.add(file);
      for (const [, name = ''] of readFileSync(file, 'utf8').matchAll(/\b(?:from|import)\b[ (]*['"]([^'"]+)['"]/g)) {
        if (name.startsWith('.')) visit(resolve(dirname(file), name));
        else outside.add(name);
      }
    })(join(repository, 'build/context/for-tools/session-context.js'));
    expect(files.size).toBeGreaterThan(3);
    expect([...outside]).toEqual([]);
  });

  test.runIf(proof)('the context of ten servers takes less than a millisecond', async () => {
    const { medianMs, goalMs } = await runBench<Record<string, number>>('injection.js', 'measureInjection');
    expect(medianMs).toBeLessThan(goalMs as number);
  });
});
