import { setTimeout as pause } from 'node:timers/promises';
import { markForgedBlocks } from '../../../context/for-models/mark-forged-blocks.ts';
import { AmbitError } from '../../../errors.ts';
import type { Channel, FinalReply } from '../../../protocol/channel.ts';
import { composeError, composeResult } from '../../../protocol/compose-message.ts';
import { applyEdits, removeMembers } from '../../../protocol/json/edit.ts';
import { findMember, readRawValue, readShape, readStringValue } from '../../../protocol/json/scan.ts';
import {
  applyMessageEdits,
  type Message,
  readErrorCode,
  readMessage,
  relatedTaskKey,
} from '../../../protocol/message.ts';
import { declaresTasks, missingTasksError } from '../../../protocol/modern-envelope.ts';
import { ProtocolError } from '../../../protocol/protocol-error.ts';
import { stripReservedMeta } from '../../../protocol/reserved-meta.ts';
import { fetchList } from '../../catalog/offer.ts';
import { maxPushes } from '../caller.ts';
import { askUpstream, type BaseLink, type Handshake, type ServerMessage, type UpstreamCall } from '../link.ts';
import { subscriptionKey } from '../relay/towards-client.ts';
import { type Binding, bindToSession, findRelatedTask, openTaskId } from '../relay/towards-upstream.ts';
import { sessionIdOf } from '../stdio/sharers.ts';
import { invalidTaskError, offersTasks } from './era-translation.ts';

/** A question that a server asks for a task. The client answers it with `tasks/update`. */
interface TaskQuestion {
  readonly method: string;
  readonly params: unknown;
  readonly upstreamId: string;
  respond(message: Buffer): void;
}

/** A task that waits for input. The server asks its questions while `tasks/result` is open. */
interface WaitingTask {
  readonly sessionId: string;
  readonly questions: Map<string, TaskQuestion>;
  isFetching: boolean;
  /** Called when a question has come, or when the result has. */
  readonly wakers: Set<() => void>;
  lastUsedAt: number;
}

/** The tasks of one session that may wait at the same time. Sessions that share a process do not take each other's room. */
const maxWaiting = 32;
const holdMs = 10 * 60 * 1000;
/** The time that `tasks/get` waits for the questions of a task. */
const questionMs = 1000;
/** The time in which further questions are gathered. */
const gatherMs = 20;

/** Sends a request about a task to the server. `taskId` is the client's id of the task. */
type AskAboutTask = (
  call: UpstreamCall,
  method: string,
  taskId: string,
  changes?: Partial<UpstreamCall>,
) => Promise<Message>;

/**
 * Translates between the tasks extension of a modern client and the tasks of MCP 2025-11-25 of its server. There the
 * client decides which call is a task, so the bridge asks for one only where the tool needs it.
 */
