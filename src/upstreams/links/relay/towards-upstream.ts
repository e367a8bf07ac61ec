import { randomUUID } from 'node:crypto';
import type { CallContext } from '../../../context/for-tools/call-context.ts';
import type { ContextKey } from '../../../context/for-tools/context-key.ts';
import { insertMeta } from '../../../protocol/insert-meta.ts';
import { applyEdits, type Edit, replaceValue } from '../../../protocol/json/edit.ts';
import { readsAs } from '../../../protocol/json/fold-key.ts';
import {
  findMember,
  type JsonMember,
  type ObjectShape,
  readElements,
  readRawValue,
  readShape,
  readStringValue,
} from '../../../protocol/json/scan.ts';
import { findIdMember, type Message } from '../../../protocol/message.ts';
import { ProtocolError } from '../../../protocol/protocol-error.ts';
import type { ReservedKeys } from '../../../protocol/reserved-meta.ts';
import type { Trace } from '../../../protocol/trace.ts';
import type { ContextAttacher, RequestActor } from './context-attacher.ts';
import type { KnownTasks, Seals } from './seals.ts';

/** The session and server that sealed values belong to. */
export interface Binding {
  readonly seals: Seals;
  readonly tasks: KnownTasks;
  /** Empty where no session is known. No sealed value opens then. */
  readonly sessionId: string;
  readonly server: string;
  readonly attacher: ContextAttacher;
  /** The `_meta` keys that pass neither way; without it the default ones. */
  readonly keys?: (() => ReservedKeys) | undefined;
}

export function bindToSession(binding: Binding, sessionId: string): Binding {
  return binding.sessionId === sessionId ? binding : { ...binding, sessionId };
}

export interface OutgoingRequest {
  readonly bytes: Buffer;
  /** The tool, prompt or resource asked for. */
  readonly name: string;
  /** The upstream's id of the task that the request is about. */
  readonly taskId: string | undefined;
  /** True if the request names a task that the session does not have. See `pushTaskEdits`. */
  readonly hasUnknownTask: boolean;
  /** The token of the context, for the header. */
  readonly token: string | undefined;
}

/**
 * Edits a request for the upstream: Ambit's id, opened handles, the context, the rest unchanged. All requests go through
 * here, so none goes without its context. Throws when the request may no longer be made, so call it only when the
 * request is sent. `key` is that of the process that gets the request.
 */
export function toUpstreamRequest(
  message: Message,
  pipelineEdits: readonly Edit[],
  upstreamId: number,
  binding: Binding,
  acting?: RequestActor,
  tail = '',
  key?: ContextKey | undefined,
): OutgoingRequest {
  const session = acting?.recheck?.() ?? acting?.session;
  const edits = [replaceValue(findIdMember(message), String(upstreamId)), ...pipelineEdits];
  const { bytes, meta } = message;
  const params = message.params?.shape;
  const token = findMember(meta, 'progressToken');
  if (token !== undefined) edits.push(replaceValue(token, String(upstreamId)));
  const name = readTargetName(message);
  const state = findMember(params, 'requestState');
  if (state !== undefined) edits.push(replaceValue(state, openState(message, state, name, binding)));
  const task = pushTaskEdits(message, edits, binding);
  if (message.method === 'subscriptions/listen') openListenedTasks(message, edits, binding);
  const { attacher } = binding;
  const context = attacher.createContext(message, name, acting, session, key);
  const trace = attacher.tracesInMeta && acting?.trace?.from === 'header' ? acting.trace : undefined;
  if (context !== undefined || trace !== undefined) pushMetaEdits(message, edits, pipelineEdits, context, trace);
  return {
    bytes: applyEdits(bytes, edits, tail),
    name,
    taskId: task?.id,
    hasUnknownTask: task?.isUnknown === true,
    token: context?.token,
  };
}

/** Adds the context and the trace to `_meta`. The first part of a context is written as it is: to join the parts takes time. */
function pushMetaEdits(
  message: Message,
  edits: Edit[],
  pipelineEdits: readonly Edit[],
  context: CallContext | undefined,
  trace: Trace | undefined,
): void {
  const traced = trace === undefined ? '' : `"traceparent":"${trace.parent}"`;
  const start = context?.memberStart ?? '';
  const end =
    context === undefined || traced === '' ? (context?.memberEnd ?? traced) : `${context.memberEnd},${traced}`;
  if (message.meta === undefined) {
    edits.push(insertMeta(message, start + end, pipelineEdits));
    return;
  }
  const insertion = insertMeta(message, end, pipelineEdits);
  if (start !== '') edits.push({ start: insertion.start, end: insertion.start, text: start });
  edits.push(insertion);
}

/** Edits a notification for the upstream: only handles are opened. */
export function toUpstreamNotification(
  message: Message,
  pipelineEdits: readonly Edit[],
  binding: Binding,
  tail = '',
): Buffer {
  const edits = [...pipelineEdits];
  pushTaskEdits(message, edits, binding);
  return applyEdits(message.bytes, edits, tail);
}

