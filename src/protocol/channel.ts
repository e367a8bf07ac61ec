/** `modern` is MCP 2026-07-28: no handshake, each request describes itself. `handshake` is every revision before. */
export type Era = 'modern' | 'handshake';

/** The way to one caller, for what comes before the final answer: progress, logs, pushes, a listen stream. */
export interface Channel {
  /** The connection this belongs to: on stdio many requests share one. */
  readonly owner: object;
  /** False when the caller is not reading fast enough: stop until `onDrain` calls back. */
  emit(message: Buffer): boolean;
  onDrain(listener: () => void): void;
  isGone(): boolean;
  onGone(listener: () => void): void;
  /** Nothing will come any more: ends a stream that stands open for this channel alone. */
  close(): void;
}

/** Hears what became of a final message: one of the two, once. */
export interface Delivery {
  /** All of it was handed to the connection. */
  delivered(): void;
  lost(): void;
}

/** The final message, or nothing for what is only taken note of. */
export type Reply =
  | {
      readonly kind: 'message';
      readonly bytes: Buffer;
      readonly status?: number;
      readonly transportId?: string;
      /** All the scopes that were needed, where an access token lacks some. */
      readonly scopes?: readonly string[];
      readonly delivery?: Delivery;
    }
  | { readonly kind: 'accepted' };

export const accepted: Reply = { kind: 'accepted' };