export function createBridgedTasks(binding: Binding, link: BaseLink, openChannel: Channel) {
  const ask: AskAboutTask = async (call, method, taskId, changes) => {
    const params = JSON.stringify({ taskId });
    const text = `{"jsonrpc":"2.0","id":${call.message.id},"method":"${method}","params":${params}}`;
    const reply = await link.request({ ...call, message: readMessage(Buffer.from(text)), edits: [], ...changes });
    if (reply.kind !== 'message') throw new AmbitError('UPSTREAM_FAILED');
    return readMessage(reply.bytes);
  };
  const waiting = createWaitingTasks(binding, ask, openChannel);
  let taskTools: Promise<ReadonlySet<string>> | undefined;

  /** Finds the tools that run only as a task. */
  function findTaskTools(): Promise<ReadonlySet<string>> {
    taskTools ??= fetchList((method, params) => askUpstream(link, method, params), 'tools/list', 'tools').then(
      (texts = []) =>
        new Set(texts.map((text) => JSON.parse(text) as ListedTool).flatMap((tool) => readTaskTool(tool) ?? [])),
    );
    taskTools.catch(() => {
      taskTools = undefined;
    });
    return taskTools;
  }

  /** Prepares a call of a tool: as a task only if the tool needs it and the client can handle one. */
  async function prepareCall(message: Message, handshake: Handshake): Promise<Message> {
    const params = message.params?.shape;
    // The hint of an older client: the server would start a task that this client could not fetch.
    const hint = params === undefined ? [] : removeMembers(params, ({ key }) => key === 'task');
    const plain = applyMessageEdits(message, hint);
    if (!offersTasks(handshake.result)) return plain;
    const name = readStringValue(plain.bytes, findMember(plain.params?.shape, 'name')) ?? '';
    // Without the list the server itself refuses a call that must be a task.
    const tools = await findTaskTools().catch(() => undefined);
    if (tools?.has(name) !== true) return plain;
    if (!declaresTasks(message)) throw missingTasksError();
    const at = (plain.params?.shape?.start ?? 0) + 1;
    return applyMessageEdits(plain, [{ start: at, end: at, text: '"task":{},' }]);
  }

  /** Describes a task as modern clients read it: with its result, its error, or its questions. */
  async function describeTask(call: UpstreamCall, taskId: string, mayWait = true): Promise<Message | string> {
    const answer = await ask(call, 'tasks/get', taskId);
    if (answer.result === undefined) return answer;
    const task = readTask(readRawValue(answer.bytes, answer.result));
    if (task === undefined) throw invalidTaskError(binding.server);
    if (task.status === 'completed' || task.status === 'failed') {
      const { bytes, error, result } = withoutRelatedTask(await ask(call, 'tasks/result', taskId));
      if (error !== undefined) return writeTask({ ...task, status: 'failed' }, `"error":${readRawValue(bytes, error)}`);
      // In the modern era a task fails only with an error. A result with `isError` completes it.
      if (result !== undefined)
        return writeTask({ ...task, status: 'completed' }, `"result":${readRawValue(bytes, result)}`);
    }
    if (task.status !== 'input_required') return writeTask(task);
    const questions = mayWait ? await waiting.fetchQuestions(call, taskId) : new Map<string, TaskQuestion>();
    // The server may have gone on meanwhile. A modern task that waits for input has questions.
    if (questions.size === 0)
      return mayWait ? describeTask(call, taskId, false) : writeTask({ ...task, status: 'working' });
    const asked = [...questions].map(([key, { method, params }]) => [key, { method, params }]);
    return writeTask(task, `"inputRequests":${JSON.stringify(Object.fromEntries(asked))}`);
  }

  /** Passes the answers of the client on. Resolves with the error for an unknown task. */
  async function update(call: UpstreamCall, taskId: string): Promise<Message | string> {
    if (waiting.answerQuestions(call, taskId)) return '';
    const answer = await ask(call, 'tasks/get', taskId);
    return answer.error === undefined ? '' : answer;
  }

  async function cancel(call: UpstreamCall, taskId: string): Promise<Message | string> {
    const answer = await ask(call, 'tasks/cancel', taskId);
    // A task that has ended cannot be cancelled there. Here the request is acknowledged.
    if (answer.error !== undefined && (await ask(call, 'tasks/get', taskId)).error !== undefined) return answer;
    waiting.drop(call, taskId);
    return '';
  }

  const methods = new Map([
    ['tasks/get', (call: UpstreamCall, taskId: string) => describeTask(call, taskId)],
    ['tasks/update', update],
    ['tasks/cancel', cancel],
  ]);

  return {
    prepareCall,
    hold: waiting.hold,
    dropSession: waiting.dropSession,
    sweep: waiting.sweep,

    /** Called when the server has changed its tools. */
    forgetTools(): void {
      taskTools = undefined;
    },

    /** Answers a request about a task. */
    async request(call: UpstreamCall, handshake: Handshake): Promise<FinalReply> {
      const { message } = call;
      const run = methods.get(message.method);
      if (run === undefined || !offersTasks(handshake.result)) throw new ProtocolError(-32601, 404, 'Method not found');
      if (!declaresTasks(message)) throw missingTasksError();
      const answer = await run(call, readStringValue(message.bytes, findMember(message.params?.shape, 'taskId')) ?? '');
      if (typeof answer !== 'string') {
        const status = readErrorCode(answer) === '-32601' ? 404 : 200;
        return { kind: 'message', bytes: answer.bytes, status };
      }
      const result = `{"resultType":"complete"${answer === '' ? '' : ','}${answer}}`;
      return { kind: 'message', bytes: composeResult(message.id as string, result), status: 200 };
    },

    /** Sends the state of a task to a listen stream. */
    async announce(call: UpstreamCall, taskId: string): Promise<void> {
      const task = await describeTask({ ...call, cancelOnGone: false }, taskId);
      if (typeof task !== 'string' || call.channel.isGone()) return;
      const meta = `"_meta":{"${subscriptionKey}":${call.message.id}}`;
      const text = `{"jsonrpc":"2.0","method":"notifications/tasks","params":{${task},${meta}}}`;
      call.channel.emit(markForgedBlocks(Buffer.from(text)));
    },
  };
}

