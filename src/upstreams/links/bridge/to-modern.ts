import { setTimeout as pause } from 'node:timers/promises';
import { AmbitError } from '../../../errors.ts';
import type { Channel, FinalReply } from '../../../protocol/channel.ts';
import { composeResult } from '../../../protocol/compose-message.ts';
import { applyEdits, type Edit, removeMembers, replaceValue } from '../../../protocol/json/edit.ts';
import { findMember, type JsonMember, readRawValue, readShape, readStringValue } from '../../../protocol/json/scan.ts';
import { applyMessageEdits, type Message, readMessage } from '../../../protocol/message.ts';
import { ProtocolError } from '../../../protocol/protocol-error.ts';
import type { ServerDefinition } from '../../definition.ts';
import type { Caller } from '../caller.ts';
import { unsupportedHandshakeError } from '../handshake.ts';
import {
  askUpstream,
  closedChannel,
  createOwnCall,
  type Link,
  type OnServerMessage,
  type UpstreamCall,
} from '../link.ts';
import type { OpenedLink } from '../links.ts';
import type { Binding } from '../relay/towards-upstream.ts';
import { type AskClient, createClientQuestions } from './client-questions.ts';
import {
  addEnvelope,
  addTasksExtension,
  describeTaskSupport,
  removeTaskCapability,
  toHandshakeAnswer,
  toInitializeResult,
} from './era-translation.ts';
import { createModernTasks, tooManyQuestionsError } from './modern-tasks.ts';

const maxRounds = 10;
const listenMs = 5000;
const levels = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

interface ToModernOptions {
  readonly server: ServerDefinition;
  /** JSON texts from the client's `initialize`. */
  readonly capabilities: string;
  readonly clientInfo: string | undefined;
  /** True if the client may use the tasks of the server. */
  readonly hasTasks: boolean;
  /** The session's own modern link: requests describe themselves, so all its clients can share it. */
  readonly base: Link;
  readonly binding: Binding;
  /** Takes the server's questions, as it takes the messages of any other server. */
  readonly onServerMessage: OnServerMessage;
}

