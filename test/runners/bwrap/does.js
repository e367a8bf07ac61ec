// Runs inside a sandbox: answers "ready", then does the one thing its argument names.
import { spawn } from 'node:child_process';

const deeds = {
  nothing() {},
  memory() {
    const kept = [];
    setInterval(() => kept.push(Buffer.alloc(32 << 20, 1)), 20);
  },
  processes() {
    setInterval(() => spawn('/bin/sleep', ['60'], { stdio: 'ignore' }).on('error', () => {}), 5);
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
