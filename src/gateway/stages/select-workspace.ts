import { findWorkspace, findWorkspacesAt, listWorkspaces } from '../../config/load/workspace-folders.ts';
import type { Config } from '../../config/schema/schema.ts';
import { addErrorText, addInstructions } from '../../context/for-models/edit-results.ts';
import { AmbitError } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import type { Log } from '../../observability/log/log.ts';
import type { FinalReply } from '../../protocol/channel.ts';
import { type AnnouncedWorkspace, contradictory, createWorkspaceReader } from '../../protocol/client-selection.ts';
import { formatRefusal } from '../../protocol/compose-message.ts';
import type { Message } from '../../protocol/message.ts';
import { missingWorkspaceError, suggestWorkspaces } from '../../sessions/missing-workspace.ts';
import { inWorkspace, withUnavailableWorkspace } from '../../sessions/narrowed-sessions.ts';
import type { Session } from '../../sessions/session.ts';
import {
  applyAnnounced,
  chooseForCredential,
  createIgnoredWorkspaceLog,
  findAllowedWorkspace,
  limitOf,
  maxShownLength,
  type WorkspaceNames,
} from '../../sessions/workspace-choice.ts';
import { readToolName } from '../../upstreams/access/tool-access.ts';
import type { Caller, Callers } from '../../upstreams/links/caller.ts';
import { allServers, type Exchange, type SessionExchange } from '../exchange.ts';
import { type OwnToolList, ownServer } from '../routing/own-server.ts';
import { type AroundStage, addToExchange, type BeforeStage } from '../stage.ts';

/** Reads the announced workspace by the configured keys. Throws if the request announces more than one. */
type ReadAnnouncedWorkspace = (message: Message) => string | undefined;

export interface SelectOptions {
  readonly config: () => Config;
  readonly callers: Callers;
  readonly log: Log;
  readonly ownTools: Pick<OwnToolList, 'has'>;
}

type SelectedSession = { readonly session: Session };

/** Requests that only list or describe, or that open the connection. */
const listMethods =
  /^(?:initialize|ping|server\/discover|subscriptions\/listen|logging\/setLevel|(?:tools|prompts|resources|resources\/templates)\/list)$/;

/**
 * Puts the session into the workspace that its client announces. If the session may not use that one, it works in none,
 * and whatever needs a workspace is refused with the names of those that the caller may use.
 */
export function selectWorkspace(
  options: SelectOptions,
): AroundStage<SessionExchange<Exchange>, SelectedSession, FinalReply> {
  const { config, log } = options;
  const readAnnounced = createReadAnnouncedWorkspace(config);
  const logIgnoredWorkspaceOnce = createIgnoredWorkspaceLog(log);

  function applyWorkspace({ session: before, principal, entry }: SessionExchange<Exchange>, asked: string): Session {
    const { session, outcome } = applyAnnounced(configuredNames(config()), before, asked, limitOf(principal));
    if (outcome !== 'used') {
      logIgnoredWorkspaceOnce(before, asked);
      entry.ignoredWorkspace = asked.slice(0, maxShownLength);
    } else if (session !== before) entry.workspaceId = session.workspaceId;
    return session;
  }

  function findSession(exchange: SessionExchange<Exchange>): Session {
    const { era, message, session } = exchange;
    if (era === 'handshake' && message.method !== 'initialize') {
      const announced = findCaller(options, exchange)?.unavailableWorkspace;
      if (announced !== undefined) return withUnavailableWorkspace(session, announced);
      return useOpenedWorkspace(options, exchange)?.session ?? session;
    }
    const asked = readAnnounced(message);
    return asked === undefined ? session : applyWorkspace(exchange, asked);
  }

  return {
    name: 'selectWorkspace',
    refuses: ['WORKSPACE_NOT_FOUND', 'REQUEST_INVALID'],
    around(exchange, next) {
      const session = findSession(exchange);
      const selected = session === exchange.session ? exchange : addToExchange(exchange, { session });
      if (session.unavailableWorkspace === undefined) return next(selected);
      const explain = () => explainMissing(config(), session, exchange.principal);
      // The credential is limited to workspaces, so that its servers would work in another one than the client means.
      if (session.workspaceId !== undefined && needsServer(options, exchange)) throw explain();
      return next(selected).then((reply) => addExplanation(exchange.message, reply, explain));
    },
  };
}

/** Tells whether a server would do something for the request, other than to describe itself. */
function needsServer({ ownTools }: SelectOptions, { message, server }: Exchange): boolean {
  const { kind, method } = message;
  if (kind !== 'request' || server === ownServer || listMethods.test(method)) return false;
  return method !== 'tools/call' || server !== allServers || !ownTools.has(readToolName(message) ?? '');
}

