import type { Config } from '../config/schema.ts';
import type { Lifecycle } from '../events/lifecycle.ts';
import type { Journal } from '../journal/journal.ts';
import type { Refusal } from '../journal/refusals.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { OpenedSession } from '../sessions/open-session.ts';
import type { Narrowing, Session, SessionDraft } from '../sessions/session.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { Use } from '../stores/admission.ts';
import type { ServerDefinition } from '../upstreams/definition.ts';
import type { Reply } from '../wire/channel.ts';
import type { SessionFolders } from '../workspaces/isolation/session-folders.ts';
import type { Arrived } from './exchange.ts';
import type { CallExplanation } from './explain-call.ts';
import type { GivenCredentials } from './given-credentials.ts';
import type { GivenLogins } from './given-logins.ts';
import type { Policies } from './governing.ts';
import type { Identify } from './identify.ts';
import type { JwtIdentity } from './jwt-identity.ts';
import type { OpenDirectory } from './open-directory.ts';
import type { Resolved } from './resolution.ts';
import type { SandboxState } from './sandbox-state.ts';
import type { Next } from './stage.ts';
import type { Visit, Visited } from './visit.ts';

export type { Refusal };

/** The gateway without its doors: entrances bring exchanges to `serve` and visitors to `visit`. */
export interface Gateway extends Pick<OpenDirectory, 'directory' | 'people'> {
  readonly config: Config;
  readonly jwt: JwtIdentity | undefined;
  readonly serve: Next<Arrived, Reply>;
  readonly visit: Next<Visit, Visited>;
  /** Finds who a credential proves: entrances ask before they read what else was sent. */
  readonly identify: Identify;
  /** For the journal: what an entrance refused by itself. Many of one kind are told as a number. */
  refused(refusal: Refusal): void;
  readonly sessions: Sessions;
  readonly metrics: Metrics;
  /** Whatever is said through it is shortened and scrubbed. */
  readonly log: Log;
  /** What happens to the sessions of the store, for those outside who listen. */
  readonly lifecycle: Lifecycle;
  servers(): ReadonlyMap<string, ServerDefinition>;
  /** The revision a transport session negotiated; it tells how to read a body, and proves nothing. */
  transportVersion(transportId: string | undefined): string | undefined;
  openSession(draft: SessionDraft): Promise<OpenedSession>;
  /** Narrows a session, and ends what no longer fits. */
  restrictSession(id: string, change: Narrowing): Promise<Session>;
  /** A further token for a session; that one was made is recorded. */
  furtherToken(id: string): Promise<string>;
  /** For the journal: who asked the control API for what, and how that went. */
  controlled(what: {
    readonly by: string;
    readonly method: string;
    readonly path: string;
    readonly status: number;
  }): void;
  /** Every server there is, as this session finds it. */
  explain(session: Session): Resolved[];
  /** Whether rules or lists narrow which tools of this server may be called. */
  narrowsTools(server: string): boolean;
  /** What a call of this tool with these arguments, JSON text, would get, and why. */
  explainCall(session: Session, tool: string, args: string | undefined): CallExplanation;
  /** What a sandboxed session's servers run in. */
  sandbox(): Promise<SandboxState>;
  readonly credentials: GivenCredentials;
  readonly policies: Policies;
  readonly logins: GivenLogins;
  /** Folders that sessions have for themselves. */
  readonly folders: SessionFolders;
  /** The public keys that its contexts verify with, as a JWK Set. */
  jwks(): string;
  /** Where another process finds this gateway. */
  readonly places: { readonly configFile: string; readonly dataDir: string };
  /**
   * Puts another configuration in place without dropping calls; returns the servers that changed. Bounds of sessions,
   * identity and addresses keep what they were at the start.
   */
  reload(next: Config): string[];
  /** Resolves when sessions can be read and written. */
  ready(): Promise<void>;
  /** How many things are live here. */
  live(): { readonly sessions: number; readonly links: number; readonly transports: number };
  /** What a session has used of its quotas. */
  usage(id: string): Promise<Use | undefined>;
  readonly calls: Journal['calls'];
  /** Whether a session may call any of Ambit's own tools. */
  hasOwnTools(session: Session): boolean;
  /** Ends every process, and writes down what is still unwritten. Sessions live on where the store outlives us. */
  close(): Promise<void>;
}
