// Ambit as a user runs it: `ambit serve` with one server, and one session per load session.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { firstLine, run, start, stop } from './processes.js';

const bin = fileURLToPath(new URL('../bin/ambit.js', import.meta.url));
const CREATE_AT_ONCE = 4;

export async function startAmbit({ server, sessions, pinned, context, rules }) {
  const home = mkdtempSync(join(tmpdir(), 'ambit-bench-'));
  const remove = () => rmSync(home, { recursive: true, force: true });
  process.on('exit', remove);
  const flags = ['--config', join(home, 'ambit.yaml'), '--data-dir', join(home, 'data')];
  writeFileSync(join(home, 'ambit.yaml'), configuration(server, context, rules));
  const gateway = start(process.execPath, [bin, 'serve', ...flags, '--port', '0', '--json'], { pinned });

  const close = async () => {
    await stop(gateway);
    remove();
    process.off('exit', remove);
  };
  try {
    const { url } = JSON.parse(await firstLine(gateway));
    const { pid } = gateway.child;
    return { url: `${url}/mcp/trivial`, tokens: await createSessions(sessions, flags), pid, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function createSessions(count, flags) {
  const names = Array.from({ length: count }, (_, index) => `s${index + 1}`);
  const tokens = [];
  while (tokens.length < count) {
    const batch = names.slice(tokens.length, tokens.length + CREATE_AT_ONCE);
    tokens.push(...(await Promise.all(batch.map((name) => createSession(name, flags)))));
  }
  return tokens;
}

async function createSession(name, flags) {
  const args = [bin, 'session', 'create', '--trust', 'direct', '--name', name, '--json', ...flags];
  return JSON.parse(await run(process.execPath, args)).token;
}

// Both rules are evaluated for every call: the first denies nothing, and without the second nothing would be allowed.
const ruleLines = [
  'rules:',
  "  - { id: no-secrets, deny: 'trivial__*', when: \"session.trustLevel == 'sandboxed' || args.text.contains('password')\" }",
  "  - { id: echo-only, allow: 'trivial__echo', when: 'size(args.text) < 1000' }",
];

// The quota stays in force and is counted; its default would stop a load of this kind after some seconds.
function configuration(server, context, rules) {
  return [
    'version: 1',
    'sessions: { defaultTrust: direct }',
    'quotas: { session: { callsPerMinute: 1000000 } }',
    `servers: { trivial: { command: node, args: [${JSON.stringify(server)}], context: ${context} } }`,
    ...(rules ? ruleLines : []),
    '',
  ].join('\n');
}