/** Longer replies are not an error about a missing workspace. */
const maxErrorBytes = 65_536;
const missingCodes = /^WORKSPACE_(?:REQUIRED|NOT_FOUND): /;

/**
 * Adds to the answer of a server that needs a workspace, and to the instructions for a client, which ones there are.
 * Servers do not know them.
 */
function addExplanation({ method }: Message, reply: FinalReply, explain: () => AmbitError): FinalReply {
  if (reply.kind !== 'message') return reply;
  const { bytes } = reply;
  if (method === 'initialize' || method === 'server/discover') {
    const { message, hint } = explain();
    return { ...reply, bytes: addInstructions(bytes, `${message} ${hint}`) };
  }
  if (method !== 'tools/call' || bytes.length > maxErrorBytes || !bytes.includes('WORKSPACE_')) return reply;
  return { ...reply, bytes: addErrorText(bytes, missingCodes, () => formatRefusal(explain())) };
}

/** Explains to a caller without a workspace which ones it may use. `listsSessions` is set for tools that take a session. */
export function explainMissing(
  config: Config,
  session: Session,
  principal: Principal,
  listsSessions = false,
): AmbitError {
  const { unavailableWorkspace: unavailable } = session;
  return missingWorkspaceError({
    unavailable,
    available: suggestWorkspaces(configuredNames(config), session, limitOf(principal), unavailable),
    key: config.context.announceKeys[0] ?? 'ambit',
    listsSessions,
  });
}

/** Puts the session into the workspace in which its transport session was opened. It is for requests without a message. */
export function useTransportWorkspace(
  options: SelectOptions,
): BeforeStage<SessionExchange, SelectedSession | undefined> {
  return {
    name: 'useTransportWorkspace',
    refuses: ['WORKSPACE_NOT_FOUND'],
    before: (exchange) => useOpenedWorkspace(options, exchange),
  };
}

/** Finds the handshake-era client, if this session opened it. */
function findCaller({ callers }: SelectOptions, { session, transportId }: SessionExchange): Caller | undefined {
  const caller = transportId === undefined ? undefined : callers.get(transportId);
  return caller?.sessionId === session.id ? caller : undefined;
}

/** Uses the workspace of the handshake, as long as the session may still use it. */
function useOpenedWorkspace(options: SelectOptions, exchange: SessionExchange): SelectedSession | undefined {
  const { session, principal, entry } = exchange;
  const config = options.config();
  const workspaceId = findCaller(options, exchange)?.workspaceId;
  if (workspaceId === undefined || session.workspaceId !== undefined) return undefined;
  if (findAllowedWorkspace(configuredNames(config), session, workspaceId) === undefined)
    throw explainMissing(config, withUnavailableWorkspace(session, workspaceId), principal);
  entry.workspaceId = workspaceId;
  return { session: inWorkspace(session, workspaceId) };
}

function createReadAnnouncedWorkspace(config: () => Config): ReadAnnouncedWorkspace {
  let keys: readonly string[] = [];
  let read: (message: Message) => AnnouncedWorkspace = () => undefined;
  return function readAnnounced(message) {
    if (message.meta === undefined) return undefined;
    const { announceKeys } = config().context;
    if (announceKeys !== keys) {
      keys = announceKeys;
      read = createWorkspaceReader(announceKeys);
    }
    const asked = read(message);
    if (asked !== contradictory) return asked;
    throw new AmbitError('REQUEST_INVALID', {
      what: 'The request announces more than one workspace.',
      hint: 'Announce one workspace, in one way.',
    });
  };
}

/**
 * Creates the function that chooses the workspace of a new session. A credential that is limited to some workspaces
 * gets the announced one, or the first. Other sessions have no workspace and may be used in each.
 */
export function createChooseWorkspace(
  config: () => Config,
): (principal: Principal, message: Message) => string | undefined {
  const readAnnounced = createReadAnnouncedWorkspace(config);
  return function chooseWorkspace(principal, message) {
    if (principal.kind !== 'user') return undefined;
    const { ceiling } = principal;
    if (ceiling.workspaces === null && ceiling.directIn === undefined) return undefined;
    return chooseForCredential(ceiling, readAnnounced(message), configuredNames(config()));
  };
}

function configuredNames(config: Config): WorkspaceNames {
  return {
    findIds: (name) => (findWorkspace(config, name) === undefined ? findWorkspacesAt(config, name) : [name]),
    trustOf: (id) => findWorkspace(config, id)?.trust ?? 'sandboxed',
    list: () => listWorkspaces(config).names,
  };
}