export function readTargetName(message: Message): string {
  const params = message.params?.shape;
  // A resource is identified by its address, even when the request also has a name.
  const name = message.method.startsWith('resources/') ? undefined : findMember(params, 'name');
  return readStringValue(message.bytes, name ?? findMember(params, 'uri')) ?? '';
}

/** Reads the text of the caller's progress token. */
export function readProgressToken({ bytes, meta }: Message): string | undefined {
  const token = findMember(meta, 'progressToken');
  return token === undefined ? undefined : readRawValue(bytes, token);
}

export function stateBindings(binding: Binding, method: string, name: string): string[] {
  return ['state', binding.sessionId, binding.server, method, name];
}

export function taskBindings(binding: Pick<Binding, 'sessionId' | 'server'>): string[] {
  return ['task', binding.sessionId, binding.server];
}

function openState(message: Message, state: JsonMember, name: string, binding: Binding): string {
  const sealed = readStringValue(message.bytes, state);
  const bindings = stateBindings(binding, message.method, name);
  const value = sealed === undefined ? undefined : binding.seals.open(sealed, bindings, Date.now());
  if (value === undefined) {
    throw new ProtocolError(-32602, 200, 'requestState is not valid for this request: start the call again without it');
  }
  return JSON.stringify(value);
}

interface NamedTask {
  /** The server's id of the task. */
  readonly id: string;
  readonly isUnknown: boolean;
}

/**
 * Opens the task ids of a message. A `tasks/*` request about a task that the session does not have goes to the server
 * with a random id instead: the server then answers as it does for any unknown task, or for a method that it does not
 * have. `toClientResponse` accepts only an error as the answer.
 */
function pushTaskEdits(message: Message, edits: Edit[], binding: Binding): NamedTask | undefined {
  let task: NamedTask | undefined;
  const params = message.params?.shape;
  const isRequest = message.method.startsWith('tasks/');
  const about = isRequest || message.method.startsWith('notifications/tasks');
  const own = about ? findMember(params, 'taskId') : undefined;
  if (own !== undefined) {
    const known = openTask(message.bytes, own, binding);
    if (known === undefined && !isRequest) throw unknownTaskError();
    task = { id: known ?? randomUUID(), isUnknown: known === undefined };
    edits.push(replaceValue(own, JSON.stringify(task.id)));
  }
  const related = findMember(findRelatedTask(message.meta), 'taskId');
  if (related !== undefined) {
    const known = openTask(message.bytes, related, binding);
    if (known === undefined) throw unknownTaskError();
    edits.push(replaceValue(related, JSON.stringify(known)));
  }
  return task;
}

/** Finds the task ids of a listen request, or of its acknowledgement. Throws if readers could find different ones. */
export function findListenedTasks({ bytes, params }: Message): JsonMember | undefined {
  const filter = findMember(params?.shape, 'notifications');
  const shape = filter === undefined ? undefined : readShape(bytes, filter);
  const lists = shape?.members.filter(({ key }) => readsAs(key, 'taskids')) ?? [];
  const [list] = lists;
  if (list !== undefined && (lists.length > 1 || list.key !== 'taskIds'))
    throw new ProtocolError(-32602, 200, 'Invalid params: params.notifications must have one "taskIds"');
  return list;
}

/** Opens the ids of the tasks that a client wants to hear about, and leaves out those that it does not have. */
function openListenedTasks(message: Message, edits: Edit[], binding: Binding): void {
  const list = findListenedTasks(message);
  if (list === undefined) return;
  const known = readElements(message.bytes, list).flatMap(
    (span) => openTask(message.bytes, { ...list, ...span, shape: undefined }, binding) ?? [],
  );
  edits.push(replaceValue(list, JSON.stringify(known)));
}

/** A foreign task gets the same error as an unknown one. */
function unknownTaskError(): ProtocolError {
  return new ProtocolError(-32602, 200, 'Task not found');
}

export function findRelatedTask(meta: ObjectShape | undefined): ObjectShape | undefined {
  return findMember(meta, 'io.modelcontextprotocol/related-task')?.shape;
}

/** Returns the server's id of a task; undefined if the session does not have the task. */
function openTask(bytes: Buffer, member: JsonMember, binding: Binding): string | undefined {
  const sealed = readStringValue(bytes, member);
  const value = sealed === undefined ? undefined : openTaskId(binding, sealed);
  // The seal proves that the task is the session's, also when it is no longer remembered.
  if (value !== undefined) binding.tasks.remember(binding.sessionId, binding.server, value);
  return value;
}

/** Returns the server's id for a sealed one; undefined if it was not made for this session and server. */
export function openTaskId(
  binding: Pick<Binding, 'seals' | 'sessionId' | 'server'>,
  sealed: string,
): string | undefined {
  return binding.seals.open(sealed, taskBindings(binding), Date.now());
}