/** Creates a link for one handshake-era client on top of a link to a modern server. */
function bridgeToModern(options: ToModernOptions): Link {
  const { server, capabilities, clientInfo, hasTasks, base } = options;
  const callers = new Set<Caller>();
  const questions = createClientQuestions(options, () => bridge);
  let logLevel: string | undefined;
  let closedFor: AmbitError | undefined;
  let runningCalls = 0;
  let listening: { end(): void } | undefined;

  function addOwnEnvelope(message: Message, withTasks = false): Message {
    const declared = withTasks ? addTasksExtension(capabilities) : capabilities;
    return applyMessageEdits(message, addEnvelope(message, { capabilities: declared, clientInfo, logLevel }));
  }

  const tasks = createModernTasks({
    base,
    binding: options.binding,
    ask(call, method, params) {
      const text = `{"jsonrpc":"2.0","id":${call.message.id},"method":"${method}","params":${params}}`;
      return base.request({ ...call, message: addOwnEnvelope(readMessage(Buffer.from(text)), true), edits: [] });
    },
    askClient: questions.ask,
    findEnd: () => closedFor ?? (base.isClosed() ? new AmbitError('UPSTREAM_FAILED') : undefined),
  });

  async function forward(call: UpstreamCall): Promise<FinalReply> {
    // The message is read again with its envelope, so that the link below sees what the server will see. Each round
    // starts from the request as the pipeline edited it, not from what the client sent.
    const edited = applyMessageEdits(call.message, call.edits);
    const clean = removeTaskHint(edited);
    const wantsTask = hasTasks && asksForTask(edited);
    let message = addOwnEnvelope(clean, wantsTask);
    for (let round = 0; round < maxRounds; round++) {
      const reply = await base.request({ ...call, message, edits: [] });
      if (reply.kind !== 'message') return reply;
      const answer = readMessage(reply.bytes);
      const isQuestion =
        readStringValue(answer.bytes, findMember(answer.result?.shape, 'resultType')) === 'input_required';
      if (!isQuestion) {
        if (wantsTask) return { ...reply, bytes: tasks.toCreatedTask(call, answer), status: 200 };
        const plain = toHandshakeAnswer(answer);
        const bytes = clean.method === 'tools/list' ? describeTaskSupport(readMessage(plain), hasTasks) : plain;
        return { ...reply, bytes, status: 200 };
      }
      message = addOwnEnvelope(await buildRetry(call, clean, answer, questions.ask), wantsTask);
    }
    throw tooManyQuestionsError(server.name);
  }

  /** Opens a listen stream for the notifications that a handshake-era client gets unasked. Resolves when it is open. */
  async function listen(caller: Caller): Promise<void> {
    const before = listening;
    const stream = createListenStream(caller);
    listening = stream;
    const notifications = {
      toolsListChanged: true,
      promptsListChanged: true,
      resourcesListChanged: true,
      ...(caller.subscriptions.size > 0 ? { resourceSubscriptions: [...caller.subscriptions.keys()] } : {}),
    };
    const call = createOwnCall('subscriptions/listen', JSON.stringify({ notifications }), stream.channel);
    const over = base.request({ ...call, message: addOwnEnvelope(call.message) }).then(
      () => {},
      () => {},
    );
    await Promise.race([stream.acknowledged, over, pause(listenMs, undefined, { ref: false })]);
    // The old stream ends after the new one is open, so that nothing sent in between is missed.
    before?.end();
  }

  function countRunning(reply: Promise<FinalReply>): Promise<FinalReply> {
    runningCalls++;
    return reply.finally(() => {
      runningCalls--;
    });
  }

  const bridge: Link = {
    sessionId: base.sessionId,
    scopeKey: base.scopeKey,
    server: base.server,
    era: 'handshake',
    base,
    callerCount: () => callers.size,
    isBusy: () => runningCalls > 0,
    isClosed: () => closedFor !== undefined || base.isClosed(),

    async request(call) {
      const { message, caller } = call;
      const id = message.id as string;
      if (message.method.startsWith('tasks/')) {
        if (!hasTasks) throw new ProtocolError(-32601, 200, 'Method not found');
        return countRunning(tasks.request(call));
      }
      const done = (): FinalReply => ({ kind: 'message', bytes: composeResult(id, '{}'), status: 200 });
      switch (message.method) {
        case 'ping':
          return done();
        case 'logging/setLevel':
          logLevel = readLogLevel(message) ?? logLevel;
          return done();
        case 'resources/subscribe':
        case 'resources/unsubscribe': {
          const uri = readStringValue(message.bytes, findMember(message.params?.shape, 'uri')) ?? '';
          if (caller === undefined) return done();
          if (message.method === 'resources/subscribe')
            caller.subscriptions.set(uri, caller.subscriptions.get(uri) ?? uri);
          else caller.subscriptions.delete(uri);
          await listen(caller);
          return done();
        }
        default:
          return countRunning(forward(call));
      }
    },

    notify(call) {
      if (call.message.method === 'notifications/initialized' && call.caller !== undefined) void listen(call.caller);
    },

    answer: (upstreamId, message, edits) => questions.answer(upstreamId, applyMessageEdits(message, edits)),

    cancel(from, requestId, message) {
      tasks.cancelWait(from, requestId);
      base.cancel(from, requestId, message);
    },
    attach: (caller) => void callers.add(caller),
    detach(caller) {
      callers.delete(caller);
      questions.failAll();
      listening?.end();
      if (callers.size > 0) return;
      closedFor ??= new AmbitError('SESSION_ENDED');
      tasks.endWaits();
    },
    listen() {},
    dropSession() {},
    sweep: tasks.sweep,
    async close(reason) {
      closedFor ??= reason;
      listening?.end();
      tasks.endWaits();
    },
  };
  return bridge;
}

/** Builds the call again, with the client's answers to the questions of the server. */
async function buildRetry(call: UpstreamCall, clean: Message, answer: Message, askClient: AskClient): Promise<Message> {
  const result = answer.result?.shape;
  const requests = findMember(result, 'inputRequests');
  const asked = requests === undefined ? undefined : readShape(answer.bytes, requests);
  const answers = await askClient(call, answer.bytes, asked?.members ?? []);
  const state = findMember(result, 'requestState');
  const additions = [`"inputResponses":{${answers.join(',')}}`];
  if (state !== undefined) additions.push(`"requestState":${readRawValue(answer.bytes, state)}`);
  return applyMessageEdits(clean, [insertParams(clean, additions.join(','))]);
}

