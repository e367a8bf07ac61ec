import { AmbitError, isAmbitError } from '../../errors.ts';
import type { Principal } from '../../identity/principal.ts';
import { acceptedReply, type Era, type FinalReply } from '../../protocol/channel.ts';
import { composeNotification } from '../../protocol/compose-message.ts';
import { findMember, readRawValue, readShape, readStringValue } from '../../protocol/json/scan.ts';
import type { Message } from '../../protocol/message.ts';
import { tasksExtension } from '../../protocol/modern-envelope.ts';
import { ProtocolError } from '../../protocol/protocol-error.ts';
import { readRuleArguments } from '../../protocol/rule-arguments.ts';
import { handshakeVersions, modernVersion } from '../../protocol/versions.ts';
import type { Session } from '../../sessions/session.ts';
import type { ToolDefinition } from '../../sessions/tools/tool.ts';
import type { Toolset } from '../../sessions/tools/toolset.ts';
import { readToolName, type ToolAccess } from '../../upstreams/access/tool-access.ts';
import type { InProcessServer } from '../../upstreams/definition.ts';
import { withoutModernExtensions } from '../../upstreams/links/handshake.ts';
import type { Link, UpstreamCall } from '../../upstreams/links/link.ts';
import { subscriptionKey } from '../../upstreams/links/relay/towards-client.ts';
import { asksForToolChanges } from '../lists/announce-lists.ts';
import { type CreateListReply, createResultReply } from './collect-lists.ts';
import { nullLink } from './composite-link.ts';
import { createListenStreams, type ListenStream } from './listen-streams.ts';
import { inboxEntry, inboxUri, type OwnInbox } from './own-inbox.ts';

/** The name of the server of Ambit's own tools. No other server can have it. */
export const ownServer = 'ambit';

/** Ambit's own tools as lists show them. */
export interface OwnToolList extends Pick<Toolset, 'has' | 'isExact'> {
  /** Returns the definitions of all tools, as JSON texts. */
  allTexts(): readonly string[];
  /** Returns the definitions of the tools that this session could call. */
  texts(session: Session): readonly string[];
  /** Tells whether there is a tool that this session could call. */
  hasAny(session: Session): boolean;
}

const serverInfo = { name: 'ambit', title: 'Ambit', version: '0.1.0' };

interface SelfDescription {
  readonly capabilities: { readonly [name: string]: object };
  /** Declares tasks: the extension to modern clients, the capability to clients of 2025-11-25. */
  readonly hasTasks?: boolean;
  readonly instructions: string;
}

/** Ambit at the address of all servers. */
const aggregateDescription: SelfDescription = {
  capabilities: {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { listChanged: true, subscribe: true },
    completions: {},
    logging: {},
  },
  instructions:
    'Several MCP servers behind one gateway. Tools and prompts are named server__name. Servers that are not reachable are left out of the lists. Tools named session_… are Ambit’s own.',
};

const taskCapability = { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } };

/** The server of Ambit's own tools. */
const ownDescription: SelfDescription = {
  capabilities: { tools: { listChanged: true }, resources: { subscribe: true } },
  instructions:
    'Ambit’s own tools. Each tool takes "session": the id of a session, a unique name or prefix of it, or "current" (the default).',
};

/** The extensions of one or several servers, with their settings. */
export type Extensions = Readonly<Record<string, unknown>>;

/** The capabilities that the servers of a session declare, as far as they are known. */
export interface KnownCapabilities {
  readonly extensions: Extensions;
  /** True if a server has tasks, false if none has; undefined if some have not been asked yet. */
  readonly hasTasks: boolean | undefined;
}

/** Describes Ambit to a modern client. It may ask again, so only what is known counts. */
export function discoverAll({ extensions, hasTasks = false }: KnownCapabilities): string {
  return createDiscoverResult(describeAll(extensions, hasTasks));
}

/**
 * Describes Ambit to a handshake-era client. It asks only once, and would never use tasks that it was not told of. So
 * they are declared unless it is known that there are none.
 */
