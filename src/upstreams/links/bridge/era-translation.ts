import { AmbitError } from '../../../errors.ts';
import type { FinalReply } from '../../../protocol/channel.ts';
import { insertMeta } from '../../../protocol/insert-meta.ts';
import { applyEdits, type Edit, removeMembers, replaceValue } from '../../../protocol/json/edit.ts';
import {
  findMember,
  type JsonMember,
  readElements,
  readRawValue,
  readShape,
  readStringValue,
  scanEntry,
} from '../../../protocol/json/scan.ts';
import {
  applyMessageEdits,
  findIdMember,
  type Message,
  readErrorCode,
  readMessage,
} from '../../../protocol/message.ts';
import { declaresTasks, tasksExtension } from '../../../protocol/modern-envelope.ts';
import { handshakeVersions, modernVersion } from '../../../protocol/versions.ts';
import { withoutModernExtensions } from '../handshake.ts';
import type { UpstreamCall } from '../link.ts';

const envelopeKeys = new Set([
  'io.modelcontextprotocol/protocolVersion',
  'io.modelcontextprotocol/clientCapabilities',
  'io.modelcontextprotocol/clientInfo',
  'io.modelcontextprotocol/logLevel',
]);

interface RequestEnvelope {
  /** JSON texts, as the client wrote them in `initialize`. */
  readonly capabilities: string;
  readonly clientInfo: string | undefined;
  readonly logLevel: string | undefined;
}

type JsonObject = Record<string, unknown>;

const cacheableMethods = new Set([
  'server/discover',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
]);

/** Turns a handshake-era answer into a modern one: marked as complete, with cache hints where needed. */
export function toModernAnswer(answer: Message, method: string): Buffer {
  const edits: Edit[] = [];
  const result = answer.result?.shape;
  if (result !== undefined) {
    const additions: string[] = [];
    if (findMember(result, 'resultType') === undefined) additions.push('"resultType":"complete"');
    if (cacheableMethods.has(method)) {
      if (findMember(result, 'ttlMs') === undefined) additions.push('"ttlMs":0');
      if (findMember(result, 'cacheScope') === undefined) additions.push('"cacheScope":"private"');
    }
    const tail = result.members.length > 0 && additions.length > 0 ? ',' : '';
    edits.push({ start: result.start + 1, end: result.start + 1, text: additions.join(',') + tail });
  }
  // −32002 was "resource not found"; the modern era says −32602.
  const code = findMember(answer.error?.shape, 'code');
  if (code !== undefined && readErrorCode(answer) === '-32002') edits.push(replaceValue(code, '-32602'));
  return applyEdits(answer.bytes, edits);
}

const modernOnlyKeys = new Set(['resultType', 'ttlMs', 'cacheScope']);

/** Turns a modern answer into a handshake-era one. */
export function toHandshakeAnswer(answer: Message): Buffer {
  const result = answer.result?.shape;
  if (result === undefined) return answer.bytes;
  return applyEdits(
    answer.bytes,
    removeMembers(result, (member) => modernOnlyKeys.has(member.key)),
  );
}

export function replaceId(answer: Message, id: string): Buffer {
  return applyEdits(answer.bytes, [replaceValue(findIdMember(answer), id)]);
}

/** Tells whether a server of MCP 2025-11-25 runs calls of tools as tasks. */
export function offersTasks(initializeResult: string): boolean {
  const { capabilities } = JSON.parse(initializeResult) as { readonly capabilities?: HandshakeCapabilities | null };
  return capabilities?.tasks?.requests?.tools?.call !== undefined;
}

interface HandshakeCapabilities {
  readonly tasks?: { readonly requests?: { readonly tools?: { readonly call?: unknown } | null } | null } | null;
}

/** Turns the result of `initialize` into an answer to `server/discover`. */
export function toDiscoverResult(initializeResult: string): string {
  const { capabilities, serverInfo, instructions } = JSON.parse(initializeResult) as JsonObject;
  const { tasks: _tasks, ...declared } = (capabilities ?? {}) as JsonObject;
  // The bridge translates the tasks of the server, and no others.
  const { [tasksExtension]: _own, ...others } = (declared.extensions ?? {}) as JsonObject;
  const extensions = offersTasks(initializeResult) ? { ...others, [tasksExtension]: {} } : others;
  const offered =
    declared.extensions === undefined && !offersTasks(initializeResult) ? declared : { ...declared, extensions };
  return JSON.stringify({
    resultType: 'complete',
    supportedVersions: [modernVersion],
    capabilities: offered,
    ...(instructions === undefined ? {} : { instructions }),
    ttlMs: 0,
    cacheScope: 'private',
    ...(serverInfo === undefined ? {} : { _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo } }),
  });
}

