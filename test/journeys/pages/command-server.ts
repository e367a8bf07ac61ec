import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { main } from '../../../src/cli/main.ts';
import { keepEnvironment } from './scene.ts';

/**
 * Runs commands of `ambit` in this process for the shells of pages, one at a time: a process for each command would cost
 * more than all else that the pages do. Fields end with a NUL. A shell sends the secret, its home and working folder, the
 * number of words, the words, the variables that begin with AMBIT_, and `end`. It gets pairs of a descriptor and the text
 * printed there, then `exit` and the code.
 */
export interface CommandServer {
  readonly port: number;
  /** Any program of this machine can connect. Only the shells know this. */
  readonly secret: string;
  close(): void;
}

export async function startCommandServer(): Promise<CommandServer> {
  const secret = randomBytes(32).toString('hex');
  let last: Promise<unknown> = Promise.resolve();
  const server = createServer((socket) => {
    last = last.then(() => serveCommand(socket, secret)).catch(() => socket.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { port: (server.address() as AddressInfo).port, secret, close: () => server.close() };
}

async function serveCommand(socket: Socket, secret: string): Promise<void> {
  const [said, home = '', folder = '', count, ...rest] = await readFields(socket);
  if (said !== secret) throw new Error('not a shell of ours');
  const words = rest.slice(0, Number(count));
  const variables = rest.slice(Number(count)).map((field) => field.split(/=(.*)/s, 2) as [string, string]);
  const { code, chunks } = await runCommand(words, home, folder, Object.fromEntries(variables));
  socket.end(`${[...chunks.flat(), 'exit', code].join('\0')}\0`);
}

/** The fields before `end`. */
async function readFields(socket: Socket): Promise<string[]> {
  let text = '';
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    text += chunk.toString();
    if (text.endsWith('\0end\0')) break;
  }
  return text.split('\0').slice(0, -2);
}

async function runCommand(
  words: readonly string[],
  home: string,
  folder: string,
  variables: NodeJS.ProcessEnv,
): Promise<{ code: number; chunks: [number, string][] }> {
  const chunks: [number, string][] = [];
  const before = { folder: process.cwd(), home: process.env.HOME };
  const streams = [process.stdout, process.stderr];
  const writes = streams.map((stream) => stream.write);
  for (const [i, stream] of streams.entries()) {
    stream.write = ((chunk: string | Uint8Array) => {
      chunks.push([i + 1, chunk.toString()]);
      return true;
    }) as typeof stream.write;
  }
  process.chdir(folder);
  process.env.HOME = home;
  try {
    const env = { ...keepEnvironment(), PATH: process.env['PATH'], HOME: home };
    return { code: await main(words, { ...env, ...variables }), chunks };
  } finally {
    process.chdir(before.folder);
    process.env.HOME = before.home;
    for (const [i, stream] of streams.entries()) stream.write = writes[i] as typeof stream.write;
  }
}
