import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type ContextKey, createContextKey } from '../../../src/context/for-tools/context-key.ts';
import type { ContextProblem } from '../../../src/public/sdk/index.ts';
import { findProgram } from '../../needs/program.ts';
import { repository } from '../../structure/source-files.ts';
import { createClaims, createMeta, createSigner } from './signer.ts';

const signer = await createSigner();
const reference = await readFile(join(repository, 'docs/reference/context.md'), 'utf8');
const guide = await readFile(join(repository, 'docs/how-to/secure-a-tool.md'), 'utf8');

function blocks(page: string, language: string): string[] {
  return [...page.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    (match) => match[1] as string,
  );
}

const python = findProgram('Python with PyJWT');

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-context-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

async function runPython(code: string, env: NodeJS.ProcessEnv = {}, input: unknown = null): Promise<unknown> {
  const file = join(folder, 'given.json');
  await writeFile(file, JSON.stringify(input));
  const script = `import json, sys\ngiven = json.load(open(sys.argv[1]))\n${code}`;
  const { stdout } = await promisify(execFile)(python as string, ['-c', script, file], {
    env: { PATH: process.env.PATH, ...env },
  });
  return JSON.parse(stdout);
}

test('P11: the server of the guide works as described', async () => {
  const [code = ''] = blocks(guide, 'js');
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: ['--input-type=module', '-e', code],
    cwd: repository,
    env: { PATH: process.env.PATH ?? '', AMBIT_JWKS: JSON.stringify(signer.jwks) },
    stderr: 'ignore',
  });
  const client = new Client({ name: 'guide', version: '1' }, { versionNegotiation: { mode: 'auto' } });
  await client.connect(transport);
  const call = async (asked: object) => {
    const claims = createClaims({ canonical: '{"id":"1"}', ...asked });
    const _meta = createMeta(await signer.sign(claims), claims);
    const result = await client.callTool({ name: 'delete_note', arguments: { id: '1' }, _meta } as never);
    return (result.content as { text: string }[])[0]?.text;
  };
  expect(await call({})).toBe('Deleted 1 from garden.');
  expect(await call({ trust: 'sandboxed' })).toMatch(/^TRUST_REQUIRED/);
  expect(await call({ permissions: [] })).toMatch(/^PERMISSION_DENIED/);
  expect(await call({ workspace: null })).toMatch(/^WORKSPACE_REQUIRED/);
  await client.close();
});

test('every code has its line in the reference', async () => {
  const source = await readFile(join(repository, 'src/public/sdk/context.ts'), 'utf8');
  const [problems = ''] = /^export type ContextProblem =[^;]*;/m.exec(source) ?? [];
  const codes = [...problems.matchAll(/^ {2}\| '([A-Z_]+)'/gm)].map((match) => match[1] as ContextProblem);
  expect(codes.length).toBeGreaterThan(20);
  for (const code of codes) expect(reference).toContain(`\`${code}\``);
});

test('the claims of the reference are those of the tests', () => {
  const shown = JSON.parse(blocks(reference, 'json')[0] ?? '') as ReturnType<typeof createClaims>;
  const made = createClaims();
  expect(Object.keys(shown).sort()).toEqual(Object.keys(made).sort());
  expect(Object.keys(shown.tctx).sort()).toEqual(Object.keys(made.tctx).sort());
  expect(shown.tctx.argsSha256).toBe(made.tctx.argsSha256);
  expect(shown.exp - shown.iat).toBe(60);
});

const [readEnvironment = '', verifyToken = ''] = blocks(reference, 'python');

test.skipIf(python === undefined)(
  'P11: in Python the environment is read with the standard library alone',
  async () => {
    const code = `${readEnvironment}\nprint(json.dumps(started_for()))`;
    const env = {
      AMBIT_SESSION_ID: 's-1',
      AMBIT_WORKSPACE_ID: '',
      AMBIT_TRUST_LEVEL: 'sandboxed',
      AMBIT_USER_ID: 'ada',
    };
    expect(await runPython(code, env)).toEqual({
      sessionId: 's-1',
      userId: 'ada',
      agentId: null,
      workspaceId: null,
      workspacePath: null,
      trustLevel: 'sandboxed',
    });
    expect(await runPython(code, { AMBIT_SESSION_ID: 's', AMBIT_TRUST_LEVEL: 'root' })).toMatchObject({
      trustLevel: null,
    });
    expect(await runPython(code)).toBeNull();
  },
);

