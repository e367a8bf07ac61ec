import { insertMeta } from '../../../protocol/insert-meta.ts';
import { applyEdits, type Edit, replaceValue } from '../../../protocol/json/edit.ts';
import { type Member, memberOf, rawAt, type Shape, stringAt } from '../../../protocol/json/scan.ts';
import { idMember, type Message } from '../../../protocol/message.ts';
import type { OurKeys } from '../../../protocol/our-keys.ts';
import { ProtocolFault } from '../../../protocol/protocol-fault.ts';
import type { Trace } from '../../../protocol/trace.ts';
import type { Acting, ContextAttacher } from './context-attacher.ts';
import type { KnownTasks, Seals } from './seals.ts';

/** Whom sealed values belong to. */
export interface Binding {
  readonly seals: Seals;
  /** The tasks that each session may be told of. */
  readonly tasks: KnownTasks;
  /** Empty where no session is known: then nothing opens. */
  readonly sessionId: string;
  readonly server: string;
  readonly attacher: ContextAttacher;
  /** What passes neither way; without this, what is always ours. */
  readonly keys?: (() => OurKeys) | undefined;
}

/** The same for another session. */
export function boundTo(binding: Binding, sessionId: string): Binding {
  return binding.sessionId === sessionId ? binding : { ...binding, sessionId };
}

export interface OutgoingRequest {
  readonly bytes: Buffer;
  /** The caller's own progress token, as it was written. */
  readonly progressToken: string | undefined;
  /** The tool, prompt or resource asked for. */
  readonly name: string;
  /** The task this request is about, as the upstream knows it. */
  readonly taskId: string | undefined;
  /** What proves the context, for those who read it in a header. */
  readonly token: string | undefined;
}

/**
 * A request as the upstream shall see it: our id in place of the caller's, handles opened, the context set, the rest as
 * it came. Whatever reaches an upstream goes through here, so nothing does without its context. Throws when the request
 * may not be made any more; to be called in the moment it is sent, not before.
 */
export function toUpstreamRequest(
  message: Message,
  pipelineEdits: readonly Edit[],
  upstreamId: number,
  binding: Binding,
  acting?: Acting,
  tail = '',
): OutgoingRequest {
  const session = acting?.confirm?.() ?? acting?.session;
  const edits = [replaceValue(idMember(message), String(upstreamId)), ...pipelineEdits];
  const { bytes, meta } = message;
  const params = message.params?.shape;
  const token = memberOf(meta, 'progressToken');
  if (token !== undefined) edits.push(replaceValue(token, String(upstreamId)));
  const name = readTargetName(message);
  const state = memberOf(params, 'requestState');
  if (state !== undefined) edits.push(replaceValue(state, openState(message, state, name, binding)));
  const taskId = pushTaskEdits(message, edits, binding);
  const { attacher } = binding;
  const context = attacher.createContext(message, name, acting, session);
  const trace = attacher.tracesInMeta && acting?.trace?.from === 'header' ? acting.trace : undefined;
  const members = addTrace(context?.member, trace);
  if (members !== undefined) edits.push(insertMeta(message, members, pipelineEdits));
  return {
    bytes: applyEdits(bytes, edits, tail),
    progressToken: readProgressToken(message),
    name,
    taskId,
    token: context?.token,
  };
}

function addTrace(member: string | undefined, trace: Trace | undefined): string | undefined {
  if (trace === undefined) return member;
  const traced = `"traceparent":"${trace.parent}"`;
  return member === undefined ? traced : `${member},${traced}`;
}

/** A notification towards the upstream: only handles are opened. */
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
  // A resource is its address, whatever else its request says: a name beside it must not stand for it.
  const name = message.method.startsWith('resources/') ? undefined : memberOf(params, 'name');
  return stringAt(message.bytes, name ?? memberOf(params, 'uri')) ?? '';
}

/** The caller's own progress token, as it was written. */
export function readProgressToken({ bytes, meta }: Message): string | undefined {
  const token = memberOf(meta, 'progressToken');
  return token === undefined ? undefined : rawAt(bytes, token);
}

export function stateBindings(binding: Binding, method: string, name: string): string[] {
  return ['state', binding.sessionId, binding.server, method, name];
}

export function taskBindings(binding: Binding): string[] {
  return ['task', binding.sessionId, binding.server];
}

function openState(message: Message, state: Member, name: string, binding: Binding): string {
  const sealed = stringAt(message.bytes, state);
  const bindings = stateBindings(binding, message.method, name);
  const value = sealed === undefined ? undefined : binding.seals.open(sealed, bindings, Date.now());
  if (value === undefined) {
    throw new ProtocolFault(-32602, 200, 'requestState is not valid for this request: start the call anew without it');
  }
  return JSON.stringify(value);
}

function pushTaskEdits(message: Message, edits: Edit[], binding: Binding): string | undefined {
  let taskId: string | undefined;
  const params = message.params?.shape;
  const about = message.method.startsWith('tasks/') || message.method.startsWith('notifications/tasks');
  const own = about ? memberOf(params, 'taskId') : undefined;
  if (own !== undefined) taskId = openTask(message, own, edits, binding);
  const related = memberOf(findRelatedTask(message.meta), 'taskId');
  if (related !== undefined) openTask(message, related, edits, binding);
  return taskId;
}

export function findRelatedTask(meta: Shape | undefined): Shape | undefined {
  return memberOf(meta, 'io.modelcontextprotocol/related-task')?.shape;
}

function openTask(message: Message, member: Member, edits: Edit[], binding: Binding): string {
  const sealed = stringAt(message.bytes, member);
  const value = sealed === undefined ? undefined : binding.seals.open(sealed, taskBindings(binding), Date.now());
  // Foreign and unknown look alike, in the words the protocol has for an unknown task.
  if (value === undefined) throw new ProtocolFault(-32602, 200, 'Task not found');
  // The seal proves that this session was given the task, also where the memory has lost it.
  binding.tasks.remember(binding.sessionId, binding.server, value);
  edits.push(replaceValue(member, JSON.stringify(value)));
  return value;
}
