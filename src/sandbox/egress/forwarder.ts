import { spawn } from 'node:child_process';
import { closeSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { constants } from 'node:os';
import { pipeline } from 'node:stream';

/**
 * A separate program inside a sandbox. Few clients can use a Unix socket as their proxy, so it listens on the loopback
 * of the sandbox and forwards connections to the socket. It decides nothing. Once it listens, it starts the server.
 */
const [socket = '', port = '', program = '', ...args] = process.argv.slice(2);

const listening = createServer({ allowHalfOpen: true }, (client) => {
  const outside = createConnection({ path: socket, allowHalfOpen: true });
  pipeline(client, outside, () => {});
  pipeline(outside, client, () => {});
});

listening.listen(Number(port), '127.0.0.1', () => {
  const child = spawn(program, args, { stdio: 'inherit' });
  child.on('error', (error) => {
    throw error;
  });
  child.on('exit', (code, signal) => process.exit(signal === null ? (code ?? 1) : 128 + constants.signals[signal]));
  // Both belong to the server: when it closes them, they are closed.
  closeSync(0);
  closeSync(1);
});
