import { withTimeout } from '../../lib/async/timeout.ts';
import { findMember, readStringValue } from '../../protocol/json/scan.ts';
import type { Message } from '../../protocol/message.ts';
import { declaresTasks, missingTasksError, tasksExtension } from '../../protocol/modern-envelope.ts';
import { ProtocolError } from '../../protocol/protocol-error.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Seals } from '../../upstreams/links/relay/seals.ts';
import { openTaskId } from '../../upstreams/links/relay/towards-upstream.ts';
import type { PreparedExchange } from '../exchange.ts';
import type { Aggregate } from './aggregate.ts';
import type { ServerCallers } from './server-callers.ts';

/** The methods and notifications that the aggregate answers itself, or that name a tool or prompt. */
const ownMethods: ReadonlySet<string> = new Set([
  ...['tools/list', 'tools/call', 'prompts/list', 'prompts/get', 'resources/list', 'resources/templates/list'],
  ...['resources/read', 'resources/subscribe', 'resources/unsubscribe', 'completion/complete', 'logging/setLevel'],
  ...['initialize', 'ping', 'server/discover', 'subscriptions/listen', 'tasks/list', 'notifications/cancelled'],
  ...['notifications/initialized', 'notifications/progress', 'notifications/roots/list_changed'],
]);
const skillsExtension = 'io.modelcontextprotocol/skills';
/** The time that a server has to send its capabilities. */
const declareMs = 5000;

interface OwnerParts {
  readonly seals: Seals;
  readonly serverCallers: ServerCallers;
  readonly aggregate: Pick<Aggregate, 'hasTasks'>;
}

/** Tells whether a message at the address of all servers belongs to one of them, and names no tool, prompt or resource. */
export function needsOwner({ kind, method }: Message): boolean {
  return kind !== 'response' && !ownMethods.has(method);
}

/**
 * Finds the server of a message that needs one: a task by its sealed id, any other method by the capability that it
 * belongs to. Undefined for a notification that no server declares.
 */
export function findOwner(
  exchange: PreparedExchange,
  { seals, serverCallers, aggregate }: OwnerParts,
): Promise<ServerDefinition | undefined> {
  const { method } = exchange.message;
  if (method.startsWith('tasks/')) return findTaskOwner(exchange, seals, aggregate.hasTasks);
  return findDeclaringServer(exchange, serverCallers);
}

/** Finds the server that made a task: only the seal of that server opens the id. */
async function findTaskOwner(
  exchange: PreparedExchange,
  seals: Seals,
  hasTasks: Aggregate['hasTasks'],
): Promise<ServerDefinition> {
  const { message, session, available, era, caller } = exchange;
  const { bytes, method, params } = message;
  const isModern = era === 'modern';
  const methods = isModern
    ? ['tasks/get', 'tasks/update', 'tasks/cancel']
    : ['tasks/get', 'tasks/result', 'tasks/cancel'];
  const isKnown = methods.includes(method) && (isModern || caller?.version === '2025-11-25');
  const unknownMethod = new ProtocolError(-32601, isModern ? 404 : 200, 'Method not found');
  if (!isKnown) throw unknownMethod;
  const sealed = readStringValue(bytes, findMember(params?.shape, 'taskId')) ?? '';
  const owner = available.find(
    ({ name }) => openTaskId({ seals, sessionId: session.id, server: name }, sealed) !== undefined,
  );
  if (owner !== undefined) return owner;
  if (!(await hasTasks(exchange))) throw unknownMethod;
  if (isModern && !declaresTasks(message)) throw missingTasksError();
  throw new ProtocolError(-32602, 200, 'Task not found');
}

/** Asks the servers whether one of them has tasks for clients of this era. */
export async function askForTasks(
  exchange: PreparedExchange,
  { fetchCapabilities }: Pick<ServerCallers, 'fetchCapabilities'>,
): Promise<boolean> {
  const all = await Promise.all(exchange.available.map((server) => findDeclared(exchange, server, fetchCapabilities)));
  return all.some(({ tasks, extensions }) =>
    exchange.era === 'modern' ? Object.hasOwn(readObject(extensions), tasksExtension) : tasks !== undefined,
  );
}

/** The capabilities that each server declared last. */
const lastDeclared = new WeakMap<ServerDefinition, Readonly<Record<string, unknown>>>();

/**
 * Asks a server for its capabilities. If it does not answer, its last answer counts, so that no other server gets its
 * requests.
 */
async function findDeclared(
  exchange: PreparedExchange,
  server: ServerDefinition,
  fetchCapabilities: ServerCallers['fetchCapabilities'],
): Promise<Readonly<Record<string, unknown>>> {
  try {
    const declared = await withTimeout(fetchCapabilities(exchange, server), declareMs);
    lastDeclared.set(server, declared);
    return declared;
  } catch {
    return lastDeclared.get(server) ?? {};
  }
}

/** Finds the only server that declares the capability or extension of a method. */
async function findDeclaringServer(
  exchange: PreparedExchange,
  { fetchCapabilities }: ServerCallers,
): Promise<ServerDefinition | undefined> {
  const { message, available, era } = exchange;
  const declares = await Promise.all(
    available.map(async (server) => belongsTo(message.method, await findDeclared(exchange, server, fetchCapabilities))),
  );
  const [owner, ...others] = available.filter((_, index) => declares[index]);
  if (others.length === 0 && owner !== undefined) return owner;
  // Nobody waits for an answer to a notification. It goes nowhere.
  if (message.kind !== 'request') return undefined;
  const names = [owner, ...others].flatMap((server) => (server === undefined ? [] : `"${server.name}"`)).join(', ');
  const why =
    names === ''
      ? 'no server of this session declares a capability or extension for it'
      : `several servers declare it: ${names}`;
  const what = `Method not found: ${why}. Send the request to the address of one server, /mcp/{server}.`;
  throw new ProtocolError(-32601, era === 'modern' ? 404 : 200, what);
}

/**
 * Tells whether a method belongs to what a server declares: `skills/list` belongs to the capability `skills` and to
 * each extension with an id that ends in `/skills`.
 */
export function belongsTo(method: string, capabilities: Readonly<Record<string, unknown>>): boolean {
  const { extensions, experimental, ...own } = capabilities;
  const declared = readObject(extensions);
  if (method === 'resources/directory/read') return readObject(declared[skillsExtension]).directoryRead === true;
  const path = method.startsWith('notifications/') ? method.slice('notifications/'.length) : method;
  const [prefix = ''] = path.split('/', 1);
  const isMeant = (id: string) => path.startsWith(`${id}/`) || id.slice(id.lastIndexOf('/') + 1) === prefix;
  return (
    Object.hasOwn(own, prefix) || Object.hasOwn(readObject(experimental), prefix) || Object.keys(declared).some(isMeant)
  );
}

function readObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}
