import type { Loaded, SessionBase } from './session-base.ts';
import type { TrustLevel } from './trust-level.ts';

/** The part of a server that decides who may use it. */
export interface ServerTrust {
  readonly name: string;
  /** The trust levels of sessions that may use it. */
  readonly trust: readonly TrustLevel[];
}

/** The part of a session, and of its workspace, that decides which servers it may use. */
export interface SessionInWorkspace extends Pick<Loaded<SessionBase>, 'trustLevel' | 'servers'> {
  readonly workspace:
    | { readonly id: string; readonly servers: 'all' | 'none' | readonly string[] }
    /** The workspace is no longer configured, so nobody can say what may be used there. */
    | { readonly id: string; readonly servers: undefined }
    | undefined;
}

/** The reason why a session may not use a server, and the rule that says so. */
export interface AccessDenial {
  readonly rule: string;
  readonly reason: string;
}

function checkTrust({ name, trust }: ServerTrust, { trustLevel }: SessionInWorkspace): AccessDenial | undefined {
  if (trust.includes(trustLevel)) return undefined;
  const whom = trust.length === 0 ? 'no session' : `${trust.join(' and ')} sessions only`;
  return { rule: `servers.${name}.trust`, reason: `it is for ${whom}; this session is ${trustLevel}` };
}

function checkWorkspace({ name }: ServerTrust, { workspace }: SessionInWorkspace): AccessDenial | undefined {
  if (workspace === undefined) return undefined;
  const { id, servers } = workspace;
  if (servers === undefined) return { rule: `workspaces.${id}`, reason: `the workspace "${id}" no longer exists` };
  if (servers === 'all' || (servers !== 'none' && servers.includes(name))) return undefined;
  const reason =
    servers === 'none'
      ? `no server may be used in "${id}"`
      : `it is not in the list of servers of the workspace "${id}"`;
  return { rule: `workspaces.${id}.capabilities.servers`, reason };
}

function checkSessionServers({ name }: ServerTrust, { servers }: SessionInWorkspace): AccessDenial | undefined {
  if (servers === undefined || servers.includes(name)) return undefined;
  return { rule: 'session.servers', reason: 'it is not in the list of servers of this session' };
}

/** Finds the first reason why a session may not use a server; undefined if it may. */
export function findAccessDenial(server: ServerTrust, session: SessionInWorkspace): AccessDenial | undefined {
  return checkTrust(server, session) ?? checkWorkspace(server, session) ?? checkSessionServers(server, session);
}
