import type { Config } from '../config/schema/schema.ts';
import type { Policies } from '../context/for-models/governing.ts';
import type { Directory } from '../identity/directory.ts';
import type { JwtIdentity } from '../identity/jwt/jwt-identity.ts';
import type { Journal } from '../observability/journal/journal.ts';
import type { Refusal } from '../observability/journal/refusals.ts';
import type { Log } from '../observability/log/log.ts';
import type { Metrics } from '../observability/metrics/metrics.ts';
import type { Reply } from '../protocol/channel.ts';
import type { SandboxState } from '../sandbox/sandbox-state.ts';
import type { Lifecycle } from '../sessions/events/lifecycle.ts';
import type { OpenedSession } from '../sessions/open-session.ts';
import type { Narrowing, Session, SessionDraft } from '../sessions/session.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { Use } from '../stores/admission.ts';
import type { SessionStore } from '../stores/store.ts';
import type { Resolved } from '../upstreams/access/resolution.ts';
import type { GivenCredentials } from '../upstreams/auth/given-credentials.ts';
import type { GivenLogins } from '../upstreams/auth/given-logins.ts';
import type { ServerDefinition } from '../upstreams/definition.ts';
import type { SessionFolders } from '../workspaces/session-folders/session-folders.ts';
import type { StageWatch } from './compose.ts';
import type { People } from './directory-admin.ts';
import type { Arrived } from './exchange.ts';
import type { CallExplanation } from './inspect/explain-call.ts';
import type { Next, StageList } from './stage.ts';
import type { Identify } from './stages/authenticate.ts';
import type { TransportRequest, TransportResult } from './stages/handle-transport.ts';

/** Tells which servers and tools a session may use, and why. */
export interface ServerAccess {
  /** Every server there is, as this session finds it. */
  explain(session: Session): Resolved[];
  /** True when rules or lists narrow which tools of this server may be called. */
  narrowsTools(server: string): boolean;
  /** Tells what a call of this tool with these arguments, JSON text, would get, and why. */
  explainCall(session: Session, tool: string, args: string | undefined): CallExplanation;
  /** True when a session may call any of Ambit's own tools. */
  hasOwnTools(session: Session): boolean;
}

/** The credentials and logins that servers are given on behalf of users, as an operator handles them. */
interface OperatorAuth {
  readonly credentials: GivenCredentials;
  readonly logins: GivenLogins;
}

/** The parts that the control API works on. A gateway has them, and a command without a gateway opens only these. */
export interface Operator {
  /** Shortens and scrubs whatever is said through it. */
  readonly log: Log;
  readonly sessions: Sessions;
  /** The directory for whoever runs Ambit: what is changed here is done everywhere, and written down. */
  readonly people: People;
  readonly policies: Policies;
  /** Folders that sessions have for themselves. */
  readonly folders: SessionFolders;
  readonly calls: Journal['calls'];
  /** The configuration and the data, for another process to find. */
  readonly paths: { readonly configFile: string; readonly dataDir: string };
  openSession(draft: SessionDraft): Promise<OpenedSession>;
  /** Narrows a session, and ends what no longer fits. */
  restrictSession(id: string, change: Narrowing): Promise<Session>;
  /** A further token for a session; that one was made is recorded. */
  issueToken(id: string): Promise<string>;
  /** Tells what a session has used of its quotas. */
  usage(id: string): Promise<Use | undefined>;
  /** Examines what a sandboxed session's servers run in; null without a gateway, which alone does that. */
  sandbox(): Promise<SandboxState | null>;
  /** Opens what few requests need; a command without a gateway loads it only for those. */
  openAuth(): Promise<OperatorAuth>;
  openAccess(): Promise<ServerAccess>;
}

export interface GatewayOptions {
  readonly config: Config;
  readonly configFile: string;
  readonly dataDir: string;
  readonly log: Log;
  /** False where a server may not be what the configuration says: then it is given nobody's credential. */
  readonly credentials?: boolean;
  /** Instead of the one the configuration names; closed with the gateway. */
  readonly store?: SessionStore;
  /** Where a store that is a file lies, if not in the data directory. */
  readonly storeDir?: string;
  readonly watchStages?: StageWatch | undefined;
  /** Changes the list of the stages that every request passes. */
  readonly arrangeStages?: (list: StageList<Arrived, Reply>) => StageList<Arrived, Reply>;
  /** Where OpenTelemetry's own names are looked for beside the configuration. */
  readonly environment?: NodeJS.ProcessEnv;
}

export type { Refusal };

/** The gateway without its doors: entrances bring exchanges to `serve` and visitors to `visit`. */
export interface Gateway extends Operator, OperatorAuth, ServerAccess {
  readonly config: Config;
  readonly directory: Directory;
  readonly jwt: JwtIdentity | undefined;
  readonly serve: Next<Arrived, Reply>;
  readonly handleTransport: Next<TransportRequest, TransportResult>;
  /** Finds who a credential proves: entrances ask before they read what else was sent. */
  readonly identify: Identify;
  /** For the journal: what an entrance refused by itself. Many of one kind are told as a number. */
  recordRefusal(refusal: Refusal): void;
  readonly metrics: Metrics;
  /** What happens to the sessions of the store, for those outside who listen. */
  readonly lifecycle: Lifecycle;
  servers(): ReadonlyMap<string, ServerDefinition>;
  /** The revision a transport session negotiated; it tells how to read a body, and proves nothing. */
  transportVersion(transportId: string | undefined): string | undefined;
  /** For the journal: who asked the control API for what, and how that went. */
  recordControl(what: {
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
