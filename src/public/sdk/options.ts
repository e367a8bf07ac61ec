import type { Environment } from './environment.ts';
import type { KeySource } from './keys.ts';
import type { ReplayMemory } from './replay-memory.ts';

export interface ContextOptions {
  /**
   * Who this server is: over HTTP its address exactly as Ambit's configuration has it, and required; over stdio
   * `ambit:server:<name>`, and any name of that form where neither this nor `AMBIT_AUDIENCE` is given.
   */
  readonly audience?: string | readonly string[] | undefined;
  /** Who may have signed; by default anyone whose key is among the keys. */
  readonly issuer?: string | undefined;
  /** The keys to verify with; by default `jwksUri`, else `AMBIT_JWKS`. */
  readonly keys?: KeySource | undefined;
  /** The address of the keys: the gateway's `/.well-known/jwks.json`. */
  readonly jwksUri?: string | undefined;
  /** How far clocks may differ. Default 5 seconds. */
  readonly clockSkewSeconds?: number | undefined;
  /** Where used tokens are remembered; by default in this process. */
  readonly replays?: ReplayMemory | undefined;
  /** Say `http` when you serve a network through a transport that shows no headers: the environment is not the caller's. */
  readonly transport?: 'stdio' | 'http' | undefined;
  /** Instead of the environment this process was started with. */
  readonly env?: Environment | undefined;
  /** Milliseconds since 1970; for tests. */
  readonly now?: (() => number) | undefined;
}
