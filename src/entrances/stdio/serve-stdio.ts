import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';
import { createExchange } from '../../gateway/exchange.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { refuseAmbiguousKeys } from '../../protocol/ambiguous-keys.ts';
import {
  acceptedReply,
  type Channel,
  type DeliveryListener,
  type Era,
  type FinalReply,
} from '../../protocol/channel.ts';
import { composeError } from '../../protocol/compose-message.ts';
import { ScanError, scanArray } from '../../protocol/json/scan.ts';
import { readLines } from '../../protocol/lines/read-lines.ts';
import { toSingleLine } from '../../protocol/lines/single-line.ts';
import { type Message, MessageError, maxClientValues, readClientMessage } from '../../protocol/message.ts';
import { type EnvelopeError, findEnvelopeError, readClaimedVersion } from '../../protocol/modern-envelope.ts';
import { batchVersion } from '../../protocol/versions.ts';

interface StdioOptions {
  readonly gateway: Gateway;
  readonly server: string;
  readonly sessionId: string;
  readonly input: Readable;
  readonly output: Writable;
  /** Ends the serving as if the client had left: what is under way is still answered. */
  readonly stop?: Promise<unknown> | undefined;
}

/** Answers a message that is not served. */
type Refuse = (event: 'message' | 'batch' | 'length', code: number, detail: string, id?: string) => void;

/** Writes a message as one line. False when the client should read before more is written. */
type WriteLine = (bytes: Buffer, deliveries?: readonly DeliveryListener[]) => boolean;

const lingerMs = 10_000;
const maxElements = 64;

/** Serves one client on stdin and stdout, one message per line, in both eras. Resolves when the client has gone. */
export async function serveStdio(options: StdioOptions): Promise<void> {
  const { gateway, server, sessionId, input, output, stop = new Promise(() => {}) } = options;
  const connection = {};
  const write = createLineWriter(output, {
    isGone: () => gone,
    pause: () => lines.pause(),
    resume: () => lines.resume(),
  });
  const underWay = new Set<Promise<void>>();
  /** The listeners of each open channel, called when the client leaves. */
  const goneListeners = new Set<Set<() => void>>();
  let gone = false;
  let transportId: string | undefined;
  let lastEra: Era = 'handshake';
  /** The handshake in progress. Other messages wait for its answer. */
  let pendingHandshake: Promise<unknown> = Promise.resolve();

  function createChannel(listeners: Set<() => void>): Channel {
    return {
      owner: connection,
      isGone: () => gone,
      emit: (message) => write(message),
      onDrain(listener) {
        // The stream may have drained since the write.
        if (!output.writableNeedDrain) listener();
        else output.once('drain', listener);
      },
      onGone: (listener) => void listeners.add(listener),
      close() {},
    };
  }

  function receiveLine(line: Buffer): void {
    if (line[0] === 0x5b) {
      trackWork(serveBatch(line));
      return;
    }
    const message = readLine(line, refuse);
    if (message !== undefined) trackWork(serveMessage(message).then((reply) => sendReply(reply)));
  }

  function trackWork(work: Promise<void>): void {
    const tracked = work
      .catch((error: unknown) =>
        gateway.log.warn('exchange failed', { error: String((error as Error)?.stack ?? error) }),
      )
      .finally(() => underWay.delete(tracked));
    underWay.add(tracked);
  }

  function recordRefusal(event: 'message' | 'envelope' | 'batch' | 'length', code: number, detail: string): void {
    gateway.recordRefusal({ event, entrance: 'stdio', code: String(code), detail, sessionId });
  }

  const refuse: Refuse = (event, code, detail, id = 'null') => {
    recordRefusal(event, code, detail);
    write(composeError(id, code, detail));
  };

  async function serveMessage(message: Message): Promise<FinalReply> {
    const era = findEra(message);
    if (era === 'modern') {
      const wrong = findEnvelopeError(message, undefined);
      if (wrong !== undefined) {
        recordRefusal('envelope', wrong.rpc, wrong.message);
        return refuseEnvelope(message, wrong);
      }
    }
    if (message.kind === 'request') lastEra = era;
    const isOpening = isInitialize(message) && era === 'handshake';
    if (!isOpening && era === 'handshake') await pendingHandshake;
    const listeners = new Set<() => void>();
    goneListeners.add(listeners);
    const arrived = createExchange({
      entrance: 'stdio',
      era,
      server,
      credential: { kind: 'pipe', sessionId },
      transportId: era === 'modern' ? undefined : transportId,
      headers: () => ({}),
      message,
      channel: createChannel(listeners),
    });
    const serving = gateway.serve(arrived).then((reply) => {
      if (reply.kind === 'message' && reply.transportId !== undefined) transportId = reply.transportId;
      // The channel of the handshake stays open for messages to this client.
      if (!isOpening) goneListeners.delete(listeners);
      return reply;
    });
    if (isOpening) pendingHandshake = serving;
    return serving;
  }

  function findEra(message: Message): Era {
    if (readClaimedVersion(message) !== undefined) return 'modern';
    // Notifications carry no revision, so they belong to the era of the last request.
    return message.kind === 'notification' && transportId === undefined ? lastEra : 'handshake';
  }

  async function serveBatch(line: Buffer): Promise<void> {
    if (gateway.transportVersion(transportId) !== batchVersion) {
      refuse('batch', -32600, 'This protocol version has no batches: send one message per line');
      return;
    }
    let elements: Buffer[];
    try {
      elements = scanArray(line, maxElements, maxClientValues);
    } catch (error) {
      if (!(error instanceof ScanError)) throw error;
      refuse('batch', -32700, error.message);
      return;
    }
    const messages = elements.map((element) => readLine(element, refuse)).filter((message) => message !== undefined);
    const [opening, others] = [messages.filter(isInitialize), messages.filter((message) => !isInitialize(message))];
    for (const { id } of opening) refuse('batch', -32600, 'this message cannot be part of a batch', id);
    const replies = await Promise.all(others.map(serveMessage));
    const said = replies.flatMap((reply) => (reply.kind === 'message' ? [reply.bytes.toString()] : []));
    const deliveries = replies.flatMap((reply) => (reply.kind === 'message' ? (reply.delivery ?? []) : []));
    if (said.length > 0) write(Buffer.from(`[${said.join(',')}]`), deliveries);
  }

  function sendReply(reply: FinalReply): void {
    if (reply.kind !== 'message') return;
    if (reply.delivery === undefined) write(reply.bytes);
    else write(reply.bytes, [reply.delivery]);
  }

  output.on('error', () => closeClient());
  function closeClient(): void {
    if (gone) return;
    gone = true;
    for (const listeners of goneListeners) for (const listener of listeners) listener();
    input.destroy();
  }

  const lines = readLines(input, {
    maxBytes: gateway.config.limits.bodyBytes,
    onLine: receiveLine,
    onTooLong: () => refuse('length', -32600, 'The line is longer than limits.bodyBytes allows'),
    onRunaway() {
      recordRefusal('length', -32600, 'The line has no line break');
      closeClient();
    },
  });
  if (!input.readableEnded && !input.destroyed)
    await Promise.race([once(input, 'end'), once(input, 'close'), stop]).catch(() => {});
  // A client that pipes requests in and closes the pipe still wants the answers.
  await Promise.race([Promise.all([...underWay]), new Promise((resolve) => setTimeout(resolve, lingerMs).unref())]);
  closeClient();
}

