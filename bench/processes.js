// Every process the bench starts leads a group of its own and is ended with it, whatever happens to the bench.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

const GRACE_MS = 3000;
const running = new Set();

process.on('exit', killAll);
for (const [signal, code] of Object.entries({ SIGINT: 130, SIGTERM: 143, SIGHUP: 129 })) {
  process.on(signal, () => process.exit(code));
}

export function start(command, args, { stdin = 'ignore', cwd, pinned = false } = {}) {
  const line = pinned ? ['taskset', '-c', lastCpu(), command, ...args] : [command, ...args];
  const child = spawn(line[0], line.slice(1), { stdio: [stdin, 'pipe', 'pipe'], detached: true, cwd });
  const process = { child, stdout: '', stderr: '', ended: undefined };
  child.stdout.setEncoding('utf8').on('data', (text) => {
    process.stdout = (process.stdout + text).slice(-10_000);
  });
  child.stderr.setEncoding('utf8').on('data', (text) => {
    process.stderr = (process.stderr + text).slice(-10_000);
  });
  process.ended = new Promise((resolve) => {
    child.on('error', (error) => resolve(error.message));
    child.on('close', (code, signal) => resolve(code ?? signal));
  }).finally(() => running.delete(process));
  running.add(process);
  return process;
}

export async function stop(process) {
  process.child.kill('SIGTERM');
  const ended = await Promise.race([process.ended.then(() => true), delay(GRACE_MS, false, { ref: false })]);
  killGroup(process);
  if (!ended) await process.ended;
}

// Runs a command to its end and returns its stdout; fails with what it said on stderr.
export async function run(command, args, { input, timeoutMs = 120_000, ...options } = {}) {
  const process = start(command, args, { ...options, stdin: input === undefined ? 'ignore' : 'pipe' });
  process.child.stdin?.on('error', () => {});
  process.child.stdin?.end(input);
  const timer = setTimeout(() => killGroup(process), timeoutMs);
  const code = await process.ended;
  clearTimeout(timer);
  if (code !== 0) throw new Error(process.stderr.trim() || `${command} ended with ${code}`);
  return process.stdout;
}

export async function firstLine(process) {
  const found = await waitFor(process, () => process.stdout.includes('\n'));
  if (!found) throw notReady(process);
  return process.stdout.slice(0, process.stdout.indexOf('\n'));
}

export async function listening(process, port) {
  const found = await waitFor(process, () => accepts(port));
  if (!found) throw notReady(process);
}

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

function lastCpu() {
  return /^Cpus_allowed_list:.*?(\d+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))[1];
}

export async function waitFor(process, test) {
  let ended = false;
  process.ended.then(() => {
    ended = true;
  });
  for (const deadline = Date.now() + 30_000; !ended && Date.now() < deadline; await delay(25)) {
    if (await test()) return true;
  }
  return false;
}

function notReady(process) {
  return new Error(`did not get ready: ${process.stderr.trim().slice(-600) || 'it said nothing'}`);
}

function accepts(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('connect', () => resolve(true));
    socket.on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });
}

function killAll() {
  for (const process of running) killGroup(process);
}

function killGroup({ child }) {
  try {
    if (child.pid) process.kill(-child.pid, 'SIGKILL');
  } catch {
    // the group is already gone
  }
}