function wakeAll({ wakers }: WaitingTask): void {
  for (const wake of wakers) wake();
  wakers.clear();
}

/** The tasks that wait for input of their client. */
function createWaitingTasks(binding: Binding, ask: AskAboutTask, openChannel: Channel) {
  const waiting = new Map<string, WaitingTask>();
  let count = 0;

  /** Returns the server's id of a task; undefined if the session of the call does not have it. */
  function openId(call: UpstreamCall, taskId: string): string | undefined {
    return openTaskId(bindToSession(binding, sessionIdOf(call)), taskId);
  }

  function countTasks(sessionId: string): number {
    return [...waiting.values()].filter((task) => task.sessionId === sessionId).length;
  }

  function dropTask(upstreamTaskId: string, why: string): void {
    for (const { respond, upstreamId } of waiting.get(upstreamTaskId)?.questions.values() ?? [])
      respond(composeError(upstreamId, -32603, why));
    waiting.delete(upstreamTaskId);
  }

  return {
    /** Fetches the questions of a task. The server sends them while `tasks/result` is open. */
    async fetchQuestions(call: UpstreamCall, taskId: string): Promise<ReadonlyMap<string, TaskQuestion>> {
      const upstreamTaskId = openId(call, taskId);
      if (upstreamTaskId === undefined) return new Map();
      const known = waiting.get(upstreamTaskId);
      const sessionId = sessionIdOf(call);
      if (known === undefined && countTasks(sessionId) >= maxWaiting) throw new AmbitError('OVERLOADED');
      const task = known ?? { sessionId, questions: new Map(), isFetching: false, wakers: new Set(), lastUsedAt: 0 };
      waiting.set(upstreamTaskId, task);
      task.lastUsedAt = Date.now();
      if (task.questions.size > 0) return task.questions;
      const woken = new Promise<void>((wake) => {
        task.wakers.add(wake);
      });
      if (!task.isFetching) {
        task.isFetching = true;
        ask(call, 'tasks/result', taskId, { channel: openChannel, cancelOnGone: false })
          .catch(() => {})
          .finally(() => {
            task.isFetching = false;
            wakeAll(task);
            // The server has answered, so it asks nothing more. If it does, the next `tasks/get` starts again.
            if (task.questions.size === 0 && waiting.get(upstreamTaskId) === task) waiting.delete(upstreamTaskId);
          });
      }
      await Promise.race([woken, pause(questionMs, undefined, { ref: false })]);
      if (task.questions.size > 0) await pause(gatherMs);
      return task.questions;
    },

    /** Sends the server the answers in a `tasks/update`. False if the task waits for none. */
    answerQuestions(call: UpstreamCall, taskId: string): boolean {
      const { bytes, params } = call.message;
      const task = waiting.get(openId(call, taskId) ?? '');
      if (task === undefined) return false;
      const answers = findMember(params?.shape, 'inputResponses');
      const given = answers === undefined ? undefined : readShape(bytes, answers);
      for (const [key, { respond, upstreamId }] of [...task.questions]) {
        const answer = findMember(given, key);
        if (answer === undefined) continue;
        task.questions.delete(key);
        respond(composeResult(upstreamId, readRawValue(bytes, answer)));
      }
      return true;
    },

    /** Keeps the question of a task until the client asks for it. False if the question belongs to no such task. */
    hold({ message: asked, respond }: ServerMessage): boolean {
      const message = applyMessageEdits(asked, stripReservedMeta(asked, binding.keys?.()));
      const related = findMember(findRelatedTask(message.meta), 'taskId');
      const task = waiting.get(readStringValue(message.bytes, related) ?? '');
      if (task === undefined) return false;
      if (task.questions.size >= maxPushes) throw new AmbitError('OVERLOADED');
      const { bytes, params } = withoutRelatedTask(message);
      const given = params === undefined ? {} : (JSON.parse(readRawValue(bytes, params)) as unknown);
      const upstreamId = message.id as string;
      task.questions.set(`ask-${++count}`, { method: message.method, params: given, upstreamId, respond });
      wakeAll(task);
      return true;
    },

    drop(call: UpstreamCall, taskId: string): void {
      dropTask(openId(call, taskId) ?? '', 'The task was cancelled');
    },

    /** Drops the questions to a session that has ended. */
    dropSession(sessionId: string): void {
      for (const [upstreamTaskId, task] of [...waiting])
        if (task.sessionId === sessionId) dropTask(upstreamTaskId, 'The client has disconnected');
    },

    sweep(now: number): void {
      for (const [upstreamTaskId, { lastUsedAt }] of [...waiting])
        if (now - lastUsedAt > holdMs) dropTask(upstreamTaskId, 'Nobody answered in time');
    },
  };
}

