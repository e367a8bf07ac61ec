import { setTimeout as pause } from 'node:timers/promises';
import { AmbitError } from '../../../errors.ts';
import type { Channel, FinalReply } from '../../../protocol/channel.ts';
import { composeResult } from '../../../protocol/compose-message.ts';
import { applyEdits, type Edit, removeMembers, replaceValue } from '../../../protocol/json/edit.ts';
import { findMember, type JsonMember, readRawValue, readShape, readStringValue } from '../../../protocol/json/scan.ts';
import { applyMessageEdits, type Message, readMessage } from '../../../protocol/message.ts';
import { ProtocolError } from '../../../protocol/protocol-error.ts';
import type { ServerDefinition } from '../../definition.ts';
import { type Caller, maxPushes } from '../caller.ts';
import { unsupportedHandshakeError } from '../handshake.ts';
import type { Link, OnServerMessage, UpstreamCall } from '../link.ts';
import type { OpenedLink } from '../links.ts';
import { createPendingCalls } from '../relay/pending-calls.ts';
import { pushKinds } from '../relay/questions.ts';
import { type Binding, bindToSession } from '../relay/towards-upstream.ts';
import { askUpstream, closedChannel, createOwnCall } from './ask-upstream.ts';
import {
  addEnvelope,
  removeTaskCapability,
  removeTaskSupport,
  toHandshakeAnswer,
  toInitializeResult,
} from './era-translation.ts';

const maxRounds = 10;
const listenMs = 5000;
/** A question names its target itself, so it needs no pending calls. */
const noCalls = createPendingCalls();
const levels = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

interface ToModernOptions {
  readonly server: ServerDefinition;
  /** JSON texts from the client's `initialize`. */
  readonly capabilities: string;
  readonly clientInfo: string | undefined;
  /** The session's own modern link: requests describe themselves, so all its clients can share it. */
  readonly base: Link;
  readonly binding: Binding;
  /** Takes the server's questions, as it takes the messages of any other server. */
  readonly onServerMessage: OnServerMessage;
}

interface PendingQuestion {
  answered(message: Message): void;
  failed(error: Error): void;
}

interface ServerQuestion {
  readonly method: string;
  readonly params?: object;
}

