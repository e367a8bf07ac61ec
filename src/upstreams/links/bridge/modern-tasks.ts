import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { AmbitError } from '../../../errors.ts';
import { readServerMessage } from '../../../protocol/ambiguous-keys.ts';
import { acceptedReply, type FinalReply } from '../../../protocol/channel.ts';
import { composeError, composeResult } from '../../../protocol/compose-message.ts';
import { insertResultMeta } from '../../../protocol/insert-meta.ts';
import { applyEdits, removeMembers } from '../../../protocol/json/edit.ts';
import { findMember, type JsonMember, readRawValue, readShape, readStringValue } from '../../../protocol/json/scan.ts';
import { applyMessageEdits, type Message, readMessage, relatedTaskKey } from '../../../protocol/message.ts';
import { ProtocolError } from '../../../protocol/protocol-error.ts';
import { stripReservedMeta } from '../../../protocol/reserved-meta.ts';
import type { UpstreamCall } from '../link.ts';
import { type Binding, openTaskId, taskBindings } from '../relay/towards-upstream.ts';
import type { AskClient } from './client-questions.ts';
import { toHandshakeAnswer } from './era-translation.ts';

interface ModernTasksOptions {
  readonly binding: Binding;
  /** Sends a request about a task to the server. */
  readonly ask: (call: UpstreamCall, method: string, params: string) => Promise<FinalReply>;
  readonly askClient: AskClient;
  readonly isClosed: () => boolean;
}

/** A task that had ended when it began: the server answered the call at once. */
interface EndedTask {
  readonly task: object;
  /** The result of the call, as JSON text. */
  readonly result: string;
  readonly until: number;
}

const maxEnded = 32;
const maxEndedLength = 8 * 1024 * 1024;
const endedMs = 5 * 60 * 1000;
/** The `tasks/result` requests of one client that may wait at the same time. */
const maxWaits = 32;
const [minPollMs, defaultPollMs, maxPollMs] = [100, 500, 5000];

/**
 * Lets a client of MCP 2025-11-25 use the tasks extension of a modern server. In 2025-11-25 the client decides which call
 * is a task, in the extension the server. So a call that the server answers at once becomes a task that has ended.
 */
