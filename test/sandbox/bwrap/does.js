// Runs inside a sandbox: answers "ready", then does the one thing its argument names.
import { spawn } from 'node:child_process';
import { openSync, writeFileSync, writeSync } from 'node:fs';

const deeds = {
  nothing() {},
  memory() {
    const kept = [];
    setInterval(() => kept.push(Buffer.alloc(32 << 20, 1)), 20);
  },
  /** As many MiB as its argument says, once it is told to. */
  hold() {
    process.stdin.once('data', () => {
      const kept = Buffer.alloc(Number(process.argv[3]) << 20, 1);
      setInterval(() => kept[0], 1000);
      process.stdout.write('held\n');
    });
  },
  /** One of its processes; the server itself stays small. */
  child() {
    const script = 'const kept = []; setInterval(() => kept.push(Buffer.alloc(32 << 20, 1)), 20);';
    spawn(process.execPath, ['-e', script], { stdio: 'ignore' }).on('error', () => {});
  },
  file() {
    const megabyte = Buffer.alloc(1 << 20, 1);
    const file = openSync('large', 'w');
    const writing = setInterval(() => {
      try {
        writeSync(file, megabyte);
      } catch ({ code }) {
        clearInterval(writing);
        process.stdout.write(`${code}\n`);
      }
    }, 1);
  },
  tmp() {
    const megabyte = Buffer.alloc(1 << 20, 1);
    for (let written = 0; ; written++) {
      try {
        writeFileSync(`/tmp/${written}`, megabyte);
      } catch ({ code }) {
        setImmediate(() => process.stdout.write(`${code} after ${written}\n`));
        return;
      }
    }
  },
  files() {
    const open = [];
    try {
      for (;;) open.push(openSync('/dev/null', 'r'));
    } catch ({ code }) {
      process.stdout.write(`${code} after ${open.length}\n`);
    }
  },
  spin() {
    setImmediate(() => {
      for (;;);
    });
  },
  processes() {
    setInterval(() => spawn('/bin/sleep', ['60'], { stdio: 'ignore' }).on('error', () => {}), 5);
  },
  /** The same, once it is told to. */
  'processes-later'() {
    process.stdin.once('data', deeds.processes);
  },
  /** Leaves a process behind that has left its session and its parent. */
  daemon() {
    spawn('/bin/sh', ['-c', 'setsid sleep 300 & setsid sleep 300 &'], { detached: true, stdio: 'ignore' });
  },
};

process.stdin.on('data', () => {});
process.on('SIGTERM', () => {});
setInterval(() => {}, 1000);
deeds[process.argv[2]]();
process.stdout.write('ready\n');