/**
 * Removes the tasks from the capabilities of a client or server, given as JSON text: where the other side cannot fetch a
 * task, none may start.
 */
export function removeTaskCapability(text: string): string {
  const { tasks: _tasks, ...others } = JSON.parse(text) as JsonObject;
  const { [tasksExtension]: _own, ...extensions } = (others.extensions ?? {}) as JsonObject;
  return JSON.stringify(others.extensions === undefined ? others : { ...others, extensions });
}

/**
 * Removes what a list says about running tools as tasks. With `hidesRequired`, the tools that run only as tasks are left
 * out.
 */
export function removeTaskSupport(answer: Message, hidesRequired: boolean): Buffer {
  const list = findMember(answer.result?.shape, 'tools');
  if (list === undefined || !answer.bytes.includes('"execution"')) return answer.bytes;
  const tools = readElements(answer.bytes, list).flatMap((span) => {
    const text = readRawValue(answer.bytes, span);
    const bytes = Buffer.from(text);
    const shape = scanEntry(bytes);
    const execution = findMember(shape, 'execution');
    if (shape === undefined || execution === undefined) return [text];
    const support = readStringValue(bytes, findMember(readShape(bytes, execution), 'taskSupport'));
    if (hidesRequired && support === 'required') return [];
    const edits = removeMembers(shape, ({ key }) => key === 'execution');
    return [applyEdits(bytes, edits).toString()];
  });
  return applyEdits(answer.bytes, [replaceValue(list, `[${tools.join(',')}]`)]);
}

/** Removes the request for a task from a call: the client's own in the handshake era, its capability in the modern one. */
export function withoutTask({ message, edits }: UpstreamCall): Pick<UpstreamCall, 'message' | 'edits'> {
  if (message.method !== 'tools/call') return { message, edits };
  const clean = applyMessageEdits(message, edits);
  const params = clean.params?.shape;
  const removed = params === undefined ? [] : removeMembers(params, ({ key }) => key === 'task');
  if (declaresTasks(clean)) {
    const capabilities = findMember(clean.meta, 'io.modelcontextprotocol/clientCapabilities') as JsonMember;
    removed.push(replaceValue(capabilities, removeTaskCapability(readRawValue(clean.bytes, capabilities))));
  }
  return { message: applyMessageEdits(clean, removed), edits: [] };
}

/** Removes tasks from what a server says about itself and its tools. Tools that run only as tasks are left out. */
export function hideTasks(reply: FinalReply, method: string): FinalReply {
  const describes = method === 'initialize' || method === 'server/discover';
  if (reply.kind !== 'message' || !(describes || method === 'tools/list')) return reply;
  const answer = readMessage(reply.bytes);
  if (!describes) return { ...reply, bytes: removeTaskSupport(answer, true) };
  const capabilities = findMember(answer.result?.shape, 'capabilities');
  if (capabilities === undefined) return reply;
  const text = removeTaskCapability(readRawValue(answer.bytes, capabilities));
  return { ...reply, bytes: applyEdits(answer.bytes, [replaceValue(capabilities, text)]) };
}

/**
 * Says of each tool of a modern server whether the client may run it as a task: any, because the server decides. What the
 * server says itself is kept, since the tool may be pinned with it.
 */
export function describeTaskSupport(answer: Message, hasTasks: boolean): Buffer {
  if (!hasTasks) return removeTaskSupport(answer, false);
  const { bytes, result } = answer;
  const list = findMember(result?.shape, 'tools');
  if (list === undefined) return bytes;
  const edits = readElements(bytes, list).flatMap(({ start, end }) => {
    const shape = scanEntry(bytes.subarray(start, end));
    if (shape === undefined || findMember(shape, 'execution') !== undefined) return [];
    const text = `"execution":{"taskSupport":"optional"}${shape.members.length === 0 ? '' : ','}`;
    return [{ start: start + 1, end: start + 1, text }];
  });
  return applyEdits(bytes, edits);
}

/** Tells whether a modern server has the tasks extension. */
export function hasTasksExtension(discoverAnswer: string): boolean {
  const { capabilities } = JSON.parse(discoverAnswer) as { readonly capabilities?: JsonObject | null };
  const { extensions } = capabilities ?? {};
  return typeof extensions === 'object' && extensions !== null && Object.hasOwn(extensions, tasksExtension);
}

/** Adds the tasks extension to the capabilities of a client, given as JSON text. */
export function addTasksExtension(text: string): string {
  const capabilities = JSON.parse(text) as JsonObject;
  const extensions = { ...(capabilities['extensions'] as JsonObject | undefined), [tasksExtension]: {} };
  return JSON.stringify({ ...capabilities, extensions });
}

const translatedTasks = { cancel: {}, requests: { tools: { call: {} } } };