export function createModernTasks({ binding, ask, askClient, isClosed }: ModernTasksOptions) {
  const ended = createEndedTasks();
  const waits = new Map<string, AbortController>();
  /** The tasks whose questions the client is being asked. */
  const asking = new Set<string>();

  async function describe(call: UpstreamCall, taskId: string): Promise<FinalReply> {
    const known = ended.get(taskId);
    if (known !== undefined) return replyWith(call, JSON.stringify(known.task));
    const reply = await ask(call, 'tasks/get', JSON.stringify({ taskId }));
    const state = readState(reply, binding.server);
    return state === undefined ? reply : replyWith(call, JSON.stringify(toHandshakeTask(state)));
  }

  async function cancel(call: UpstreamCall, taskId: string): Promise<FinalReply> {
    if (ended.get(taskId) !== undefined) throw new ProtocolError(-32602, 200, 'The task has ended');
    const reply = await ask(call, 'tasks/cancel', JSON.stringify({ taskId }));
    if (reply.kind !== 'message' || readMessage(reply.bytes).result === undefined) return reply;
    return describe(call, taskId);
  }

  /** Waits until a task has ended, and asks the client the questions that come up meanwhile. */
  async function waitForResult(call: UpstreamCall, taskId: string, signal: AbortSignal): Promise<FinalReply> {
    const answered = new Set<string>();
    while (!signal.aborted && !isClosed() && !call.channel.isGone()) {
      const reply = await ask(call, 'tasks/get', JSON.stringify({ taskId }));
      const state = readState(reply, binding.server);
      if (state === undefined) return reply;
      const outcome = readOutcome(call, taskId, state, binding);
      if (outcome !== undefined) return outcome;
      const hasAnswers = state.status === 'input_required' && (await passQuestions(call, taskId, state, answered));
      const wait = Math.min(Math.max(state.pollIntervalMs ?? defaultPollMs, minPollMs), maxPollMs);
      // A server that has got its answers may end the task at once.
      await pause(hasAnswers ? minPollMs : wait, undefined, { signal }).catch(() => {});
    }
    return acceptedReply;
  }

  /** Asks the client the questions that it has not answered yet, and sends its answers to the server. False without any. */
  async function passQuestions(
    call: UpstreamCall,
    taskId: string,
    { answer }: TaskState,
    answered: Set<string>,
  ): Promise<boolean> {
    const requests = findMember(answer.result?.shape, 'inputRequests');
    const all = (requests && readShape(answer.bytes, requests)?.members) ?? [];
    const questions = all.filter(({ key }) => !answered.has(key));
    if (questions.length === 0 || asking.has(taskId)) return false;
    asking.add(taskId);
    try {
      const upstreamId = openTaskId(binding, taskId) ?? '';
      const answers = await askClient(call, answer.bytes, questions, upstreamId);
      await ask(call, 'tasks/update', `{"taskId":${JSON.stringify(taskId)},"inputResponses":{${answers.join(',')}}}`);
      for (const { key } of questions) answered.add(key);
      return true;
    } finally {
      asking.delete(taskId);
    }
  }

  async function fetchResult(call: UpstreamCall, taskId: string): Promise<FinalReply> {
    const known = ended.get(taskId);
    if (known !== undefined) return replyWithResult(call, taskId, known.result, binding);
    if (waits.size >= maxWaits) throw new AmbitError('OVERLOADED');
    const id = call.message.id as string;
    const wait = new AbortController();
    waits.set(id, wait);
    try {
      return await waitForResult(call, taskId, wait.signal);
    } finally {
      if (waits.get(id) === wait) waits.delete(id);
    }
  }

  const methods = new Map([
    ['tasks/get', describe],
    ['tasks/result', fetchResult],
    ['tasks/cancel', cancel],
  ]);

  return {
    /** Answers a request about a task. */
    async request(call: UpstreamCall): Promise<FinalReply> {
      const { bytes, method, params } = call.message;
      const run = methods.get(method);
      // The extension has no list of tasks.
      if (run === undefined) throw new ProtocolError(-32601, 200, 'Method not found');
      const reply = await run(call, readStringValue(bytes, findMember(params?.shape, 'taskId')) ?? '');
      return reply.kind === 'message' ? { ...reply, status: 200 } : reply;
    },

    /** Turns the answer to a call that the client wants as a task into the description of that task. */
    toCreatedTask(call: UpstreamCall, answer: Message): Buffer {
      if (answer.result === undefined) return answer.bytes;
      const id = call.message.id as string;
      const state = readTask(answer);
      const isTask = readStringValue(answer.bytes, findMember(answer.result.shape, 'resultType')) === 'task';
      if (isTask && state === undefined) throw invalidTaskError(binding.server);
      const plain = readMessage(toHandshakeAnswer(answer));
      const result = readRawValue(plain.bytes, plain.result as JsonMember);
      const task =
        isTask && state !== undefined
          ? toHandshakeTask(state)
          : ended.add(binding.seals.seal(randomUUID(), taskBindings(binding)), result);
      return composeResult(id, JSON.stringify({ task }));
    },

    /** Ends the wait for a result: the client has cancelled its request. */
    cancelWait(requestId: string): void {
      waits.get(requestId)?.abort();
    },

    sweep: ended.sweep,
  };
}

/** Keeps the results of calls that the server answered at once. The oldest make room for others. */
function createEndedTasks() {
  const tasks = new Map<string, EndedTask>();
  let length = 0;

  function drop(taskId: string): void {
    length -= tasks.get(taskId)?.result.length ?? 0;
    tasks.delete(taskId);
  }

  return {
    get: (taskId: string) => tasks.get(taskId),
    add(taskId: string, result: string): object {
      const { isError } = JSON.parse(result) as { readonly isError?: unknown };
      const now = new Date().toISOString();
      const status = isError === true ? 'failed' : 'completed';
      const task = { taskId, status, createdAt: now, lastUpdatedAt: now, ttl: endedMs };
      tasks.set(taskId, { task, result, until: Date.now() + endedMs });
      length += result.length;
      for (const oldest of tasks.keys()) {
        if (oldest === taskId || (tasks.size <= maxEnded && length <= maxEndedLength)) break;
        drop(oldest);
      }
      return task;
    },
    sweep(now: number): void {
      for (const [taskId, { until }] of tasks) if (until < now) drop(taskId);
    },
  };
}

/** A task as a modern server describes it. */
interface TaskState {
  readonly answer: Message;
  readonly taskId: string;
  readonly status: string;
  readonly statusMessage?: unknown;
  readonly createdAt?: unknown;
  readonly lastUpdatedAt?: unknown;
  readonly ttlMs?: unknown;
  readonly pollIntervalMs: number | undefined;
}

