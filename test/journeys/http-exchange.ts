import { Agent, type IncomingHttpHeaders, request } from 'node:http';

/** One HTTP exchange as it went over the wire: nothing is parsed that is not asked for. */
export interface Exchange {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Header names in the order and spelling they came in. */
  readonly headerNames: readonly string[];
  /** The next message as text: an event of a stream, or the whole body; undefined when there is no more. */
  next(): Promise<string | undefined>;
  /** Everything that is still to come. */
  rest(): Promise<string[]>;
  close(): void;
}

export interface OutgoingRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  readonly signal?: AbortSignal;
}

const agent = new Agent({ keepAlive: true, maxSockets: 512 });

export function sendRaw(url: string, outgoing: OutgoingRequest): Promise<Exchange> {
  return new Promise((resolve, reject) => {
    const { method = 'POST', headers = {}, body, signal } = outgoing;
    const sending = request(url, { method, agent, headers: { ...headers }, ...(signal && { signal }) });
    sending.on('error', reject);
    sending.on('response', (response) => {
      const streams = response.headers['content-type'] === 'text/event-stream';
      const messages = streams ? readEvents(response) : readWhole(response);
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        headerNames: response.rawHeaders.filter((_, index) => index % 2 === 0),
        next: async () => {
          const { done, value } = await messages.next();
          return done ? undefined : value;
        },
        async rest() {
          const all: string[] = [];
          for await (const message of messages) all.push(message);
          return all;
        },
        close: () => response.destroy(),
      });
    });
    sending.end(body);
  });
}

async function* readWhole(response: AsyncIterable<Buffer>): AsyncGenerator<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  if (chunks.length > 0) yield Buffer.concat(chunks).toString();
}

async function* readEvents(response: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let held = Buffer.alloc(0);
  for await (const chunk of response) {
    held = Buffer.concat([held, chunk]);
    for (let at = held.indexOf('\n\n'); at !== -1; at = held.indexOf('\n\n')) {
      const event = held.toString('utf8', 0, at);
      held = held.subarray(at + 2);
      const data = event.split('\n').filter((line) => line.startsWith('data: '));
      // The first event of a stream has an id and no message.
      const text = data.map((line) => line.slice(6)).join('\n');
      if (text !== '') yield text;
    }
  }
}
