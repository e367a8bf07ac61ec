import { composeError } from '../../../protocol/compose-message.ts';
import { applyEdits, type Edit, removeSpans, replaceValue } from '../../../protocol/json/edit.ts';
import {
  findMember,
  type JsonMember,
  type ObjectShape,
  readElements,
  readShape,
  readStringValue,
} from '../../../protocol/json/scan.ts';
import { findIdMember, type Message, readErrorCode } from '../../../protocol/message.ts';
import { stripReservedMeta } from '../../../protocol/reserved-meta.ts';
import { type Binding, findListenedTasks, findRelatedTask, stateBindings, taskBindings } from './towards-upstream.ts';

const stateLifeMs = 60 * 60 * 1000;

/** The request that a response belongs to. */
export interface RequestOrigin {
  /** The text of the caller's id. */
  readonly clientId: string;
  readonly method: string;
  readonly name: string;
  /** True if it named a task that the session does not have. */
  readonly hasUnknownTask?: boolean;
}

/** Edits a response for the client: its own id, no reserved keys, sealed handles, the rest unchanged. */
export function toClientResponse(message: Message, origin: RequestOrigin, binding: Binding): Buffer {
  const edits = [replaceValue(findIdMember(message), origin.clientId), ...stripReservedMeta(message, binding.keys?.())];
  const { bytes } = message;
  const result = message.result?.shape;
  if (origin.hasUnknownTask && message.error === undefined)
    return composeError(origin.clientId, -32602, 'Task not found');
  if (result !== undefined) {
    const state = findMember(result, 'requestState');
    const upstreamState = readStringValue(bytes, state);
    if (state !== undefined && upstreamState !== undefined) {
      const bindings = stateBindings(binding, origin.method, origin.name);
      const sealed = binding.seals.seal(upstreamState, bindings, Date.now() + stateLifeMs);
      edits.push(replaceValue(state, JSON.stringify(sealed)));
    }
    sealSubscription(message.meta, origin.clientId, edits);
    sealTasks(bytes, result, message.meta, origin.method, edits, binding);
  }
  return applyEdits(bytes, edits);
}

/**
 * Edits a notification or push for the client. `subscriptionId` is the client's id of the listen request,
 * `progressToken` its own token, `uri` its address of a resource, and `id` Ambit's id of a push.
 */
export function toClientPush(
  message: Message,
  binding: Binding,
  names: {
    readonly subscriptionId?: string;
    readonly progressToken?: string;
    readonly requestId?: string;
    readonly uri?: string;
    readonly id?: string;
  },
): Buffer {
  const edits = stripReservedMeta(message, binding.keys?.());
  const { bytes } = message;
  const params = message.params?.shape;
  if (names.id !== undefined) {
    edits.push(replaceValue(findIdMember(message), names.id));
    const token = findMember(message.meta, 'progressToken');
    if (token !== undefined) edits.push(replaceValue(token, names.id));
  }
  if (names.subscriptionId !== undefined) sealSubscription(message.meta, names.subscriptionId, edits);
  for (const [key, text] of [
    ['progressToken', names.progressToken],
    ['requestId', names.requestId],
    ['uri', names.uri === undefined ? undefined : JSON.stringify(names.uri)],
  ] as const) {
    const member = text === undefined ? undefined : findMember(params, key);
    if (member !== undefined && text !== undefined) edits.push(replaceValue(member, text));
  }
  const subject = taskOfNotification(message);
  if (subject !== undefined) sealTask(bytes, subject, edits, binding);
  if (message.method === 'notifications/subscriptions/acknowledged') sealListenedTasks(message, edits, binding);
  const related = findMember(findRelatedTask(message.meta), 'taskId');
  if (related !== undefined) {
    // The client needs the id to answer a question. A notification may go to clients that do not own the task.
    const opens = message.kind === 'request' || knowsTask(bytes, related, binding);
    if (opens) sealTask(bytes, related, edits, binding);
    else edits.push(replaceValue(related, '"unknown"'));
  }
  return applyEdits(bytes, edits);
}