/** Creates the channel of a listen stream whose notifications go to the stream of a client. */
function createListenStream(caller: Caller) {
  const onGone: (() => void)[] = [];
  let hasEnded = false;
  let acknowledge = () => {};
  const acknowledged = new Promise<void>((resolve) => {
    acknowledge = resolve;
  });
  const channel: Channel = {
    ...closedChannel,
    owner: {},
    isGone: () => false,
    emit(bytes) {
      if (readMessage(bytes).method === 'notifications/subscriptions/acknowledged') acknowledge();
      return hasEnded || relayNotification(bytes, caller);
    },
    onGone: (listener) => void onGone.push(listener),
  };
  return {
    channel,
    acknowledged,
    end() {
      hasEnded = true;
      for (const listener of onGone.splice(0)) listener();
    },
  };
}

function relayNotification(bytes: Buffer, caller: Caller): boolean {
  const message = readMessage(bytes);
  if (message.kind !== 'notification' || message.method === 'notifications/subscriptions/acknowledged') return true;
  const meta = findMember(message.params?.shape, '_meta');
  const edits: Edit[] = meta === undefined ? [] : [replaceValue(meta, '{}')];
  const uri = findMember(message.params?.shape, 'uri');
  const shown = caller.subscriptions.get(readStringValue(bytes, uri) ?? '');
  if (uri !== undefined && shown !== undefined) edits.push(replaceValue(uri, JSON.stringify(shown)));
  const out = caller.stream ?? [...caller.openChannels].at(-1);
  return out === undefined || out.isGone() ? true : out.emit(applyEdits(bytes, edits));
}

function readLogLevel({ bytes, params }: Message): string | undefined {
  const level = readStringValue(bytes, findMember(params?.shape, 'level'));
  return level !== undefined && levels.includes(level) ? level : undefined;
}

/** Tells whether the client wants a call as a task. */
function asksForTask({ bytes, method, params }: Message): boolean {
  const task = method === 'tools/call' ? findMember(params?.shape, 'task') : undefined;
  if (task === undefined || readRawValue(bytes, task) === 'null') return false;
  if (readShape(bytes, task) === undefined) throw new ProtocolError(-32602, 200, 'params.task must be an object');
  return true;
}

/** Removes the request for a task: in the modern era the server decides. */
function removeTaskHint(message: Message): Message {
  const params = message.method === 'tools/call' ? message.params?.shape : undefined;
  if (findMember(params, 'task') === undefined || params === undefined) return message;
  return applyMessageEdits(
    message,
    removeMembers(params, ({ key }) => key === 'task'),
  );
}

function insertParams(message: Message, members: string): Edit {
  const params = message.params?.shape;
  if (params === undefined) {
    const at = message.shape.start + 1;
    return { start: at, end: at, text: `"params":{${members}},` };
  }
  const at = params.start + 1;
  return { start: at, end: at, text: params.members.length > 0 ? `${members},` : members };
}

/** Opens a bridge for a handshake-era client to a modern server. Answers `initialize` from `server/discover`. */
export async function translateHandshake(
  server: ServerDefinition,
  base: Link,
  { message }: UpstreamCall,
  parts: Pick<ToModernOptions, 'binding' | 'onServerMessage'>,
): Promise<OpenedLink> {
  const params = message.params?.shape;
  const raw = (name: string) => {
    const member = findMember(params, name);
    return member === undefined ? undefined : readRawValue(message.bytes, member);
  };
  const client = { capabilities: removeTaskCapability(raw('capabilities') ?? '{}'), clientInfo: raw('clientInfo') };
  // A server may show the extension only to clients that have it.
  const discovered = await discoverAs(base, { ...client, capabilities: addTasksExtension(client.capabilities) });
  if (discovered.result === undefined) throw unsupportedHandshakeError(message);
  const requested = readStringValue(message.bytes, findMember(params, 'protocolVersion'));
  const result = toInitializeResult(readRawValue(discovered.bytes, discovered.result), requested);
  const { protocolVersion, capabilities } = JSON.parse(result) as {
    readonly protocolVersion: string;
    readonly capabilities: { readonly tasks?: object };
  };
  const link = bridgeToModern({ ...parts, ...client, hasTasks: capabilities.tasks !== undefined, server, base });
  const reply = { kind: 'message', bytes: composeResult(message.id as string, result), status: 200 } as const;
  return { reply, link, version: protocolVersion };
}

/** Asks a modern server what it offers to this client: it may depend on the client's extensions. */
async function discoverAs(
  base: Link,
  client: { readonly capabilities: string; readonly clientInfo: string | undefined },
): Promise<Message> {
  const { message } = createOwnCall('server/discover', '{}');
  const described = applyMessageEdits(message, addEnvelope(message, { ...client, logLevel: undefined }));
  return askUpstream(base, 'server/discover', readRawValue(described.bytes, described.params as JsonMember));
}
