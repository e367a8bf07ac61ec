import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { AmbitError } from '../../../errors.ts';
import { readServerMessage } from '../../../protocol/ambiguous-keys.ts';
import { acceptedReply, type FinalReply } from '../../../protocol/channel.ts';
import { composeError, composeResult } from '../../../protocol/compose-message.ts';
import { insertResultMeta } from '../../../protocol/insert-meta.ts';
import { applyEdits, removeMembers } from '../../../protocol/json/edit.ts';
import { readsAs } from '../../../protocol/json/fold-key.ts';
import { findMember, type JsonMember, readRawValue, readShape, readStringValue } from '../../../protocol/json/scan.ts';
import {
  applyMessageEdits,
  type Message,
  readErrorCode,
  readMessage,
  relatedTaskKey,
} from '../../../protocol/message.ts';
import { ProtocolError } from '../../../protocol/protocol-error.ts';
import { stripReservedMeta } from '../../../protocol/reserved-meta.ts';
import type { Link, UpstreamCall } from '../link.ts';
import { type Binding, openTaskId, taskBindings } from '../relay/towards-upstream.ts';
import type { AskClient } from './client-questions.ts';
import {
  invalidTaskError,
  readTask,
  readTaskState,
  type TaskState,
  toHandshakeAnswer,
  toHandshakeTask,
} from './era-translation.ts';

interface ModernTasksOptions {
  /** The link to the server, which all clients of the session share. */
  readonly base: Link;
  readonly binding: Binding;
  /** Sends a request about a task to the server. */
  readonly ask: (call: UpstreamCall, method: string, params: string) => Promise<FinalReply>;
  readonly askClient: AskClient;
  /** The reason why nothing more comes from the server; undefined while the bridge is open. */
  readonly findEnd: () => AmbitError | undefined;
}

/** A `tasks/result` that waits for the end of its task. */
interface Wait {
  readonly call: UpstreamCall;
  readonly taskId: string;
  /** Ends the pause between two looks at the task, and the questions. */
  readonly stop: AbortController;
  isCancelled: boolean;
  rounds: number;
  readonly answered: Set<string>;
  /** The questions that the client is being asked. */
  asking: { readonly stop: AbortController; readonly done: Promise<void> } | undefined;
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
/** The times that one `tasks/result` may ask the client. */
const maxRounds = 10;
const [minPollMs, defaultPollMs, maxPollMs] = [100, 500, 5000];

/** The tasks of the clients that share a link. */
const tasksOfLinks = new WeakMap<Link, { readonly ended: EndedTasks; readonly waits: Set<Wait> }>();

/**
 * Lets a client of MCP 2025-11-25 use the tasks extension of a modern server. In 2025-11-25 the client decides which call
 * is a task, in the extension the server. So a call that the server answers at once becomes a task that has ended.
 */
export function createModernTasks(options: ModernTasksOptions) {
  const { base, binding, ask } = options;
  const shared = tasksOfLinks.get(base) ?? { ended: createEndedTasks(), waits: new Set<Wait>() };
  tasksOfLinks.set(base, shared);
  const { ended } = shared;
  const waits = createTaskWaits(options, shared.waits);

  /** Finds a task that has ended. Sessions may share the link, so the id must be one of this session. */
  function findEnded(taskId: string): EndedTask | undefined {
    return openTaskId(binding, taskId) === undefined ? undefined : ended.get(taskId);
  }

  async function describe(call: UpstreamCall, taskId: string): Promise<FinalReply> {
    const known = findEnded(taskId);
    if (known !== undefined) return replyWith(call, JSON.stringify(known.task));
    const reply = await ask(call, 'tasks/get', JSON.stringify({ taskId }));
    const state = readTaskState(reply, binding.server);
    return state === undefined ? reply : replyWith(call, JSON.stringify(toHandshakeTask(state)));
  }

  async function cancel(call: UpstreamCall, taskId: string): Promise<FinalReply> {
    if (findEnded(taskId) !== undefined) throw new ProtocolError(-32602, 200, 'The task has ended');
    const reply = await ask(call, 'tasks/cancel', JSON.stringify({ taskId }));
    if (reply.kind !== 'message' || readMessage(reply.bytes).result === undefined) return reply;
    return describe(call, taskId);
  }

  async function fetchResult(call: UpstreamCall, taskId: string): Promise<FinalReply> {
    const known = findEnded(taskId);
    return known === undefined ? waits.start(call, taskId) : replyWithResult(call, taskId, known.result, binding);
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
      const isTask = readStringValue(answer.bytes, findMember(answer.result.shape, 'resultType')) === 'task';
      const state = isTask ? readTask(answer) : undefined;
      if (answer.result.shape === undefined || (isTask && state === undefined)) throw invalidTaskError(binding.server);
      const plain = readMessage(toHandshakeAnswer(answer));
      const task =
        state === undefined
          ? ended.add(
              binding.seals.seal(randomUUID(), taskBindings(binding)),
              readRawValue(plain.bytes, plain.result as JsonMember),
            )
          : toHandshakeTask(state);
      return composeResult(call.message.id as string, JSON.stringify({ task }));
    },

    cancelWait: waits.cancel,
    endWaits: waits.end,
    sweep: ended.sweep,
  };
}

