import type { AmbitError } from '../../errors.ts';
import type { FinalReply } from '../../protocol/channel.ts';

interface StreamOwner {
  readonly owner: object;
  readonly id: string;
  readonly sessionId: string | undefined;
}

/** An open listen stream as others control it. Who serves it sets the two functions. */
export interface ListenStream extends StreamOwner {
  end(): void;
  announceChange(): void;
}

/** The open listen streams of one address. On stdio they end when they are cancelled. */
export interface ListenStreams {
  /** Keeps a stream open until it is served, or until its session ends. */
  open(owner: StreamOwner, serve: (stream: ListenStream) => Promise<FinalReply>): Promise<FinalReply>;
  cancel(owner: object, id: string): void;
  /** Tells the streams of a session that it may use other servers than before. */
  announceChange(sessionId: string): void;
  /** Fails the streams of an ended session. */
  endSession(sessionId: string, reason: AmbitError): void;
}

export function createListenStreams(): ListenStreams {
  const streams = new Map<ListenStream, (reason: AmbitError) => void>();
  return {
    open(owner, serve) {
      const stream: ListenStream = { ...owner, end() {}, announceChange() {} };
      const failed = new Promise<never>((_, fail) => {
        streams.set(stream, fail);
      });
      return Promise.race([failed, serve(stream)]).finally(() => {
        streams.delete(stream);
        stream.end();
      });
    },
    cancel(owner, id) {
      for (const stream of streams.keys()) if (stream.owner === owner && stream.id === id) stream.end();
    },
    announceChange(sessionId) {
      for (const stream of streams.keys()) if (stream.sessionId === sessionId) stream.announceChange();
    },
    endSession(sessionId, reason) {
      for (const [stream, fail] of streams) if (stream.sessionId === sessionId) fail(reason);
    },
  };
}