interface HandshakeTask {
  readonly taskId: string;
  readonly status: string;
  readonly statusMessage?: string;
  readonly createdAt?: string;
  readonly lastUpdatedAt?: string;
  readonly ttl?: number | null;
  readonly pollInterval?: number;
}

interface ListedTool {
  readonly name?: unknown;
  readonly execution?: { readonly taskSupport?: unknown } | null;
}

function readTaskTool({ name, execution }: ListedTool): string | undefined {
  return typeof name === 'string' && execution?.taskSupport === 'required' ? name : undefined;
}

/** Reads a task; undefined if a server wrote something else. */
function readTask(text: string): HandshakeTask | undefined {
  const task = JSON.parse(text) as HandshakeTask | null;
  return typeof task?.taskId === 'string' && typeof task.status === 'string' ? task : undefined;
}

/** Writes the members of a modern task, without braces. */
function writeTask(task: HandshakeTask, more?: string): string {
  const { taskId, status, statusMessage, createdAt, lastUpdatedAt, ttl = null, pollInterval } = task;
  const now = new Date().toISOString();
  const members = {
    taskId,
    status,
    statusMessage,
    createdAt: createdAt ?? now,
    lastUpdatedAt: lastUpdatedAt ?? createdAt ?? now,
    ttlMs: ttl,
    pollIntervalMs: pollInterval,
  };
  const text = JSON.stringify(members).slice(1, -1);
  return more === undefined ? text : `${text},${more}`;
}

/** Turns the answer that creates a task into a modern one; undefined for any other answer. */
export function toModernTaskAnswer(answer: Message): Buffer | undefined {
  const member = findMember(answer.result?.shape, 'task');
  if (member === undefined) return undefined;
  const task = readTask(readRawValue(answer.bytes, member));
  return task === undefined
    ? undefined
    : composeResult(answer.id as string, `{"resultType":"task",${writeTask(task)}}`);
}

/** Removes the reference to the task, which the modern era does not have. */
function withoutRelatedTask(message: Message): Message {
  if (message.meta === undefined || findRelatedTask(message.meta) === undefined) return message;
  return readMessage(
    applyEdits(
      message.bytes,
      removeMembers(message.meta, ({ key }) => key === relatedTaskKey),
    ),
  );
}
