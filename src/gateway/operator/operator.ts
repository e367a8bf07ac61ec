import type { Policies } from '../../context/for-models/governing.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import type { Log } from '../../observability/log/log.ts';
import type { SandboxState } from '../../sandbox/sandbox-state.ts';
import type { OpenedSession } from '../../sessions/open-session.ts';
import type { Narrowing, Session, SessionDraft } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { Use } from '../../stores/admission.ts';
import type { Resolved } from '../../upstreams/access/resolution.ts';
import type { GivenCredentials } from '../../upstreams/auth/credential-admin.ts';
import type { GivenLogins } from '../../upstreams/auth/login-admin.ts';
import type { SessionFolders } from '../../workspaces/session-folders/session-folders.ts';
import type { CallExplanation } from '../inspect/explain-call.ts';
import type { People } from './people.ts';

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
export interface OperatorAuth {
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
  readonly places: { readonly configFile: string; readonly dataDir: string };
  openSession(draft: SessionDraft): Promise<OpenedSession>;
  /** Narrows a session, and ends what no longer fits. */
  restrictSession(id: string, change: Narrowing): Promise<Session>;
  /** A further token for a session; that one was made is recorded. */
  furtherToken(id: string): Promise<string>;
  /** Tells what a session has used of its quotas. */
  usage(id: string): Promise<Use | undefined>;
  /** Examines what a sandboxed session's servers run in; null without a gateway, which alone does that. */
  sandbox(): Promise<SandboxState | null>;
  /** Opens what few requests need; a command without a gateway loads it only for those. */
  openAuth(): Promise<OperatorAuth>;
  openAccess(): Promise<ServerAccess>;
}
