// Runs inside a sandbox: tries what it is told to try, and prints what came of it.
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { connect } from 'node:net';
import { hostname, networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

const attempt = (work) => {
  try {
    return work();
  } catch (error) {
    return error.code ?? String(error);
  }
};

function writableInProc(folder, found = []) {
  for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (folder === '/proc' && /^(?:\d+|self|thread-self)$/.test(entry.name)) continue;
    if (entry.isDirectory()) attempt(() => writableInProc(path, found));
    // What is covered with a device is not the kernel's any more.
    else if (attempt(() => fs.statSync(path).isFile()) !== true) continue;
    else if (attempt(() => fs.closeSync(fs.openSync(path, 'r+'))) === undefined) found.push(path);
  }
  return found;
}

const reach = (target) =>
  new Promise((settle) => {
    const socket = connect(target, () => settle('connected'));
    socket.on('error', ({ code }) => settle(code));
  });

/** `[name, number, …arguments]` each; the answer is the error's number, 0 for none. */
function systemCalls(calls) {
  const script =
    'for (@ARGV) { my ($n, @a) = map { $_ + 0 } split /,/; my $r = syscall($n, @a); print $r == -1 ? $! + 0 : 0, "\\n" }';
  const numbers = calls.map(([, ...call]) => call.join(','));
  const said = execFileSync('/usr/bin/perl', ['-e', script, ...numbers], { encoding: 'latin1' }).split('\n');
  return Object.fromEntries(calls.map(([name], index) => [name, Number(said[index])]));
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  const status = fs.readFileSync('/proc/self/status', 'latin1');
  const stat = fs.readFileSync('/proc/self/stat', 'latin1');
  const report = {
    env: process.env,
    cwd: process.cwd(),
    hostname: hostname(),
    status: Object.fromEntries(status.split('\n').map((each) => each.split(/:\s*/))),
    first: {
      cmdline: fs.readFileSync('/proc/1/cmdline', 'latin1'),
      environ: fs.readFileSync('/proc/1/environ', 'latin1'),
    },
    namespaces: Object.fromEntries(
      fs.readdirSync('/proc/self/ns').map((kind) => [kind, fs.readlinkSync(`/proc/self/ns/${kind}`)]),
    ),
    // The fields after the name: state, parent, process group, session.
    session: Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[3]),
    processes: fs.readdirSync('/proc').filter((name) => /^\d+$/.test(name)).length,
    descriptors: fs
      .readdirSync('/proc/self/fd')
      .map((name) => attempt(() => fs.readlinkSync(`/proc/self/fd/${name}`)))
      .filter((target) => target.startsWith('/')),
    root: fs.readdirSync('/'),
    read: asked.read.map((path) =>
      attempt(() => (fs.statSync(path).isDirectory() ? fs.readdirSync(path) : fs.readFileSync(path, 'utf8'))),
    ),
    etc: Object.fromEntries(
      ['passwd', 'group', 'hosts'].map((name) => [name, attempt(() => fs.readFileSync(`/etc/${name}`, 'utf8'))]),
    ),
    // The null device, which has the numbers 1 and 3, lies upon what must not be seen.
    covered: asked.covered.map((path) => attempt(() => (fs.statSync(path).rdev === 0x103 ? 'covered' : 'open'))),
    write: asked.write.map((path) => attempt(() => fs.writeFileSync(path, 'x')) ?? 'written'),
    ordered: asked.ordered.map((path) => attempt(() => fs.writeFileSync(path, 'x')) ?? 'written'),
    proc: writableInProc('/proc'),
    setId: [
      attempt(() => fs.chmodSync(process.cwd(), 0o6755)) ?? 'done',
      attempt(() => fs.closeSync(fs.openSync('made', 'w', 0o4755))) ?? 'done',
    ],
    moved: asked.move.map(([from, to]) => attempt(() => fs.renameSync(from, to)) ?? 'moved'),
    device: attempt(() => fs.chmodSync('/dev/null', 0o666)) ?? 'changed',
    interfaces: Object.keys(networkInterfaces()),
    reached: await Promise.all(asked.reach.map(reach)),
    calls: systemCalls(asked.calls),
    tmpBytes: fs.statfsSync('/tmp').blocks * fs.statfsSync('/tmp').bsize,
  };
  process.stdout.write(`${JSON.stringify(report)}\n`);
}
