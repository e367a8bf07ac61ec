import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { UsageFault } from '../command.ts';

const mostBytes = 65_536;

/** A value that is not to be seen: typed without echo at a terminal, else all of the input but its last line end. */
export async function readSecret(
  input: NodeJS.ReadableStream,
  terminal: NodeJS.WritableStream | undefined,
): Promise<string> {
  if (terminal !== undefined) return typed(input, terminal);
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of input) {
    const bytes = Buffer.from(chunk as Buffer);
    size += bytes.length;
    if (size > mostBytes) throw new UsageFault(`the value on stdin is longer than ${mostBytes} bytes`);
    chunks.push(bytes);
  }
  return checked(
    Buffer.concat(chunks)
      .toString('utf8')
      .replace(/\r?\n$/, ''),
  );
}

async function typed(input: NodeJS.ReadableStream, terminal: NodeJS.WritableStream): Promise<string> {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const line = createInterface({ input, output: silent, terminal: true });
  terminal.write('Value (not shown): ');
  try {
    return checked(await line.question(''));
  } finally {
    line.close();
    terminal.write('\n');
  }
}

function checked(value: string): string {
  if (value === '') throw new UsageFault('the value is missing: give it on stdin');
  return value;
}
