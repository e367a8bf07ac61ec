// "npm start": the gateway with the demo configuration, two sessions to try it with, and agents to watch.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { locateDataDir } from '../../build/config/load/locate.js';
import { runDemoAgents } from './agents.js';
import { fillViews } from './fill-views.js';

const ambit = fileURLToPath(new URL('../../bin/ambit.js', import.meta.url));
const config = fileURLToPath(new URL('ambit.yaml', import.meta.url));
const dataDir = locateDataDir({ env: process.env, configFile: config, home: homedir() });
const places = ['--config', config, '--data-dir', dataDir];
const [orchard, greenhouse] = ['orchard', 'greenhouse'].map((name) =>
  fileURLToPath(new URL(`workspaces/${name}`, import.meta.url)),
);
const clientFile = join(dataDir, 'demo-client.json');
const servers = {
  notes: 'notes kept in the workspace',
  files: 'the files of the workspace',
  who: 'a server that knows who calls it (ambit-mcp/sdk)',
};
const maxWaitMs = 15_000;
/** The time that an agent of the team takes before each call of a tool. */
const teamPauseMs = 2500;
/** The time between two runs of the team. */
const teamRestMs = 60_000;

const gateway = spawn(process.execPath, [ambit, 'serve', '--json', ...places, ...process.argv.slice(2)], {
  stdio: ['ignore', 'pipe', 'inherit'],
});
const stopping = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.on(signal, () => {
    stopping.abort();
    gateway.kill('SIGTERM');
  });
}
let isReady = false;
gateway.on('exit', (code) => {
  // The gateway has said why.
  if (!isReady) {
    process.stderr.write(
      'The demo did not start. If it is already running in another terminal, stop it there with Ctrl-C.\n',
    );
    process.stderr.write('If another program uses the port, run: npm start -- --port 0\n');
  }
  process.exit(code ?? 1);
});
// Whatever goes wrong below, no gateway is left behind.
process.on('exit', () => gateway.kill('SIGTERM'));

const ready = await new Promise((resolve) => createInterface({ input: gateway.stdout }).once('line', resolve));
isReady = true;
const { url } = JSON.parse(ready);

