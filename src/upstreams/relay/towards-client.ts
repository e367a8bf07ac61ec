import { applyEdits, type Edit, replaceValue } from '../../wire/edit.ts';
import { idMember, type Message } from '../../wire/message.ts';
import { stripOurKeys } from '../../wire/our-keys.ts';
import { elementsAt, type Member, memberOf, type Shape, shapeAt, stringAt } from '../../wire/scan.ts';
import { type Binding, relatedTask, stateBindings, taskBindings } from './towards-upstream.ts';

const stateLifeMs = 60 * 60 * 1000;

/** What a response needs to find its way back. */
export interface Origin {
  /** The caller's id, as it was written. */
  readonly clientId: string;
  readonly method: string;
  readonly name: string;
}

/** A response as the caller shall see it: its own id, our keys taken out, handles sealed, the rest as it came. */
export function responseTowardsClient(message: Message, origin: Origin, binding: Binding): Buffer {
  const edits = [replaceValue(idMember(message), origin.clientId), ...stripOurKeys(message, binding.keys?.())];
  const { bytes } = message;
  const result = message.result?.shape;
  if (result !== undefined) {
    const state = memberOf(result, 'requestState');
    const upstreamState = stringAt(bytes, state);
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
 * A notification or push as the caller shall see it. `subscriptionId` is the caller's id of the listen request,
 * `progressToken` the caller's own token, `id` what we call a push.
 */
export function pushTowardsClient(
  message: Message,
  binding: Binding,
  names: {
    readonly subscriptionId?: string;
    readonly progressToken?: string;
    readonly requestId?: string;
    readonly id?: string;
  },
): Buffer {
  const edits = stripOurKeys(message, binding.keys?.());
  const { bytes } = message;
  const params = message.params?.shape;
  if (names.id !== undefined) {
    edits.push(replaceValue(idMember(message), names.id));
    const token = memberOf(message.meta, 'progressToken');
    if (token !== undefined) edits.push(replaceValue(token, names.id));
  }
  if (names.subscriptionId !== undefined) sealSubscription(message.meta, names.subscriptionId, edits);
  for (const [key, text] of [
    ['progressToken', names.progressToken],
    ['requestId', names.requestId],
  ] as const) {
    const member = text === undefined ? undefined : memberOf(params, key);
    if (member !== undefined && text !== undefined) edits.push(replaceValue(member, text));
  }
  if (message.method.startsWith('notifications/tasks')) {
    const taskId = memberOf(params, 'taskId');
    if (taskId !== undefined) sealTask(bytes, taskId, edits, binding);
  }
  const related = memberOf(relatedTask(message.meta), 'taskId');
  if (related !== undefined) sealTask(bytes, related, edits, binding);
  return applyEdits(bytes, edits);
}

export const subscriptionKey = 'io.modelcontextprotocol/subscriptionId';

function sealSubscription(meta: Shape | undefined, clientId: string, edits: Edit[]): void {
  const subscription = memberOf(meta, subscriptionKey);
  if (subscription !== undefined) edits.push(replaceValue(subscription, clientId));
}

function sealTasks(
  bytes: Buffer,
  result: Shape,
  meta: Shape | undefined,
  method: string,
  edits: Edit[],
  binding: Binding,
): void {
  const found: Member[] = [];
  const isTask = method.startsWith('tasks/') || stringAt(bytes, memberOf(result, 'resultType')) === 'task';
  const own = isTask ? memberOf(result, 'taskId') : undefined;
  const created = memberOf(memberOf(result, 'task')?.shape, 'taskId');
  const related = memberOf(relatedTask(meta), 'taskId');
  for (const member of [own, created, related]) if (member !== undefined) found.push(member);
  const list = method === 'tasks/list' ? memberOf(result, 'tasks') : undefined;
  if (list !== undefined) {
    for (const span of elementsAt(bytes, list)) {
      const taskId = memberOf(shapeAt(bytes, { ...list, ...span, shape: undefined }), 'taskId');
      if (taskId !== undefined) found.push(taskId);
    }
  }
  for (const member of found) sealTask(bytes, member, edits, binding);
}

function sealTask(bytes: Buffer, member: Member, edits: Edit[], binding: Binding): void {
  const taskId = stringAt(bytes, member);
  if (taskId === undefined) return;
  edits.push(replaceValue(member, JSON.stringify(binding.seals.seal(taskId, taskBindings(binding)))));
}