/** True for a notification about a task that the session of this binding did not create. */
export function isAboutForeignTask(message: Message, binding: Binding): boolean {
  const subject = taskOfNotification(message);
  const taskId = readStringValue(message.bytes, subject);
  return taskId !== undefined && !binding.tasks.knows(binding.sessionId, binding.server, taskId);
}

/** Seals the ids of the tasks that a server will report on, and leaves out those of other sessions. */
function sealListenedTasks(message: Message, edits: Edit[], binding: Binding): void {
  const list = findListenedTasks(message);
  if (list === undefined) return;
  const sealed = readElements(message.bytes, list).flatMap((span) => {
    const taskId = readStringValue(message.bytes, { ...list, ...span, shape: undefined });
    const isOwn = taskId !== undefined && binding.tasks.knows(binding.sessionId, binding.server, taskId);
    return isOwn ? [binding.seals.seal(taskId, taskBindings(binding))] : [];
  });
  edits.push(replaceValue(list, JSON.stringify(sealed)));
}

function taskOfNotification(message: Message): JsonMember | undefined {
  if (!message.method.startsWith('notifications/tasks')) return undefined;
  return findMember(message.params?.shape, 'taskId');
}

export const subscriptionKey = 'io.modelcontextprotocol/subscriptionId';

function sealSubscription(meta: ObjectShape | undefined, clientId: string, edits: Edit[]): void {
  const subscription = findMember(meta, subscriptionKey);
  if (subscription !== undefined) edits.push(replaceValue(subscription, clientId));
}

function sealTasks(
  bytes: Buffer,
  result: ObjectShape,
  meta: ObjectShape | undefined,
  method: string,
  edits: Edit[],
  binding: Binding,
): void {
  const asksForTask = method.startsWith('tasks/');
  const isTask = asksForTask || readStringValue(bytes, findMember(result, 'resultType')) === 'task';
  const own = isTask ? findMember(result, 'taskId') : undefined;
  const created = findMember(findMember(result, 'task')?.shape, 'taskId');
  const related = findMember(findRelatedTask(meta), 'taskId');
  for (const member of [own, created]) {
    if (member === undefined) continue;
    if (!asksForTask) rememberTask(bytes, member, binding);
    sealTask(bytes, member, edits, binding);
  }
  if (related !== undefined) sealTask(bytes, related, edits, binding);
  const list = method === 'tasks/list' ? findMember(result, 'tasks') : undefined;
  if (list !== undefined) sealList(bytes, list, edits, binding);
}

/** Keeps the tasks of this session and removes the others: an upstream lists those of all sessions. */
function sealList(bytes: Buffer, list: JsonMember, edits: Edit[], binding: Binding): void {
  const spans = readElements(bytes, list).map((span) => {
    const taskId = findMember(readShape(bytes, { ...list, ...span, shape: undefined }), 'taskId');
    const known = taskId !== undefined && knowsTask(bytes, taskId, binding);
    if (known) sealTask(bytes, taskId, edits, binding);
    return { ...span, unwanted: !known };
  });
  edits.push(...removeSpans(spans));
}

function rememberTask(bytes: Buffer, member: JsonMember, binding: Binding): void {
  const taskId = readStringValue(bytes, member);
  if (taskId !== undefined) binding.tasks.remember(binding.sessionId, binding.server, taskId);
}

function knowsTask(bytes: Buffer, member: JsonMember, binding: Binding): boolean {
  const taskId = readStringValue(bytes, member);
  return taskId !== undefined && binding.tasks.knows(binding.sessionId, binding.server, taskId);
}

function sealTask(bytes: Buffer, member: JsonMember, edits: Edit[], binding: Binding): void {
  const taskId = readStringValue(bytes, member);
  if (taskId === undefined) return;
  edits.push(replaceValue(member, JSON.stringify(binding.seals.seal(taskId, taskBindings(binding)))));
}

/** The HTTP status that MCP 2026-07-28 demands for an error that came over stdio. */
export function httpStatusFor(message: Message): number {
  switch (readErrorCode(message)) {
    case '-32601':
      return 404;
    case '-32020':
    case '-32021':
    case '-32022':
      return 400;
    default:
      return 200;
  }
}
