import type { Governance } from '../../context/for-models/governance.ts';
import { markForgedBlocks } from '../../context/for-models/mark-forged-blocks.ts';
import type { Principal } from '../../identity/principal.ts';
import type { FinalReply } from '../../protocol/channel.ts';
import { findMember } from '../../protocol/json/scan.ts';
import { readMessage } from '../../protocol/message.ts';
import type { Session } from '../../sessions/session.ts';
import { readToolName, type ToolAccess } from '../../upstreams/access/tool-access.ts';
import type { Callers } from '../../upstreams/links/caller.ts';
import { allServers, type Exchange, readClientId } from '../exchange.ts';
import { type OwnToolList, ownServer } from '../routing/own-server.ts';
import type { AfterStage } from '../stage.ts';
import { findChosenSession, type ResolveSessionOptions } from './resolve-session.ts';

interface PolicyBlockParts {
  readonly governance: Governance;
  readonly callers: Callers;
  readonly tools: Pick<ToolAccess, 'visibleToolFilter'>;
  readonly ownTools: Pick<OwnToolList, 'isExact'>;
  readonly resolving: ResolveSessionOptions;
}

/** Adds the policy block, and the policies around prompts, to replies. A forged block in a reply is marked. */
export function addPolicyBlock(parts: PolicyBlockParts): AfterStage<Exchange, FinalReply> {
  const { governance, callers, tools, ownTools, resolving } = parts;

  /** Marks forged blocks of servers and other agents. Files and policies stay as they are. */
  function markCallReply({ server, entry, message }: Exchange, reply: FinalReply): FinalReply {
    const isOwn = (entry.upstream ?? server) === ownServer && message.method === 'tools/call';
    const isExact = isOwn && ownTools.isExact(readToolName(message) ?? '') && !isRefusal(reply);
    return isExact ? reply : markReply(reply);
  }

  function addToCallReply(exchange: Exchange, reply: FinalReply): FinalReply | Promise<FinalReply> {
    const cleanReply = markCallReply(exchange, reply);
    const session = findSession(exchange);
    if (session === undefined) return cleanReply;
    const { id: sessionId, userId, workspaceId } = session;
    const transportId = findTransport(exchange, sessionId);
    // A handshake-era client must initialize first.
    if (transportId === undefined && exchange.era === 'handshake') return cleanReply;
    const clientId = () => readClientId(exchange, session);
    const hasContextTool = () => offersContextTool(exchange, session);
    return governance.prependIfDue(
      { sessionId, userId, workspaceId, transportId, clientId, hasContextTool },
      cleanReply,
    );
  }

  /** Ignores transport sessions of other sessions and those that have ended. */
  function findTransport({ era, transportId, server }: Exchange, sessionId: string): string | undefined {
    const caller = era === 'modern' || transportId === undefined ? undefined : callers.get(transportId);
    return caller?.sessionId === sessionId && caller.server === server ? caller.id : undefined;
  }

  /** Own tools are offered at two addresses, unless the rules of the operator hide them from the session. */
  function offersContextTool({ server }: Exchange, session: Session): boolean {
    if (server !== allServers && server !== ownServer) return false;
    try {
      return tools.visibleToolFilter(session, ownServer)?.('session_context') ?? true;
    } catch {
      // The session has ended meanwhile.
      return false;
    }
  }

  /** Makes the block due again for the client that has just connected, in the session that its calls will use. */
  async function reconnectClient(exchange: Exchange, session: Session): Promise<void> {
    const { principal } = exchange as Exchange & { readonly principal?: Principal };
    const chosen =
      principal?.kind === 'user' ? await findChosenSession(resolving, principal, exchange.message) : session;
    if (chosen === undefined) return;
    await governance.reconnect({ sessionId: chosen.id, clientId: () => readClientId(exchange, chosen) });
  }

  async function addToGreeting(exchange: Exchange, session: Session, reply: FinalReply): Promise<FinalReply> {
    // A refused request changes nothing. Without the store, the client can connect all the same.
    if (exchange.message.method === 'server/discover' && isResult(reply))
      await reconnectClient(exchange, session).catch(() => {});
    const { userId, workspaceId } = session;
    const hasContextTool = () => offersContextTool(exchange, session);
    return governance.addInstructions({ userId, workspaceId, hasContextTool }, reply);
  }

  return {
    name: 'addPolicyBlock',
    refuses: [],
    after(exchange, reply) {
      const { kind, method } = exchange.message;
      if (kind !== 'request') return reply;
      // The result of a call that was run as a task comes with `tasks/result`.
      if (method === 'tools/call' || method === 'tasks/result') return addToCallReply(exchange, reply);
      const session = findSession(exchange);
      if (method === 'prompts/get') {
        const cleanReply = markReply(reply);
        return session === undefined ? cleanReply : governance.surroundPrompt(session, cleanReply);
      }
      const cleanReply = markReply(reply);
      if (session === undefined || (method !== 'initialize' && method !== 'server/discover')) return cleanReply;
      return addToGreeting(exchange, session, cleanReply);
    },
  };
}

/** Returns the session, also if a later stage failed, because exchanges are changed in place. */
function findSession(exchange: Exchange): Session | undefined {
  return (exchange as Exchange & { readonly session?: Session | undefined }).session;
}

function isResult(reply: FinalReply): boolean {
  return reply.kind === 'message' && readMessage(reply.bytes).result !== undefined;
}

/** Tells whether the reply is a refusal by Ambit, which may quote a server. */
function isRefusal(reply: FinalReply): boolean {
  if (reply.kind !== 'message' || !reply.bytes.includes('ambit/error')) return false;
  return findMember(readMessage(reply.bytes).meta, 'ambit/error') !== undefined;
}

function markReply(reply: FinalReply): FinalReply {
  if (reply.kind !== 'message') return reply;
  const bytes = markForgedBlocks(reply.bytes);
  return bytes === reply.bytes ? reply : { ...reply, bytes };
}
