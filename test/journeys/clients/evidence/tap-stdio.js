import { appendFileSync } from 'node:fs';
import { join } from 'node:path';

// Loaded before a server with `--import …/tap-stdio.js?to=FOLDER`: keeps a copy of all that the server reads and
// writes in FOLDER/<pid>.in and .out, so that a test can see what really arrived.
const folder = new URL(import.meta.url).searchParams.get('to');
const { stdin, stdout } = process;

// Wrapping `emit` rather than listening: a listener would start the stream before the server is there to read it.
const emit = stdin.emit.bind(stdin);
stdin.emit = (event, ...args) => {
  if (event === 'data') appendFileSync(join(folder, `${process.pid}.in`), args[0]);
  return emit(event, ...args);
};

const write = stdout.write.bind(stdout);
stdout.write = (chunk, ...rest) => {
  appendFileSync(join(folder, `${process.pid}.out`), chunk);
  return write(chunk, ...rest);
};