/** Sends a request to the control API, as an orchestrator would. The commands of `ambit session` do the same. */
async function requestControl(method, path, body) {
  const adminToken = readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();
  const response = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: { Authorization: `Bearer ${adminToken}`, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`);
  return response.json();
}

/** The token of an earlier start, if there was one. */
function readToken() {
  try {
    const { mcpServers } = JSON.parse(readFileSync(clientFile, 'utf8'));
    return /^Bearer (ambs_([a-z0-9-]+)_\S+)$/.exec(mcpServers.ambit.headers.Authorization) ?? [];
  } catch {
    return [];
  }
}

/** Sessions outlive the gateway: one of an earlier start is kept, so that its token stays valid. */
async function openSession(draft, isUsable) {
  const path = `/sessions/${draft.name}`;
  const known = await requestControl('GET', path).catch(() => undefined);
  if (known !== undefined && (await isUsable(known))) return known;
  if (known !== undefined) await requestControl('DELETE', path);
  return requestControl('POST', '/sessions', draft);
}

/** Asks a server for its tools. Returns the reason if it does not answer. */
async function findProblem(path, token) {
  const version = '2026-07-28';
  const meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  try {
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: {
        Authorization: `Bearer ${token}`,
        'Content-Type': 'application/json',
        Accept: 'application/json, text/event-stream',
        'MCP-Protocol-Version': version,
        'Mcp-Method': 'tools/list',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: meta } }),
      signal: AbortSignal.timeout(maxWaitMs),
    });
    const text = await response.text();
    const { error, result } = JSON.parse(/^data: ?(\{.*)$/m.exec(text)?.[1] ?? text);
    return result?.tools === undefined ? (error?.message ?? `HTTP ${response.status}`) : undefined;
  } catch (error) {
    return error.name === 'TimeoutError' ? `no answer within ${maxWaitMs / 1000} seconds` : error.message;
  }
}

const [, earlier, earlierId] = readToken();
const permissions = ['notes:delete'];
const [direct, sandboxed, problem] = await Promise.all([
  openSession(
    { name: 'demo-garden', workspaceId: 'garden', trustLevel: 'direct', permissions },
    async (known) =>
      known.id === earlierId &&
      permissions.every((each) => known.permissions.includes(each)) &&
      (await findProblem('/mcp/ambit', earlier)) === undefined,
  ),
  openSession({ name: 'demo-kitchen', workspaceId: 'kitchen', trustLevel: 'sandboxed' }, () => true),
  fillViews(requestControl).then(
    () => undefined,
    (error) => error.message,
  ),
]);
const token = direct.token ?? earlier;
const headers = { Authorization: `Bearer ${token}` };
const client = JSON.stringify({ mcpServers: { ambit: { type: 'http', url: `${url}/mcp`, headers } } }, null, 2);
// A token is a secret: it goes to a terminal or a private file, never into a log.
// A new file, since the mode of an old one would stay, and a link would be followed.
rmSync(clientFile, { force: true });
writeFileSync(clientFile, `${client}\n`, { flag: 'wx', mode: 0o600 });

const checked = await Promise.all(
  Object.entries(servers).map(async ([name, what]) => [name, what, await findProblem(`/mcp/${name}`, token)]),
);
const failed = checked.filter(([, , problem]) => problem !== undefined);
const lines = [
  '',
  failed.length === 0 ? 'Ambit is running.' : `Ambit is running, but ${failed.length} of its servers did not answer.`,
  '',
  `  ${url}/              the web console`,
  `  ${url}/mcp           all servers as one`,
  ...checked.flatMap(([name, what, problem]) => [
    `  ${`${url}/mcp/${name}`.padEnd(url.length + 14)} ${problem === undefined ? what : 'does not answer:'}`,
    // A server may have written the reason: it gets no control over the terminal.
    ...(problem === undefined ? [] : [`      ${problem.replaceAll(/\p{Cc}+/gu, ' ')}`]),
  ]),
  `  ${url}/.well-known/jwks.json   public keys for verifying the signed context`,
  `  ${url}/healthz`,
  '',
  `  demo-garden   workspace garden   direct      session ${direct.id.slice(0, 8)}`,
  `  demo-kitchen  workspace kitchen  sandboxed   session ${sandboxed.id.slice(0, 8)}`,
  '',
  ...(problem === undefined
    ? []
    : [`Some views of the web console are empty: ${problem.replaceAll(/\p{Cc}+/gu, ' ')}`, '']),
];
if (process.stdout.isTTY) {
  lines.push('Paste this into your MCP client (session demo-garden):', '', client, '');
  const { url: link } = await requestControl('POST', '/consoles/links', {});
  lines.push('This link signs you in to the web console, once, within 60 seconds:', '', link, '');
} else lines.push(`A client configuration for demo-garden is in ${clientFile}`, '');
lines.push(
  'Agents work in workspaces orchard, greenhouse and kitchen.',
  'Watch them: npx ambit open (web console), npx ambit session list',
  'Stop with Ctrl-C.',
);
process.stdout.write(`${lines.join('\n')}\n`);

/** Runs the team of examples/team in the third workspace, slowly enough to follow it. Returns what to say about it. */
async function runDemoTeam() {
  const { runTeam } = await import('../team/team.js');
  const adminToken = readFileSync(join(dataDir, 'admin-token'), 'utf8').trim();
  const { results, conflicts } = await runTeam({
    url,
    adminToken,
    folder: orchard,
    userId: 'ada',
    pauseMs: teamPauseMs,
  });
  return `has finished: ${Object.keys(results).length} results, ${conflicts.length} conflict resolved.`;
}

/** Ends the sessions of agents that an earlier start has left, and discards their folders. */
async function endEarlierAgents() {
  const { sessions } = await requestControl('GET', '/sessions');
  // Children come after their parents.
  for (const { id, workspaceId, agentId } of sessions.reverse()) {
    if (workspaceId === 'orchard' || agentId === 'gardener' || agentId === 'cook')
      await requestControl('DELETE', `/sessions/${id}`).catch(() => {});
  }
  const { folders } = await requestControl('GET', '/workspaces/greenhouse');
  for (const { sessionId, kept } of folders) {
    if (kept) await requestControl('DELETE', `/sessions/${sessionId}/folder`).catch(() => {});
  }
}

/** Removes the repository of an earlier run. That run may have been stopped while its team was working. */
async function emptyOrchard() {
  const { sessions } = await requestControl('GET', '/sessions?workspace=orchard');
  if (sessions.length > 0) throw new Error('a session still uses workspace orchard.');
  // Their worktrees are removed after the answer. Those of another data directory stay.
  const until = Date.now() + 2000;
  while (existsSync(join(orchard, '.git/worktrees')) && Date.now() < until) await delay(50);
  for (const name of readdirSync(orchard)) rmSync(join(orchard, name), { recursive: true });
}

/** Lets the team work again and again. Its first outcome is printed, since the others are the same. */
async function repeatDemoTeam() {
  for (let run = 1; !stopping.signal.aborted; run++) {
    const outcome = await emptyOrchard().then(runDemoTeam).catch(describeFailure);
    if (run === 1 && !stopping.signal.aborted) process.stdout.write(`The team of agents ${outcome}\n`);
    await delay(teamRestMs, undefined, { signal: stopping.signal }).catch(() => {});
  }
}

function describeFailure(error) {
  if (error.code === 'ENOENT' && error.path === 'git') return 'did not run: git is not installed.';
  return `did not finish: ${error.message.replaceAll(/\p{Cc}+/gu, ' ')}`;
}

// Whoever reads this output may leave before the team has finished.
process.stdout.on('error', () => {});
await endEarlierAgents();
const agents = runDemoAgents({ url, requestControl, greenhouse, signal: stopping.signal }).catch((error) => {
  if (!stopping.signal.aborted) process.stdout.write(`The gardener or the cook ${describeFailure(error)}\n`);
});
await Promise.all([repeatDemoTeam(), agents]);