/** Creates a link for one handshake-era client on top of a link to a modern server. */
function bridgeToModern(options: ToModernOptions): Link {
  const { server, capabilities, clientInfo, base } = options;
  const callers = new Set<Caller>();
  const questions = createClientQuestions(options, () => bridge);
  let logLevel: string | undefined;
  let isClosed = false;
  let runningCalls = 0;
  let listening: { end(): void } | undefined;

  function addOwnEnvelope(message: Message): Message {
    return applyMessageEdits(message, addEnvelope(message, { capabilities, clientInfo, logLevel }));
  }

  async function forward(call: UpstreamCall): Promise<FinalReply> {
    // The message is read again with its envelope, so that the link below sees what the server will see. Each round
    // starts from the request as the pipeline edited it, not from what the client sent.
    const clean = removeTaskHint(applyMessageEdits(call.message, call.edits));
    let message = addOwnEnvelope(clean);
    for (let round = 0; round < maxRounds; round++) {
      const reply = await base.request({ ...call, message, edits: [] });
      if (reply.kind !== 'message') return reply;
      const answer = readMessage(reply.bytes);
      const isQuestion =
        readStringValue(answer.bytes, findMember(answer.result?.shape, 'resultType')) === 'input_required';
      if (!isQuestion) {
        const plain = toHandshakeAnswer(answer);
        const bytes = clean.method === 'tools/list' ? removeTaskSupport(readMessage(plain), false) : plain;
        return { ...reply, bytes, status: 200 };
      }
      message = addOwnEnvelope(await buildRetry(call, clean, answer));
    }
    throw new AmbitError('UPSTREAM_FAILED', {
      what: `The server "${server.name}" sent too many requests for input in one call.`,
    });
  }

  /** Builds the call again, with the client's answers to the questions of the server. */
  async function buildRetry(call: UpstreamCall, clean: Message, answer: Message): Promise<Message> {
    const result = answer.result?.shape;
    const requests = findMember(result, 'inputRequests');
    const asked = requests === undefined ? undefined : readShape(answer.bytes, requests);
    const answers = await questions.ask(call, answer.bytes, asked?.members ?? []);
    const state = findMember(result, 'requestState');
    const additions = [`"inputResponses":{${answers.join(',')}}`];
    if (state !== undefined) additions.push(`"requestState":${readRawValue(answer.bytes, state)}`);
    return applyMessageEdits(clean, [insertParams(clean, additions.join(','))]);
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

  const bridge: Link = {
    sessionId: base.sessionId,
    scopeKey: base.scopeKey,
    server: base.server,
    era: 'handshake',
    base,
    callerCount: () => callers.size,
    isBusy: () => runningCalls > 0,
    isClosed: () => isClosed || base.isClosed(),

    async request(call) {
      const { message, caller } = call;
      const id = message.id as string;
      // The client decides there which call is a task, and the server does here.
      if (message.method.startsWith('tasks/')) throw new ProtocolError(-32601, 200, 'Method not found');
      const done = (): FinalReply => ({ kind: 'message', bytes: composeResult(id, '{}'), status: 200 });
      switch (message.method) {
        case 'ping':
          return done();
        case 'logging/setLevel': {
          const level = readStringValue(message.bytes, findMember(message.params?.shape, 'level'));
          if (level !== undefined && levels.includes(level)) logLevel = level;
          return done();
        }
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
          runningCalls++;
          return forward(call).finally(() => {
            runningCalls--;
          });
      }
    },

    notify(call) {
      if (call.message.method === 'notifications/initialized' && call.caller !== undefined) void listen(call.caller);
    },

    answer: (upstreamId, message, edits) => questions.answer(upstreamId, applyMessageEdits(message, edits)),

    cancel: (from, requestId, message) => base.cancel(from, requestId, message),
    attach: (caller) => void callers.add(caller),
    detach(caller) {
      callers.delete(caller);
      questions.failAll();
      listening?.end();
      if (callers.size === 0) isClosed = true;
    },
    listen() {},
    dropSession() {},
    sweep() {},
    async close() {
      isClosed = true;
      listening?.end();
    },
  };
  return bridge;
}

/** The questions of a modern server to a handshake-era client. Each is a request through the pipeline. */
function createClientQuestions({ server, binding, onServerMessage }: ToModernOptions, bridge: () => Link) {
  const waiting = new Map<string, PendingQuestion>();
  let count = 0;

  async function askAll(call: UpstreamCall, bytes: Buffer, members: readonly JsonMember[]): Promise<string[]> {
    const { caller } = call;
    if (members.length === 0) return [];
    if (caller === undefined) throw new AmbitError('CLIENT_UNREACHABLE');
    if (caller.pushes.size + members.length > maxPushes) throw new AmbitError('OVERLOADED');
    const all = members.map((member) => JSON.parse(readRawValue(bytes, member)) as unknown);
    if (!all.every(isServerQuestion)) throw new AmbitError('CLIENT_UNREACHABLE');
    const names = new Set<string>();
    try {
      const asked = all.map((question) => {
        const name = `"ambit ${++count}"`;
        names.add(name);
        return askOne(call, caller, name, question);
      });
      const answers = await Promise.all(asked);
      return answers.map((text, at) => `${JSON.stringify(members[at]?.key)}:${text}`);
    } finally {
      for (const name of names) waiting.delete(name);
      for (const [id, { link, upstreamId }] of [...caller.pushes]) {
        if (link === bridge() && names.has(upstreamId)) caller.pushes.delete(id);
      }
    }
  }

  /** Asks through the pipeline of server messages. `name` is the id of the question towards the bridge. */
  function askOne(call: UpstreamCall, caller: Caller, name: string, question: ServerQuestion): Promise<string> {
    const { method, params = {} } = question;
    const text = `{"jsonrpc":"2.0","id":${name},"method":${JSON.stringify(method)},"params":${JSON.stringify(params)}}`;
    return new Promise<string>((resolve, reject) => {
      waiting.set(name, {
        answered(message) {
          if (message.result !== undefined) resolve(readRawValue(message.bytes, message.result));
          else
            reject(
              new AmbitError('UPSTREAM_FAILED', { what: 'The client could not answer the request of the server.' }),
            );
        },
        failed: reject,
      });
      const target = {
        channel: findClientChannel(call, caller),
        caller,
        binding: bindToSession(binding, caller.sessionId),
      };
      onServerMessage({
        upstream: server,
        link: bridge(),
        message: readMessage(Buffer.from(text)),
        target,
        pending: noCalls,
        callers: [],
        binding,
        call: undefined,
        respond: () => reject(new AmbitError('CLIENT_UNREACHABLE')),
      }).catch(reject);
    });
  }

  return {
    /** Asks all questions, or none when one cannot be asked. When one fails, the others are given up. */
    ask: askAll,
    answer(name: string, message: Message): void {
      const asked = waiting.get(name);
      waiting.delete(name);
      asked?.answered(message);
    },
    failAll(): void {
      for (const asked of waiting.values()) asked.failed(new AmbitError('CLIENT_UNREACHABLE'));
      waiting.clear();
    },
  };
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

function isServerQuestion(value: unknown): value is ServerQuestion {
  const { method, params = {} } = (value ?? {}) as { readonly method?: unknown; readonly params?: unknown };
  const isAsked = typeof method === 'string' && pushKinds.has(method);
  return isAsked && typeof params === 'object' && params !== null && !Array.isArray(params);
}

function findClientChannel(call: UpstreamCall, caller: Caller): Channel {
  if (!call.channel.isGone()) return call.channel;
  if (caller.stream !== undefined && !caller.stream.isGone()) return caller.stream;
  throw new AmbitError('CLIENT_UNREACHABLE');
}

/** Removes the request for a task: the server decides, and its task could not be fetched. */
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
  const discovered = await discoverAs(base, client);
  if (discovered.result === undefined) throw unsupportedHandshakeError(message);
  const requested = readStringValue(message.bytes, findMember(params, 'protocolVersion'));
  const result = toInitializeResult(readRawValue(discovered.bytes, discovered.result), requested);
  const link = bridgeToModern({ ...parts, ...client, server, base });
  const { protocolVersion } = JSON.parse(result) as { protocolVersion: string };
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
