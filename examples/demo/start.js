// "npm start": the gateway with the demo configuration, and two sessions to try it with.
import { execFile, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { locateDataDir } from '../../build/config/load/locate.js';

const ambit = fileURLToPath(new URL('../../bin/ambit.js', import.meta.url));
const config = fileURLToPath(new URL('ambit.yaml', import.meta.url));
const dataDir = locateDataDir({ env: process.env, configFile: config, home: homedir() });
const places = ['--config', config, '--data-dir', dataDir];

const gateway = spawn(process.execPath, [ambit, 'serve', '--json', ...places, ...process.argv.slice(2)], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => gateway.kill('SIGTERM'));
gateway.on('exit', (code) => process.exit(code ?? 1));
// Whatever goes wrong below, no gateway is left behind.
process.on('exit', () => gateway.kill('SIGTERM'));

const ready = await new Promise((resolve) => createInterface({ input: gateway.stdout }).once('line', resolve));
const { url } = JSON.parse(ready);

const session = (verb, ...args) =>
  promisify(execFile)(process.execPath, [ambit, 'session', verb, '--json', ...args, ...places]);

/** Sessions outlive the gateway: one of an earlier start makes way, so that its token is a fresh one. */
async function createSession(name, ...args) {
  await session('end', name).catch(() => {});
  return JSON.parse((await session('create', '--name', name, ...args)).stdout);
}

const direct = await createSession('demo-garden', '--workspace', 'garden', '--trust', 'direct');
const sandboxed = await createSession('demo-kitchen', '--workspace', 'kitchen', '--trust', 'sandboxed');

function clientConfig({ token }) {
  const headers = { Authorization: `Bearer ${token}` };
  return JSON.stringify({ mcpServers: { ambit: { type: 'http', url: `${url}/mcp`, headers } } }, null, 2);
}

const lines = [
  '',
  'Ambit is running.',
  '',
  `  ${url}/mcp           all servers as one`,
  `  ${url}/mcp/notes     notes kept in the workspace`,
  `  ${url}/mcp/files     the files of the garden`,
  `  ${url}/mcp/who       a server that knows who calls it (ambit-mcp/sdk)`,
  `  ${url}/.well-known/jwks.json   what its context verifies with`,
  `  ${url}/healthz`,
  '',
  `  demo-garden   workspace garden   direct      session ${direct.id.slice(0, 8)}`,
  `  demo-kitchen  workspace kitchen  sandboxed   session ${sandboxed.id.slice(0, 8)}`,
  '',
];
// A token is a secret: it goes to a terminal or a private file, never into a log.
if (process.stdout.isTTY) {
  lines.push('Paste this into your MCP client (session demo-garden):', '', clientConfig(direct), '');
} else {
  const file = join(dataDir, 'demo-client.json');
  writeFileSync(file, `${clientConfig(direct)}\n`, { mode: 0o600 });
  lines.push(`A client configuration for demo-garden is in ${file}`, '');
}
lines.push('Sessions: npx ambit session list --config examples/demo/ambit.yaml', 'Ctrl-C ends it.');
process.stdout.write(`${lines.join('\n')}\n`);
