import { AmbitError } from '../../../errors.ts';
import type { Message } from '../../../protocol/message.ts';

/** The requests of Ambit's own to a process: a probe of its era, or a repeated handshake. */
export interface OwnRequests {
  sendRequest(method: string, params: string, write: (bytes: Buffer) => void, timeoutMs: number): Promise<Message>;
  /** Hears an answer that may still come to a request of the link that had the process before. */
  expectLate(id: number, onAnswer: (message: Message) => void): void;
  /** True when the answer was for one of these requests. */
  takeAnswer(id: number, message: Message): boolean;
  /** Fails the request with this id, or all of them. */
  fail(error: Error, id?: number): void;
}

export function createOwnRequests(nextId: () => number): OwnRequests {
  const waiting = new Map<number, { answer(message: Message): void; fail(error: Error): void }>();
  return {
    sendRequest(method, params, write, timeoutMs) {
      const id = nextId();
      return new Promise<Message>((resolve, reject) => {
        const timer = setTimeout(() => done(() => reject(new AmbitError('UPSTREAM_TIMEOUT'))), timeoutMs);
        const done = (settle: () => void) => {
          clearTimeout(timer);
          waiting.delete(id);
          settle();
        };
        waiting.set(id, {
          answer: (message) => done(() => resolve(message)),
          fail: (error) => done(() => reject(error)),
        });
        write(Buffer.from(`{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":${params}}\n`));
      });
    },
    expectLate(id, onAnswer) {
      const fail = () => void waiting.delete(id);
      const answer = (message: Message) => {
        fail();
        onAnswer(message);
      };
      waiting.set(id, { answer, fail });
    },
    takeAnswer(id, message) {
      const ask = waiting.get(id);
      ask?.answer(message);
      return ask !== undefined;
    },
    fail(error, id) {
      for (const [each, ask] of [...waiting]) if (id === undefined || id === each) ask.fail(error);
    },
  };
}

/** Creates the cancellation of a call. `rawReason` is the caller's own reason, as JSON text. */
export function createCancelMessage(requestId: number, reason: string | undefined, rawReason?: string): Buffer {
  const text = rawReason ?? (reason === undefined ? undefined : JSON.stringify(reason));
  const tail = text === undefined ? '' : `,"reason":${text}`;
  return Buffer.from(
    `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${requestId}${tail}}}\n`,
  );
}
