/** `modern` is MCP 2026-07-28: no handshake, each request describes itself. `handshake` is every earlier revision. */
export type Era = 'modern' | 'handshake';

/** The connection to one caller for messages before the final answer: progress, logs, pushes, a listen stream. */
export interface Channel {
  /** The connection this belongs to. On stdio, many requests share one. */
  readonly owner: object;
  /** False if the caller reads too slowly: stop until `onDrain` calls back. */
  emit(message: Buffer): boolean;
  onDrain(listener: () => void): void;
  isGone(): boolean;
  /** True while the client is disconnected but may come back for the messages. */
  isAway?(): boolean;
  onGone(listener: () => void): void;
  /** Says whether the server answers with a stream of events. The client gets the same, if it accepts it. */
  followForm?(isStream: boolean): void;
  /**
   * Says that the server has closed its stream and will continue it. A client that can continue its own stream gets it
   * closed too. `onBack` is called when the client has come back.
   */
  suspend?(retryMs: number, onBack: () => void): void;
  /** Says that the server has sent an event without data on a continued stream. The client gets one too. */
  prime?(): void;
  /** Closes a stream that is open for this channel alone. */
  close(): void;
}

/** Listener for the fate of a final message. One of the two is called, once. */
export interface DeliveryListener {
  /** The whole message was handed to the connection. */
  delivered(): void;
  lost(): void;
}

/** The failure that a server reports in its answer: a result with `isError`, or a JSON-RPC error. */
export type AnsweredFailure = 'tool-error' | 'server-error';

/** The final message, or `accepted` for a notification. */
export type FinalReply =
  | {
      readonly kind: 'message';
      readonly bytes: Buffer;
      readonly status?: number;
      readonly transportId?: string;
      /** All scopes that the request needs, if an access token lacks some. */
      readonly scopes?: readonly string[];
      readonly delivery?: DeliveryListener;
      /** Set where a server answered that the request has failed. */
      readonly failure?: AnsweredFailure;
    }
  | { readonly kind: 'accepted' };

export const acceptedReply: FinalReply = { kind: 'accepted' };