/** Refuses a modern message. A notification has no answer: some clients stop at an error without an id. */
function refuseEnvelope({ id, kind }: Message, { rpc, message, data }: EnvelopeError): FinalReply {
  if (kind !== 'request') return acceptedReply;
  return { kind: 'message', bytes: composeError(id ?? 'null', rpc, message, data) };
}

function isInitialize({ method }: Message): boolean {
  return method === 'initialize';
}

/** Creates the writer. A client that does not read is not read either, or its answers would pile up. */
function createLineWriter(output: Writable, client: { isGone(): boolean; pause(): void; resume(): void }): WriteLine {
  let isPaused = false;
  return (bytes, deliveries = []) => {
    if (client.isGone() || output.destroyed) {
      for (const delivery of deliveries) delivery.lost();
      return true;
    }
    const line = toSingleLine(bytes);
    const out = Buffer.allocUnsafe(line.length + 1);
    line.copy(out);
    out[line.length] = 0x0a;
    const reportDelivery = (error?: Error | null) => {
      for (const delivery of deliveries) error ? delivery.lost() : delivery.delivered();
    };
    const hasRoom = deliveries.length === 0 ? output.write(out) : output.write(out, reportDelivery);
    if (!hasRoom && !isPaused) {
      isPaused = true;
      client.pause();
      output.once('drain', () => {
        isPaused = false;
        client.resume();
      });
    }
    return hasRoom;
  };
}

function readLine(line: Buffer, refuse: Refuse): Message | undefined {
  try {
    const message = readClientMessage(line);
    refuseAmbiguousKeys(message);
    return message;
  } catch (error) {
    if (!(error instanceof MessageError)) throw error;
    refuse('message', error.isNotJson ? -32700 : -32600, error.message, error.id);
    return undefined;
  }
}