export function initializeAll(requested: string | undefined, { extensions, hasTasks = true }: KnownCapabilities) {
  return createInitializeResult(describeAll(extensions, hasTasks), requested);
}

function describeAll(extensions: Extensions, hasTasks: boolean): SelfDescription {
  const { capabilities } = aggregateDescription;
  const all = Object.keys(extensions).length === 0 ? capabilities : { ...capabilities, extensions };
  return { ...aggregateDescription, capabilities: all, hasTasks };
}

/**
 * Merges the extensions of servers. If several servers declare the same extension, the settings of the first one count,
 * in the order of the configuration.
 */
export function mergeExtensions(all: readonly (Extensions | undefined)[]): Extensions {
  const merged = Object.fromEntries(all.toReversed().flatMap((each) => Object.entries(each ?? {})));
  return (withoutModernExtensions({ extensions: merged })['extensions'] ?? {}) as Extensions;
}

const appsExtension = 'io.modelcontextprotocol/ui';

/**
 * Finds the extensions that Ambit relays for every server. A client that shows apps may look for them once, when it
 * connects, and servers with apps may be asked or added later.
 */
export function findRelayedExtensions(clientCapabilities: string): Extensions {
  const { extensions } = JSON.parse(clientCapabilities) as { readonly extensions?: object | null };
  return Object.hasOwn(extensions ?? {}, appsExtension) ? { [appsExtension]: {} } : {};
}

/** Creates the error of a tool that needs a workspace, for a session that works in none. */
export type ExplainMissingWorkspace = (session: Session, principal: Principal) => AmbitError;

/** The server of Ambit's own tools. It runs in this process; the pipeline treats it like any other server. */
export function createOwnServer(
  tools: Toolset,
  list: OwnToolList,
  createListReply: CreateListReply,
  explainMissingWorkspace: ExplainMissingWorkspace,
  inbox: OwnInbox,
): InProcessServer {
  const run: Toolset['run'] = async (name, args, caller) => {
    try {
      return await tools.run(name, args, caller);
    } catch (error) {
      const isMissing = isAmbitError(error) && error.code === 'WORKSPACE_REQUIRED';
      throw isMissing ? explainMissingWorkspace(caller.session, caller.principal) : error;
    }
  };
  const createLink = (era: Era) => createOwnLink({ run, allTexts: list.allTexts }, inbox, era, createListReply);
  const links = { modern: createLink('modern'), handshake: createLink('handshake') };
  return { kind: 'in-process', name: ownServer, source: 'operator', links };
}

/** A call of a tool that has not ended. */
interface RunningToolCall {
  readonly owner: object;
  readonly id: string;
  isCancelled: boolean;
  /** Created for a tool that waits. */
  abort: AbortController | undefined;
}

const maxEarlyCancels = 16;

function rememberCancel(early: WeakMap<object, Set<string>>, owner: object, id: string): void {
  const ids = early.get(owner) ?? new Set();
  early.set(owner, ids.add(id));
  const [oldest] = ids;
  if (ids.size > maxEarlyCancels) ids.delete(oldest as string);
}

function isResourceMethod(method: string, era: Era): boolean {
  if (/^resources\/(?:list|templates\/list|read)$/.test(method)) return true;
  return era === 'handshake' && /^resources\/(?:un)?subscribe$/.test(method);
}

/** Tells whether a listen request subscribes to the inbox. */
export function asksForInbox({ bytes, params }: Message): boolean {
  const filter = findMember(params?.shape, 'notifications');
  const uris = filter && findMember(readShape(bytes, filter), 'resourceSubscriptions');
  return (
    uris !== undefined && (JSON.parse(readRawValue(bytes, uris)) as unknown[] | null)?.includes?.(inboxUri) === true
  );
}

type OwnLinkTools = Pick<Toolset, 'run'> & Pick<OwnToolList, 'allTexts'>;

