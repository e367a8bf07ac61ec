import { connect, type Socket } from 'node:net';

/** A connection on which anything can be said, and all that was answered. */
export interface RawSocket {
  readonly socket: Socket;
  say(bytes: string | Buffer): Promise<void>;
  /** The bytes read so far, as latin1. */
  heard(): string;
  /** Resolves when the text is there; rejects when the connection ends without it. */
  hears(pattern: RegExp): Promise<string>;
  /** Everything until the other side closed. */
  untilClosed(): Promise<string>;
  reset(): void;
}

export async function openRawSocket(url: string): Promise<RawSocket> {
  const { hostname, port } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port), noDelay: true });
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('error', reject);
  });
  let text = '';
  // Searching all of a long text again and again would take longer than reading it.
  let recent = '';
  let closed = false;
  const listeners = new Set<() => void>();
  const wake = () => {
    for (const listener of [...listeners]) listener();
  };
  socket.on('data', (chunk) => {
    const more = chunk.toString('latin1');
    text += more;
    recent = recent.slice(-1024) + more;
    wake();
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    closed = true;
    wake();
  });

  function settled(ready: () => string | undefined): Promise<string> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = ready();
        if (found === undefined && !closed) return;
        listeners.delete(look);
        if (found === undefined) reject(new Error(`the connection closed after: ${text.slice(0, 2000)}`));
        else resolve(found);
      };
      listeners.add(look);
      look();
    });
  }

  return {
    socket,
    say: (bytes) =>
      new Promise((resolve) => {
        if (socket.destroyed) resolve();
        else socket.write(bytes, () => resolve());
      }),
    heard: () => text,
    hears(pattern) {
      let looked = false;
      return settled(() => {
        const found = pattern.test(looked ? recent : text);
        looked = true;
        return found ? text : undefined;
      });
    },
    untilClosed: () => settled(() => (closed ? text : undefined)),
    reset: () => void socket.resetAndDestroy(),
  };
}

/** The head of a POST, its lines given; a Host that the gateway answers for unless another is given. */
export function writeHead(path: string, lines: Record<string, string | number> = {}, method = 'POST'): string {
  const all = { host: '127.0.0.1', 'content-type': 'application/json', accept: '*/*', ...lines };
  const rows = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\n${rows.join('')}\r\n`;
}

/** The answers on one connection, in order: status and body. */
export function parseAnswers(text: string): { status: number; body: string }[] {
  const answers: { status: number; body: string }[] = [];
  let rest = text;
  for (;;) {
    const start = /HTTP\/1\.1 (\d{3})[^\r\n]*\r\n([\s\S]*?)\r\n\r\n/.exec(`${rest}`);
    if (start === null) return answers;
    const from = start.index + start[0].length;
    const length = Number(/^content-length: (\d+)$/im.exec(start[2] as string)?.[1] ?? 0);
    answers.push({ status: Number(start[1]), body: rest.slice(from, from + length) });
    rest = rest.slice(from + length);
  }
}
