import type { Config } from '../config/schema/schema.ts';
import type { PolicyAdmin } from '../context/for-models/governance.ts';
import type { Consoles } from '../identity/consoles.ts';
import type { Directory } from '../identity/directory.ts';
import type { JwtIdentity } from '../identity/jwt/jwt-identity.ts';
import type { PresentedCredential, Principal } from '../identity/principal.ts';
import type { Journal } from '../observability/journal/journal.ts';
import type { EntranceRefusal } from '../observability/journal/refusals.ts';
import type { Log } from '../observability/log/log.ts';
import type { Metrics } from '../observability/metrics/metrics.ts';
import type { FinalReply } from '../protocol/channel.ts';
import type { OnInstall } from '../sandbox/packages/package-store.ts';
import type { SandboxState } from '../sandbox/runners.ts';
import type { Lifecycle } from '../sessions/events/lifecycle.ts';
import type { OpenedSession } from '../sessions/open-session.ts';
import type { EndedSessions } from '../sessions/search/ended-sessions.ts';
import type { Restriction, Session, SessionDraft } from '../sessions/session.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { Use } from '../stores/admission.ts';
import type { SessionOpener } from '../stores/record.ts';
import type { SessionStore } from '../stores/store.ts';
import type { ResolvedServer } from '../upstreams/access/resolution.ts';
import type { CredentialAdmin } from '../upstreams/auth/credential-admin.ts';
import type { LoginAdmin } from '../upstreams/auth/login-admin.ts';
import type { ServerDefinition } from '../upstreams/definition.ts';
import type { EmbeddingProvider } from '../workspaces/codebase/embeddings.ts';
import type { SessionFolders } from '../workspaces/session-folders/session-folders.ts';
import type { StageWatch } from './compose.ts';
import type { DirectoryAdmin } from './directory-admin.ts';
import type { Exchange } from './exchange.ts';
import type { CallExplanation } from './inspect/explain-call.ts';
import type { ProcessFilter, ProcessView } from './inspect/list-processes.ts';
import type { SessionInspector } from './inspect/session-inspector.ts';
import type { ServerListener } from './observer.ts';
import type { ServerLogs, ServerOverview } from './server-activity.ts';
import type { ServerAdmin } from './server-admin/server-admin.ts';
import type { ActivityTracker } from './session-activity.ts';
import type { Next, StageList } from './stage.ts';
import type { Identify } from './stages/authenticate.ts';
import type { TransportRequest, TransportResult } from './stages/handle-transport.ts';

/** Tells which servers and tools a session may use, and why. */
export interface ServerAccess {
  /** Lists every server and whether this session may use it. */
  explain(session: Session): ResolvedServer[];
  /** True when rules or lists restrict which tools of this server may be called. */
  narrowsTools(server: string): boolean;
  /** Tells what would happen to a call of this tool with these arguments (JSON text), and why. */
  explainCall(session: Session, tool: string, args: string | undefined): CallExplanation;
  /** True when a session may call any of Ambit's own tools. */
  hasOwnTools(session: Session): boolean;
}

/** The credentials and logins of users for servers, for an operator. */
interface OperatorAuth {
  readonly credentials: CredentialAdmin;
  readonly logins: LoginAdmin;
}

/** The process of a running gateway, for an operator. */
export interface GatewayProcess {
  readonly startedAt: number;
  /** The file that takes its log; undefined where it does not run in the background. */
  readonly logFile: string | undefined;
  readonly serverLogs: ServerLogs;
  /** The sign-ins of the web console. */
  readonly consoles: Consoles;
  /** Counts the processes of servers. */
  processCount(): number;
  /** Tracks what the sessions do in this process. */
  readonly activity: ActivityTracker;
  /** Lists the processes of servers with what each uses now. */
  listProcesses(filter: ProcessFilter): readonly ProcessView[];
}