/** A link to Ambit's own tools, for clients of one era. All sessions share it. */
function createOwnLink(tools: OwnLinkTools, inbox: OwnInbox, era: Era, createListReply: CreateListReply): Link {
  const streams = createListenStreams();
  const running = new Set<RunningToolCall>();
  /** Cancellations that came before their calls, which may have waited for the store. */
  const early = new WeakMap<object, Set<string>>();

  const createReply = (message: Message, result: object) =>
    createResultReply(message, JSON.stringify(era === 'modern' ? { resultType: 'complete', ...result } : result));

  async function callTool({ message, acting, channel, caller: client }: UpstreamCall): Promise<FinalReply> {
    if (acting?.principal === undefined) throw new AmbitError('INTERNAL');
    const { session, principal, correlationId, onWait } = acting;
    const owner = client ?? channel.owner;
    const id = message.id ?? '';
    const isCancelled = early.get(owner)?.delete(id) === true;
    const call: RunningToolCall = { owner, id, isCancelled, abort: undefined };
    const caller = {
      session,
      principal,
      correlationId,
      onWait,
      // Only tools that wait look at it.
      get signal() {
        if (call.abort === undefined) {
          call.abort = new AbortController();
          channel.onGone(() => call.abort?.abort());
          if (call.isCancelled) call.abort.abort();
        }
        return call.abort.signal;
      },
    };
    running.add(call);
    try {
      const result = await tools.run(readToolName(message) ?? '', readArguments(message), caller);
      return createReply(message, result);
    } finally {
      running.delete(call);
    }
  }

  /** Answers a request about resources. There is one: the inbox. */
  async function answerResources({ message, acting, caller }: UpstreamCall): Promise<FinalReply> {
    const { session } = acting ?? {};
    if (session === undefined) throw new AmbitError('INTERNAL');
    if (message.method === 'resources/list' || message.method === 'resources/templates/list') {
      const [member, texts] =
        message.method === 'resources/list'
          ? ['resources', inbox.isVisible(session) ? [inboxEntry] : []]
          : ['resourceTemplates', []];
      return createListReply({ message, era, server: ownServer, session }, member, { texts, unavailable: [] });
    }
    const uri = readStringValue(message.bytes, findMember(message.params?.shape, 'uri'));
    if (uri !== inboxUri)
      throw new ProtocolError(era === 'modern' ? -32602 : -32002, 200, 'Resource not found', { uri });
    if (message.method === 'resources/read') {
      const cached = era === 'modern' ? { ttlMs: 0, cacheScope: 'private' } : {};
      return createReply(message, { ...cached, ...(await inbox.read(session, message)) });
    }
    if (message.method === 'resources/subscribe') {
      inbox.assertAllowed(session, message);
      caller?.subscriptions.set(inboxUri, inboxUri);
    } else caller?.subscriptions.delete(inboxUri);
    return createReply(message, {});
  }

  /**
   * Acknowledges a listen stream. The tools never change; `enforceToolRules` announces when the session may use others.
   */
  function openListenStream({ message, channel, acting }: UpstreamCall): Promise<FinalReply> {
    const id = message.id as string;
    const { session } = acting ?? {};
    const hearsInbox = session !== undefined && asksForInbox(message) && inbox.isVisible(session);
    const notifications = {
      ...(asksForToolChanges({ era, message }) ? { toolsListChanged: true } : {}),
      ...(hearsInbox ? { resourceSubscriptions: [inboxUri] } : {}),
    };
    const _meta = { [subscriptionKey]: JSON.parse(id) as unknown };
    channel.emit(composeNotification('notifications/subscriptions/acknowledged', { notifications, _meta }));
    const updated = composeNotification('notifications/resources/updated', { uri: inboxUri, _meta });
    const stop = hearsInbox ? inbox.watch(session.id, () => channel.emit(updated)) : () => {};
    const serve = (stream: ListenStream) =>
      new Promise<FinalReply>((resolve) => {
        stream.end = () => resolve(acceptedReply);
        channel.onGone(stream.end);
      });
    return streams.open({ owner: channel.owner, id, sessionId: session?.id }, serve).finally(stop);
  }

  return {
    ...nullLink({ sessionId: undefined, scopeKey: undefined, server: ownServer, era }),
    async request(call) {
      const { message } = call;
      const { method } = message;
      if (method === 'tools/call') return callTool(call);
      if (method === 'tools/list')
        return createListReply({ message, era, server: ownServer, session: call.acting?.session }, 'tools', {
          texts: tools.allTexts(),
          unavailable: [],
        });
      if (isResourceMethod(method, era)) return answerResources(call);
      if (era === 'modern' && method === 'server/discover')
        return createResultReply(message, createDiscoverResult(ownDescription));
      if (era === 'modern' && method === 'subscriptions/listen') return openListenStream(call);
      if (era === 'handshake' && method === 'initialize') {
        const requested = readStringValue(message.bytes, findMember(message.params?.shape, 'protocolVersion'));
        return createResultReply(message, createInitializeResult(ownDescription, requested).result);
      }
      if (era === 'handshake' && method === 'ping') return createResultReply(message, '{}');
      throw new ProtocolError(-32601, era === 'modern' ? 404 : 200, 'Method not found');
    },
    cancel(owner, id) {
      streams.cancel(owner, id);
      const call = [...running].find((each) => each.owner === owner && each.id === id);
      if (call === undefined) return rememberCancel(early, owner, id);
      call.isCancelled = true;
      call.abort?.abort();
    },
    dropSession: streams.endSession,
    // All sessions share the link, so it stays open when a client leaves.
    detach() {},
    isClosed: () => false,
  };
}