test.skipIf(python === undefined)('P12: in Python the token is verified with a standard JWT library', async () => {
  const args = { b: [1, 'é'], a: true };
  const asked = { canonical: '{"a":true,"b":[1,"é"]}' };
  const stranger = await createSigner();
  const [key, octet] = [createContextKey(), createContextKey()];
  const signWithSecret = ({ kid, sign, alg = 'HS256' }: Pick<ContextKey, 'kid' | 'sign'> & { alg?: string }) => {
    const parts = [{ alg, typ: 'txntoken+jwt', kid }, createClaims(asked)];
    const text = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
    return `${text}.${sign(text)}`;
  };
  const good = await signer.sign(createClaims(asked));
  const call = { token: good, aud: 'ambit:server:notes', name: 'delete_note', args: args as object };
  const cases = [
    call,
    call,
    { ...call, token: await signer.sign(createClaims(asked), { alg: 'EdDSA' }) },
    { ...call, token: await signer.sign(createClaims(asked)), name: 'other' },
    { ...call, token: await signer.sign(createClaims(asked)), args: { a: true } },
    { ...call, token: await signer.sign(createClaims(asked)), aud: 'ambit:server:files' },
    { ...call, token: await signer.sign(createClaims(asked), { typ: 'JWT' }) },
    { ...call, token: await stranger.sign(createClaims(asked)) },
    { ...call, token: await stranger.sign(createClaims(asked), { kid: signer.kid }) },
    { ...call, token: await signer.sign(createClaims({ ...asked, now: Date.now() - 120_000 })) },
    { ...call, token: await signer.sign({ ...createClaims(asked), exp: createClaims(asked).iat + 3600 }) },
    { ...call, token: await signer.sign(createClaims({ ...asked, trust: 'root' })) },
    { ...call, token: signWithSecret(key) },
    { ...call, token: signWithSecret(createContextKey()) },
    { ...call, token: signWithSecret({ ...createContextKey(), kid: key.kid }) },
    { ...call, token: signWithSecret({ ...key, kid: signer.kid }) },
    { ...call, token: signWithSecret({ ...key, alg: 'EdDSA' }) },
    { ...call, token: signWithSecret({ ...key, kid: octet.kid, sign: octet.sign }) },
  ];
  const keyFile = join(folder, 'context-key.json');
  await writeFile(keyFile, key.jwk, { mode: 0o600 });
  const jwks = { keys: [...signer.jwks.keys, JSON.parse(octet.jwk) as object] };
  const code = `${verifyToken}
said = []
for c in given["cases"]:
    try:
        claims = verify(c["token"], given["jwks"], c["aud"], "tools/call", c["name"], c["args"], given["keyFile"])
        said.append(claims["sub"])
    except jwt.InvalidTokenError as error:
        said.append("refused: " + str(error))
print(json.dumps(said))`;
  expect(await runPython(code, {}, { jwks, keyFile, cases })).toEqual([
    'ada',
    'refused: used before',
    'ada',
    'refused: meant for another call',
    'refused: meant for other arguments',
    expect.stringMatching(/^refused: .*audience/i),
    'refused: not a transaction token',
    'refused: the key is not among the keys',
    expect.stringMatching(/^refused: Signature verification failed/),
    expect.stringMatching(/^refused: Signature has expired/),
    'refused: lives too long',
    'refused: of an unknown trust level',
    'ada',
    'refused: not signed with the key of this process',
    expect.stringMatching(/^refused: Signature verification failed/),
    expect.stringMatching(/^refused: .*alg/i),
    expect.stringMatching(/^refused: .*alg/i),
    'refused: not signed with the key of this process',
  ]);
});
