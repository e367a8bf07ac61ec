import type { Config } from '../config/schema/schema.ts';
import type { Directory } from '../identity/directory.ts';
import type { JwtIdentity } from '../identity/jwt/jwt-identity.ts';
import type { Refusal } from '../observability/journal/refusals.ts';
import type { Metrics } from '../observability/metrics/metrics.ts';
import type { Reply } from '../protocol/channel.ts';
import type { SandboxState } from '../sandbox/sandbox-state.ts';
import type { Lifecycle } from '../sessions/events/lifecycle.ts';
import type { ServerDefinition } from '../upstreams/definition.ts';
import type { Arrived } from './exchange.ts';
import type { Identify } from './identify.ts';
import type { Operator, OperatorAuth, ServerAccess } from './operator/operator.ts';
import type { Next } from './stage.ts';
import type { Visit, Visited } from './visit.ts';

export type { Refusal };

/** The gateway without its doors: entrances bring exchanges to `serve` and visitors to `visit`. */
export interface Gateway extends Operator, OperatorAuth, ServerAccess {
  readonly config: Config;
  readonly directory: Directory;
  readonly jwt: JwtIdentity | undefined;
  readonly serve: Next<Arrived, Reply>;
  readonly visit: Next<Visit, Visited>;
  /** Finds who a credential proves: entrances ask before they read what else was sent. */
  readonly identify: Identify;
  /** For the journal: what an entrance refused by itself. Many of one kind are told as a number. */
  refused(refusal: Refusal): void;
  readonly metrics: Metrics;
  /** What happens to the sessions of the store, for those outside who listen. */
  readonly lifecycle: Lifecycle;
  servers(): ReadonlyMap<string, ServerDefinition>;
  /** The revision a transport session negotiated; it tells how to read a body, and proves nothing. */
  transportVersion(transportId: string | undefined): string | undefined;
  /** For the journal: who asked the control API for what, and how that went. */
  controlled(what: {
    readonly by: string;
    readonly method: string;
    readonly path: string;
    readonly status: number;
  }): void;
  /** What a sandboxed session's servers run in. */
  sandbox(): Promise<SandboxState>;
  /** The public keys that its contexts verify with, as a JWK Set. */
  jwks(): string;
  /**
   * Puts another configuration in place without dropping calls; returns the servers that changed. Bounds of sessions,
   * identity and addresses keep what they were at the start.
   */
  reload(next: Config): string[];
  /** Starts in the background what the first call would wait for. Nothing is started before that. */
  prepare(): void;
  /** Resolves when sessions can be read and written. */
  ready(): Promise<void>;
  /** How many things are live here. */
  live(): { readonly sessions: number; readonly links: number; readonly transports: number };
  /** Ends every process, and writes down what is still unwritten. Sessions live on where the store outlives us. */
  close(): Promise<void>;
}