/** The `tasks/result` requests of one client that wait. `all` has those of all clients that share the link. */
function createTaskWaits({ binding, ask, askClient, findEnd }: ModernTasksOptions, all: Set<Wait>) {
  const waits = new Set<Wait>();

  /** Looks at a task until it has ended, and asks the client the questions that come up meanwhile. */
  async function waitForResult(wait: Wait): Promise<FinalReply> {
    const { call, taskId } = wait;
    while (!wait.isCancelled && !call.channel.isGone()) {
      const end = findEnd();
      if (end !== undefined) throw end;
      const reply = await ask(call, 'tasks/get', JSON.stringify({ taskId }));
      const state = readTaskState(reply, binding.server);
      if (state === undefined) return reply;
      const outcome = readOutcome(call, taskId, state, binding);
      if (outcome !== undefined) return outcome;
      if (state.status !== 'input_required') wait.asking?.stop.abort();
      else if (wait.asking === undefined) wait.asking = startQuestions(wait, state);
      await pauseOrAnswer(wait, state.pollIntervalMs ?? defaultPollMs);
    }
    return acceptedReply;
  }

  /** Asks the client the questions that it has not answered yet, while the wait goes on. Undefined without any. */
  function startQuestions(wait: Wait, { answer }: TaskState): Wait['asking'] {
    const { taskId, answered } = wait;
    const requests = findMember(answer.result?.shape, 'inputRequests');
    const listed = (requests && readShape(answer.bytes, requests)?.members) ?? [];
    const questions = listed.filter(({ key }) => !answered.has(key));
    if (questions.length === 0 || isAskedElsewhere(wait)) return undefined;
    if (++wait.rounds > maxRounds) throw tooManyQuestionsError(binding.server);
    const stop = new AbortController();
    const signal = AbortSignal.any([stop.signal, wait.stop.signal]);
    const done = passQuestions(wait.call, taskId, answer, questions, signal)
      .then(
        () => {
          for (const { key } of questions) answered.add(key);
        },
        (error: unknown) => {
          if (!signal.aborted) throw error;
        },
      )
      .finally(() => {
        wait.asking = undefined;
      });
    // The wait hears of an error when it pauses.
    done.catch(() => {});
    return { stop, done };
  }

  /** True if another `tasks/result` has asked the questions of the task. One whose client is away gives them up. */
  function isAskedElsewhere(wait: Wait): boolean {
    for (const other of all) {
      if (other === wait || other.taskId !== wait.taskId || other.asking === undefined) continue;
      const { channel } = other.call;
      if (!channel.isGone() && channel.isAway?.() !== true) return true;
      other.asking.stop.abort();
    }
    return false;
  }

  async function passQuestions(
    call: UpstreamCall,
    taskId: string,
    { bytes }: Message,
    questions: readonly JsonMember[],
    signal: AbortSignal,
  ): Promise<void> {
    const answers = await askClient(call, bytes, questions, { id: openTaskId(binding, taskId) ?? '', signal });
    const params = `{"taskId":${JSON.stringify(taskId)},"inputResponses":{${answers.join(',')}}}`;
    const reply = await ask(call, 'tasks/update', params);
    if (reply.kind !== 'message' || readMessage(reply.bytes).error === undefined) return;
    throw new AmbitError('UPSTREAM_FAILED', { what: `The server "${binding.server}" did not accept the answers.` });
  }

  return {
    /** Waits for the result of a task. */
    async start(call: UpstreamCall, taskId: string): Promise<FinalReply> {
      if (waits.size >= maxWaits) throw new AmbitError('OVERLOADED');
      const stop = new AbortController();
      const wait: Wait = { call, taskId, stop, isCancelled: false, rounds: 0, answered: new Set(), asking: undefined };
      for (const set of [waits, all]) set.add(wait);
      call.channel.onGone(() => stop.abort());
      try {
        return await waitForResult(wait);
      } finally {
        for (const set of [waits, all]) set.delete(wait);
        stop.abort();
      }
    },

    /** Ends the wait for a result: the client that waits has cancelled its request. */
    cancel(from: object, requestId: string): void {
      for (const wait of waits) {
        const { caller, channel, message } = wait.call;
        if (message.id !== requestId || (caller !== from && channel.owner !== from)) continue;
        wait.isCancelled = true;
        wait.stop.abort();
      }
    },

    /** Ends all waits of this client: the bridge has closed. */
    end(): void {
      for (const { stop } of waits) stop.abort();
    },
  };
}