/** Turns the result of `server/discover` into an answer to `initialize`. */
export function toInitializeResult(discoverAnswer: string, requested: string | undefined): string {
  const { capabilities, instructions, _meta } = JSON.parse(discoverAnswer) as JsonObject;
  const { tasks: _tasks, ...offered } = withoutModernExtensions((capabilities ?? {}) as JsonObject);
  const serverInfo = ((_meta ?? {}) as JsonObject)['io.modelcontextprotocol/serverInfo'];
  const known = requested !== undefined && handshakeVersions.includes(requested);
  const protocolVersion = known ? requested : handshakeVersions[0];
  // Only the newest revision of the handshake era has tasks.
  const hasTasks = protocolVersion === handshakeVersions[0] && hasTasksExtension(discoverAnswer);
  return JSON.stringify({
    protocolVersion,
    capabilities: { ...offered, ...(hasTasks ? { tasks: translatedTasks } : {}), logging: {} },
    serverInfo: serverInfo ?? { name: 'unknown', version: '0' },
    ...(instructions === undefined ? {} : { instructions }),
  });
}

/** Removes the envelope of a modern request: a handshake-era server has got its content in `initialize`. */
export function removeEnvelope(message: Message): Edit[] {
  return message.meta === undefined ? [] : removeMembers(message.meta, (member) => envelopeKeys.has(member.key));
}

/** Adds the envelope that a modern server expects in each request. */
export function addEnvelope(message: Message, envelope: RequestEnvelope): Edit[] {
  const members = [
    `"io.modelcontextprotocol/protocolVersion":"${modernVersion}"`,
    `"io.modelcontextprotocol/clientCapabilities":${envelope.capabilities}`,
    ...(envelope.clientInfo === undefined ? [] : [`"io.modelcontextprotocol/clientInfo":${envelope.clientInfo}`]),
    ...(envelope.logLevel === undefined
      ? []
      : [`"io.modelcontextprotocol/logLevel":${JSON.stringify(envelope.logLevel)}`]),
  ].join(',');
  return [insertMeta(message, members)];
}

/** A task as a modern server describes it. */
export interface TaskState {
  readonly answer: Message;
  readonly taskId: string;
  readonly status: string;
  readonly statusMessage: string | undefined;
  readonly createdAt: string | undefined;
  readonly lastUpdatedAt: string | undefined;
  readonly ttlMs: number | undefined;
  readonly pollIntervalMs: number | undefined;
}

/** Reads the answer to `tasks/get`; undefined for an error and for no answer. */
export function readTaskState(reply: FinalReply, server: string): TaskState | undefined {
  const answer = reply.kind === 'message' ? readMessage(reply.bytes) : undefined;
  if (answer?.result === undefined) return undefined;
  const state = readTask(answer);
  if (state === undefined) throw invalidTaskError(server);
  return state;
}

/** Reads a task. Values of a wrong type are left out; undefined if one is missing that a task needs. */
export function readTask(answer: Message): TaskState | undefined {
  const readText = (name: string) => readStringValue(answer.bytes, findMember(answer.result?.shape, name));
  const readNumber = (name: string) => {
    const member = findMember(answer.result?.shape, name);
    const value: unknown = member === undefined ? undefined : JSON.parse(readRawValue(answer.bytes, member));
    return typeof value === 'number' && value >= 0 && Number.isFinite(value) ? value : undefined;
  };
  const [taskId, status] = [readText('taskId'), readText('status')];
  if (taskId === undefined || status === undefined) return undefined;
  return {
    answer,
    taskId,
    status,
    statusMessage: readText('statusMessage'),
    createdAt: readText('createdAt'),
    lastUpdatedAt: readText('lastUpdatedAt'),
    ttlMs: readNumber('ttlMs'),
    pollIntervalMs: readNumber('pollIntervalMs'),
  };
}

export function toHandshakeTask({ answer, ...state }: TaskState): object {
  const { taskId, statusMessage, createdAt, lastUpdatedAt, ttlMs: ttl = null, pollIntervalMs: pollInterval } = state;
  const now = new Date().toISOString();
  // In 2025-11-25 a task whose result has `isError` has failed.
  const result = findMember(answer.result?.shape, 'result');
  const isError = findMember(result && readShape(answer.bytes, result), 'isError');
  const hasFailed = isError !== undefined && readRawValue(answer.bytes, isError) === 'true';
  const status = state.status === 'completed' && hasFailed ? 'failed' : state.status;
  const times = { createdAt: createdAt ?? now, lastUpdatedAt: lastUpdatedAt ?? createdAt ?? now };
  return { taskId, status, statusMessage, ...times, ttl, pollInterval };
}

export function invalidTaskError(server: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', { what: `The server "${server}" described a task that is not valid.` });
}