/** The parts behind the control API. A gateway has them, and a command without a gateway opens only these. */
export interface Operator {
  /** A log that shortens texts and removes secrets. */
  readonly log: Log;
  readonly sessions: Sessions;
  /** Users, teams and keys. Changes apply to all processes and are recorded. */
  readonly people: DirectoryAdmin;
  readonly policies: PolicyAdmin;
  readonly endedSessions: Pick<EndedSessions, 'list' | 'listInTurn'>;
  /** The own folders of sessions. */
  readonly folders: SessionFolders;
  /** Shows what is known about one session, and sends it messages. */
  readonly inspector: SessionInspector;
  readonly calls: Journal['calls'];
  /** Reads the journal of all processes with the same data directory. */
  readonly searchJournal: Journal['search'];
  /** Counts the calls, refusals and processes in the journal. */
  readonly readStatistics: Journal['statistics'];
  /** The paths of the configuration and the data, for other processes. */
  readonly paths: { readonly configFile: string; readonly dataDir: string };
  /** Undefined for a command without a gateway. */
  readonly running: GatewayProcess | undefined;
  /** The configuration as it is now. */
  readonly config: Config;
  /**
   * Describes every server: its approval and, in a gateway, how it does. Once the signal is aborted, files are not read,
   * and their servers look changed.
   */
  listServers(signal?: AbortSignal): Promise<ServerOverview[]>;
  openSession(draft: SessionDraft, openedBy?: SessionOpener): Promise<OpenedSession>;
  /** Restricts a session, and ends work that is no longer allowed. */
  restrictSession(id: string, change: Restriction): Promise<Session>;
  /** Issues another token for a session, and records it. */
  issueToken(id: string): Promise<string>;
  /** Records which servers were resolved for a session, to be started by another program. */
  recordResolution(sessionId: string, servers: readonly string[]): void;
  /** Returns what a session has used of its quotas. */
  usage(id: string): Promise<Use | undefined>;
  /** Examines the sandbox; null without a gateway. */
  sandbox(): Promise<SandboxState | null>;
  /** Opens parts that few requests need. A command without a gateway loads them only for those. */
  openAuth(): Promise<OperatorAuth>;
  openAccess(): Promise<ServerAccess>;
  openServers(): Promise<ServerAdmin>;
}

export interface GatewayOptions {
  readonly config: Config;
  readonly configFile: string;
  readonly dataDir: string;
  readonly log: Log;
  /** False if a server may differ from the configuration. Then it gets no credentials. */
  readonly credentials?: boolean;
  /** Replaces the configured store. It is closed with the gateway. */
  readonly store?: SessionStore;
  /** The folder of a file store; the data directory by default. */
  readonly storeDir?: string;
  readonly watchStages?: StageWatch | undefined;
  readonly embeddings?: EmbeddingProvider | undefined;
  /** Changes the list of stages that every request passes. */
  readonly arrangeStages?: (list: StageList<Exchange, FinalReply>) => StageList<Exchange, FinalReply>;
  /** Environment variables of OpenTelemetry, used beside the configuration. */
  readonly environment?: NodeJS.ProcessEnv;
  /** Watches installations of packages. Without it, they are logged. */
  readonly onInstall?: OnInstall | undefined;
  /** Hears of the servers as they run. */
  readonly serverListener?: ServerListener;
  /** The file that takes the log of a gateway in the background. */
  readonly logFile?: string | undefined;
}

export type { EntranceRefusal as Refusal };

/** The gateway without entrances. They pass messages to `serve` and requests without a message to `handleTransport`. */
export interface Gateway extends Operator, OperatorAuth, ServerAccess {
  readonly running: GatewayProcess;
  readonly directory: Directory;
  readonly jwt: JwtIdentity | undefined;
  readonly serve: Next<Exchange, FinalReply>;
  readonly handleTransport: Next<TransportRequest, TransportResult>;
  /** Finds the principal of a credential. Entrances use it before they read the body. */
  readonly identify: Identify;
  /** Verifies the key of a request again while it is served, if another system issued it. Call the result at its end. */
  holdKey(principal: Principal, credential: PresentedCredential): (() => void) | undefined;
  /** Records what an entrance refused by itself. Many refusals of one kind are recorded as a count. */
  recordRefusal(refusal: EntranceRefusal): void;
  readonly metrics: Metrics;
  /** The events of sessions, for event streams and webhooks. */
  readonly lifecycle: Lifecycle;
  servers(): ReadonlyMap<string, ServerDefinition>;
  /** Returns the revision that a transport session negotiated, which decides how a body is read. */
  transportVersion(transportId: string | undefined): string | undefined;
  /** Records a request to the control API and its result. */
  recordControl(what: {
    readonly by: string;
    readonly method: string;
    readonly path: string;
    readonly status: number;
    readonly consoleId?: string | undefined;
  }): void;
  /** Examines the sandbox of sandboxed sessions. */
  sandbox(): Promise<SandboxState>;
  /** Returns the public keys that verify contexts, as a JWK Set. */
  jwks(): string;
  /**
   * Applies another configuration without dropping calls and returns the changed servers. Limits of sessions, identity
   * and addresses stay as they were at the start.
   */
  reload(next: Config): string[];
  /** Reads the configuration file again and applies it. One such request is served after the other. */
  reloadFile(): Promise<{ readonly changed: readonly string[]; readonly warnings: readonly string[] }>;
  /** Starts in the background what the first call would wait for. Otherwise nothing is started before that call. */
  prepare(): void;
  /** Resolves when sessions can be read and written. */
  ready(): Promise<void>;
  /** Counts what is live in this process. */
  live(): { readonly sessions: number; readonly links: number; readonly transports: number };
  /** Answers the calls that wait for other sessions, with what there is. Entrances call it before they close. */
  stopWaiting(): void;
  /** Ends every process and writes what is still unwritten. Sessions stay if the store outlives the gateway. */
  close(): Promise<void>;
}
