import { type ClientRequest, get, type IncomingMessage } from 'node:http';

export interface HeardEvent {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: Record<string, unknown>;
}

/** Someone who reads server-sent events, without a library, so that nothing is made up on the way. */
export interface EventReader {
  readonly response: IncomingMessage;
  readonly heard: readonly HeardEvent[];
  /** Resolves with the first event that fits, be it heard already. */
  hears(fits: (event: HeardEvent) => boolean): Promise<HeardEvent>;
  readonly ended: Promise<void>;
  close(): void;
}

export async function readEvents(
  url: string,
  headers: Record<string, string>,
  socketPath?: string,
): Promise<EventReader> {
  let request: ClientRequest | undefined;
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request = get(url, { headers, agent: false, ...(socketPath === undefined ? {} : { socketPath }) }, resolve);
    request.on('error', reject);
  });
  const heard: HeardEvent[] = [];
  const waiting = new Set<() => void>();
  let text = '';
  response.setEncoding('utf8');
  response.on('data', (chunk: string) => {
    const blocks = (text + chunk).split('\n\n');
    text = blocks.pop() ?? '';
    for (const block of blocks) {
      const fields = new Map(
        block.split('\n').map((line) => [line.split(': ', 1)[0], line.slice(line.indexOf(': ') + 2)]),
      );
      const data = fields.get('data');
      if (data === undefined) continue;
      heard.push({ id: fields.get('id'), event: fields.get('event'), data: JSON.parse(data) });
    }
    for (const wake of waiting) wake();
  });
  response.on('error', () => {});
  return {
    response,
    heard,
    hears: (fits) =>
      new Promise((resolve) => {
        const checkEvents = () => {
          const found = heard.find(fits);
          if (found === undefined) return;
          waiting.delete(checkEvents);
          resolve(found);
        };
        waiting.add(checkEvents);
        checkEvents();
      }),
    ended: new Promise((resolve) => response.on('close', resolve)),
    close: () => void request?.destroy(),
  };
}