/** Reads arguments and refuses those that would change: numbers beyond a double, names that occur twice. */
function readArguments({ bytes, params }: Message): unknown {
  const member = findMember(params?.shape, 'arguments');
  if (member === undefined) return {};
  const text = readRawValue(bytes, member);
  const judged = readRuleArguments(text, new Set());
  if (judged.kind === 'read') return JSON.parse(text) as unknown;
  throw new AmbitError('REQUEST_INVALID', { what: `The arguments are not valid: ${judged.reason}.` });
}

function createDiscoverResult({ capabilities, hasTasks, instructions }: SelfDescription): string {
  const extensions = { ...capabilities['extensions'], ...(hasTasks === true ? { [tasksExtension]: {} } : {}) };
  return JSON.stringify({
    resultType: 'complete',
    supportedVersions: [modernVersion],
    capabilities: { ...capabilities, ...(Object.keys(extensions).length === 0 ? {} : { extensions }) },
    instructions,
    ttlMs: 60_000,
    cacheScope: 'private',
    _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo },
  });
}

function createInitializeResult(
  { capabilities, hasTasks, instructions }: SelfDescription,
  requested: string | undefined,
): { readonly version: string; readonly result: string } {
  const known = requested !== undefined && handshakeVersions.includes(requested);
  const version = known ? requested : (handshakeVersions[0] as string);
  const declaresTasks = hasTasks === true && version === handshakeVersions[0];
  const all = declaresTasks ? { ...capabilities, ...taskCapability } : capabilities;
  const result = { protocolVersion: version, capabilities: all, serverInfo, instructions };
  return { version, result: JSON.stringify(result) };
}

export function createOwnToolList(tools: Toolset, bounds: ToolAccess): OwnToolList {
  const definitions = tools.list();
  const texts = new Map<ToolDefinition, string>();
  // On first use: the schemas take a while, and most processes never show them.
  const textOf = (definition: ToolDefinition) => {
    const text = texts.get(definition) ?? JSON.stringify(definition);
    texts.set(definition, text);
    return text;
  };
  const isShownTo = (session: Session) => {
    const isShown = bounds.visibleToolFilter(session, ownServer) ?? (() => true);
    return ({ name }: ToolDefinition) => isShown(name);
  };
  return {
    has: tools.has,
    isExact: tools.isExact,
    allTexts: () => definitions.map(textOf),
    texts: (session) => definitions.filter(isShownTo(session)).map(textOf),
    hasAny: (session) => definitions.some(isShownTo(session)),
  };
}
