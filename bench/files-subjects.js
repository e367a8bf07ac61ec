// What the file benchmark compares. Each does the same four things; two of them as MCP servers over stdio.
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { readdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const readPath = 'one/two/three/four/read.ts';
const editPath = 'one/two/three/four/edit.ts';
const [before, after] = ['export const before = 50;', 'export const behind = 50;'];

/** What the machine can do, with no protocol, no process and no check in between. */
export function plainFiles(workspace) {
  let edits = 0;
  return {
    label: 'plain fs, no protocol',
    read: () => readFile(join(workspace, readPath), 'utf8'),
    async edit() {
      const text = await readFile(join(workspace, editPath), 'utf8');
      const [old, fresh] = text.includes(before) ? [before, after] : [after, before];
      edits++;
      await writeFile(join(workspace, `${editPath}.${edits}`), text.replace(old, fresh));
      await rename(join(workspace, `${editPath}.${edits}`), join(workspace, editPath));
    },
    async list() {
      for (const name of await readdir(join(workspace, 'listed'))) await stat(join(workspace, 'listed', name));
    },
    search: async () => (await readdir(workspace, { recursive: true })).filter((name) => name.endsWith('.json')),
    cpuMs: ownCpuMs,
    close() {},
  };
}

export async function publishedFiles(workspace) {
  const entry = createRequire(import.meta.url).resolve('@modelcontextprotocol/server-filesystem/dist/index.js');
  const server = await openServer(process.execPath, [entry, workspace]);
  return {
    label: 'server-filesystem',
    read: () => server.call('read_text_file', { path: join(workspace, readPath) }),
    async edit() {
      const text = readFileSync(join(workspace, editPath), 'utf8');
      const [oldText, newText] = text.includes(before) ? [before, after] : [after, before];
      await server.call('edit_file', { path: join(workspace, editPath), edits: [{ oldText, newText }] });
    },
    list: () => server.call('list_directory_with_sizes', { path: join(workspace, 'listed') }),
    search: () => server.call('search_files', { path: workspace, pattern: '**/*.json' }),
    cpuMs: server.cpuMs,
    close: server.close,
  };
}

export async function ambitFiles(folder, workspace) {
  const config = join(folder, 'config', `${workspace.length}.json`);
  mkdirSync(join(folder, 'config'), { recursive: true });
  const quotas = { session: { callsPerMinute: 1_000_000 } };
  writeFileSync(config, JSON.stringify({ version: 1, quotas, workspaces: { bench: { path: workspace } } }));
  const ambit = fileURLToPath(new URL('../bin/ambit.js', import.meta.url));
  const data = join(folder, `data-${workspace.length}`);
  const server = await openServer(process.execPath, [
    ambit,
    'stdio',
    ...['--config', config, '--data-dir', data, '--workspace', 'bench', '--trust', 'sandboxed'],
  ]);
  const session = 'current';
  return {
    label: 'Ambit, everything on',
    read: () => server.call('session_read_file', { session, path: readPath }),
    async edit() {
      const text = readFileSync(join(workspace, editPath), 'utf8');
      const [oldText, newText] = text.includes(before) ? [before, after] : [after, before];
      await server.call('session_edit_file', { session, path: editPath, edits: [{ oldText, newText }] });
    },
    list: () => server.call('session_list_dir', { session, path: 'listed' }),
    search: () => server.call('session_file_search', { session, pattern: '**/*.json' }),
    readLines: (path, startLine, endLine) => server.call('session_read_file', { session, path, startLine, endLine }),
    grep: (pattern) => server.call('session_grep_search', { session, pattern }),
    dataDir: data,
    ask: async (query, limit = 10) =>
      (await server.call('session_codebase_search', { session, query, limit })).structuredContent,
    grepAround: async (pattern) =>
      (
        await server.call('session_grep_search', {
          session,
          pattern,
          caseSensitive: false,
          contextLines: 10,
          limit: 1000,
        })
      ).structuredContent,
    cpuMs: server.cpuMs,
    residentMb: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, 'utf8'))?.[1]) / 1024,
    close: server.close,
  };
}

function ownCpuMs() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** What the process has worked so far; a tick of the kernel is 10 ms. */
function cpuMsOf(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** A server on stdio, spoken to in the handshake era, one call at a time. */
async function openServer(command, args) {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] });
  const waiting = new Map();
  let rest = '';
  let last = 0;
  child.stdout.setEncoding('utf8').on('data', (chunk) => {
    rest += chunk;
    const lines = rest.split('\n');
    rest = lines.pop();
    for (const line of lines) {
      const message = JSON.parse(line);
      waiting.get(message.id)?.(message);
      waiting.delete(message.id);
    }
  });
  const request = (method, params) =>
    new Promise((resolve) => {
      const id = ++last;
      waiting.set(id, resolve);
      child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    });
  const clientInfo = { name: 'bench', version: '0' };
  await request('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo });
  child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
  return {
    pid: child.pid,
    cpuMs: () => cpuMsOf(child.pid),
    async call(name, args) {
      const { result, error } = await request('tools/call', { name, arguments: args });
      if (error !== undefined || result.isError) {
        throw new Error(`${name}: ${error?.message ?? result.content?.[0]?.text}`);
      }
      return result;
    },
    async close() {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.stdin.end();
      await ended;
    },
  };
}