/** Reads the answer to `tasks/get`; undefined for an error and for no answer. */
function readState(reply: FinalReply, server: string): TaskState | undefined {
  const answer = reply.kind === 'message' ? readMessage(reply.bytes) : undefined;
  if (answer?.result === undefined) return undefined;
  const state = readTask(answer);
  if (state === undefined) throw invalidTaskError(server);
  return state;
}

function readTask(answer: Message): TaskState | undefined {
  const read = (name: string): unknown => {
    const member = findMember(answer.result?.shape, name);
    return member === undefined ? undefined : JSON.parse(readRawValue(answer.bytes, member));
  };
  const [taskId, status, pollIntervalMs] = ['taskId', 'status', 'pollIntervalMs'].map(read);
  if (typeof taskId !== 'string' || typeof status !== 'string') return undefined;
  return {
    answer,
    taskId,
    status,
    statusMessage: read('statusMessage'),
    createdAt: read('createdAt'),
    lastUpdatedAt: read('lastUpdatedAt'),
    ttlMs: read('ttlMs'),
    pollIntervalMs: typeof pollIntervalMs === 'number' ? pollIntervalMs : undefined,
  };
}

function toHandshakeTask({ answer, ...state }: TaskState): object {
  const { taskId, statusMessage, createdAt, lastUpdatedAt, ttlMs = null, pollIntervalMs: pollInterval } = state;
  const now = new Date().toISOString();
  // In 2025-11-25 a task whose result has `isError` has failed.
  const result = findMember(answer.result?.shape, 'result');
  const isError = findMember(result && readShape(answer.bytes, result), 'isError');
  const hasFailed = isError !== undefined && readRawValue(answer.bytes, isError) === 'true';
  const status = state.status === 'completed' && hasFailed ? 'failed' : state.status;
  const times = { createdAt: createdAt ?? now, lastUpdatedAt: lastUpdatedAt ?? createdAt ?? now };
  return { taskId, status, statusMessage, ...times, ttl: ttlMs, pollInterval };
}

/** Reads how a task has ended; undefined while it has not. */
function readOutcome(
  call: UpstreamCall,
  taskId: string,
  { answer, status }: TaskState,
  binding: Binding,
): FinalReply | undefined {
  const id = call.message.id as string;
  const read = (name: string) => {
    const member = findMember(answer.result?.shape, name);
    return member === undefined ? undefined : readRawValue(answer.bytes, member);
  };
  const [result, error] = [read('result'), read('error')];
  if (status === 'cancelled') return { kind: 'message', bytes: composeError(id, -32603, 'The task was cancelled') };
  if (status === 'completed' && result !== undefined) return replyWithResult(call, taskId, result, binding);
  if (status !== 'failed' && status !== 'completed') return undefined;
  const bytes = Buffer.from(`{"jsonrpc":"2.0","id":${id},"error":${error ?? '{"code":-32603,"message":"It failed"}'}}`);
  return { kind: 'message', bytes };
}

function replyWith(call: UpstreamCall, result: string): FinalReply {
  return { kind: 'message', bytes: composeResult(call.message.id as string, result) };
}

/**
 * Replies with the result of a task, which was a part of another answer. It is checked and cleaned like an answer of its
 * own. MCP 2025-11-25 wants the id of the task in it.
 */
function replyWithResult(call: UpstreamCall, taskId: string, result: string, binding: Binding): FinalReply {
  const whole = readResult(composeResult(call.message.id as string, result), binding.server);
  const clean = applyMessageEdits(whole, stripReservedMeta(whole, binding.keys?.()));
  const stale = clean.meta === undefined ? [] : removeMembers(clean.meta, ({ key }) => key === relatedTaskKey);
  const plain = readMessage(toHandshakeAnswer(applyMessageEdits(clean, stale)));
  const meta = insertResultMeta(plain, `"${relatedTaskKey}":${JSON.stringify({ taskId })}`);
  return { kind: 'message', bytes: meta === undefined ? plain.bytes : applyEdits(plain.bytes, [meta]) };
}

function readResult(bytes: Buffer, server: string): Message {
  try {
    return readServerMessage(bytes);
  } catch {
    throw invalidTaskError(server);
  }
}

export function invalidTaskError(server: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', { what: `The server "${server}" described a task that is not valid.` });
}
