import { spawn } from 'node:child_process';
import { closeSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { constants } from 'node:os';
import { pipeline } from 'node:stream';

/**
 * A program of its own, inside a sandbox: few clients can be told to use a socket that is a file, so it listens on the
 * sandbox's own loopback and passes on what comes. It decides nothing. When it listens, it starts the server.
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
  // They are the server's: when it closes them, they are closed.
  closeSync(0);
  closeSync(1);
});
