import { EventEmitter, once } from 'node:events';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { repository } from '../../structure/source-files.ts';
import { createClaims, createMeta, createSigner } from './signer.ts';

const signer = await createSigner();

/** The example as Ambit starts it, or, without an environment, as somebody starts it by hand. */
async function start(mode: 'auto' | 'legacy', env: Record<string, string> = {}) {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [join(repository, 'examples', 'who-calls', 'server.js')],
    env: { PATH: process.env.PATH ?? '', ...env },
    stderr: 'pipe',
  });
  let said = '';
  const heard = new EventEmitter();
  transport.stderr?.on('data', (chunk) => {
    said += chunk;
    heard.emit('line');
  });
  const client = new Client({ name: 'c', version: '1' }, { versionNegotiation: { mode } });
  await client.connect(transport);
  return {
    client,
    /** Lines on stderr come through a pipe of their own, at any time. */
    async logged(line: RegExp) {
      while (!line.test(said)) await once(heard, 'line');
      return said;
    },
    async call(name: string, args: Record<string, unknown> = {}, _meta?: object) {
      const result = await client.callTool({ name, arguments: args, ...(_meta && { _meta: _meta as never }) });
      return (result.content as { text: string }[])[0]?.text ?? '';
    },
  };
}

const inSession = (trust: string) => ({
  AMBIT_SESSION_ID: 'abcdefgh-the-rest-is-not-logged',
  AMBIT_WORKSPACE_ID: 'garden',
  AMBIT_TRUST_LEVEL: trust,
  AMBIT_USER_ID: 'ada',
  AMBIT_JWKS: JSON.stringify(signer.jwks),
});

// Without Ambit it is asked in the other way.
test.each(proof ? (['legacy', 'auto'] as const) : (['legacy'] as const))(
  'P11, O4: the example (%s) logs who calls it, answers for its workspace, keeps what destroys for direct sessions',
  async (mode) => {
    const { client, call, logged } = await start(mode, inSession('sandboxed'));
    const log = await logged(/^who-calls: session=abcdefgh workspace=garden trust=sandboxed \(inherited\)$/m);
    expect(log).not.toContain('the-rest');

    const { tools } = await client.listTools();
    expect(tools).toHaveLength(3);
    for (const { inputSchema } of tools) {
      expect(inputSchema.properties).toHaveProperty('workspace');
      expect(inputSchema.required ?? []).not.toContain('workspace');
    }
    expect(await call('list_notes')).toBe('Water the beans.');
    expect(await call('list_notes', { workspace: 'kitchen' })).toMatch(/^WORKSPACE_NOT_FOUND/);
    expect(await call('delete_all_notes')).toMatch(/^TRUST_REQUIRED/);

    const signed = async (name: string) => {
      const claims = createClaims({ name, workspace: 'kitchen', session: 'zyxwvuts-other', trust: 'direct' });
      return createMeta(await signer.sign(claims), claims);
    };
    expect(await call('list_notes', {}, await signed('list_notes'))).toBe('Buy flour.');
    await logged(/list_notes session=zyxwvuts workspace=kitchen trust=direct \(verified\)/);
    expect(await call('delete_all_notes', {}, await signed('delete_all_notes'))).toBe('Deleted the notes of kitchen.');
    await client.close();
  },
);

test('P9: the example works without Ambit, and says so', async () => {
  const { client, call, logged } = await start('auto');
  await logged(/started without a session: This server was started without Ambit/);
  expect(await call('list_notes')).toMatch(/^WORKSPACE_REQUIRED/);
  expect(await call('list_notes', { workspace: 'kitchen' })).toBe('Buy flour.');
  expect(await call('delete_all_notes', { workspace: 'kitchen' })).toMatch(/^TRUST_REQUIRED/);
  await client.close();
});