/** Pauses until the next look at a task, or until its questions are answered. Throws if they cannot be. */
async function pauseOrAnswer({ stop, asking }: Wait, pollMs: number): Promise<void> {
  const rest = new AbortController();
  const signal = AbortSignal.any([stop.signal, rest.signal]);
  const wait = Math.min(Math.max(pollMs, minPollMs), maxPollMs);
  const pausing = pause(wait, undefined, { signal }).catch(() => {});
  try {
    await (asking === undefined ? pausing : Promise.race([pausing, asking.done]));
  } finally {
    rest.abort();
  }
}

type EndedTasks = ReturnType<typeof createEndedTasks>;

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
  if (error === undefined) return { kind: 'message', bytes: composeError(id, -32603, 'The task failed') };
  const message = readPart(Buffer.from(`{"jsonrpc":"2.0","id":${id},"error":${error}}`), binding.server);
  const text = readStringValue(message.bytes, findMember(message.error?.shape, 'message'));
  if (text === undefined || !/^-?\d{1,15}$/.test(readErrorCode(message) ?? '')) throw invalidTaskError(binding.server);
  return { kind: 'message', bytes: message.bytes };
}

function replyWith(call: UpstreamCall, result: string): FinalReply {
  return { kind: 'message', bytes: composeResult(call.message.id as string, result) };
}

/**
 * Replies with the result of a task, which was a part of another answer. It is checked and cleaned like an answer of its
 * own. MCP 2025-11-25 wants the id of the task in it.
 */
function replyWithResult(call: UpstreamCall, taskId: string, result: string, binding: Binding): FinalReply {
  const whole = readPart(composeResult(call.message.id as string, result), binding.server);
  if (whole.result?.shape === undefined) throw invalidTaskError(binding.server);
  const clean = applyMessageEdits(whole, stripReservedMeta(whole, binding.keys?.()));
  const stale = (clean.result?.shape?.members ?? [])
    .filter(({ key }) => readsAs(key, '_meta'))
    .flatMap((member) => readShape(clean.bytes, member) ?? [])
    .flatMap((meta) => removeMembers(meta, ({ key }) => readsAs(key, relatedTaskKey)));
  const plain = readMessage(toHandshakeAnswer(applyMessageEdits(clean, stale)));
  const meta = insertResultMeta(plain, `"${relatedTaskKey}":${JSON.stringify({ taskId })}`);
  return { kind: 'message', bytes: meta === undefined ? plain.bytes : applyEdits(plain.bytes, [meta]) };
}

/** Reads a part of an answer as a message of its own. */
function readPart(bytes: Buffer, server: string): Message {
  try {
    return readServerMessage(bytes);
  } catch {
    throw invalidTaskError(server);
  }
}

export function tooManyQuestionsError(server: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The server "${server}" sent too many requests for input in one call.`,
  });
}
