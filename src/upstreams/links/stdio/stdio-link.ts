import { AmbitError, isAmbitError } from '../../../errors.ts';
import type { Channel, Era, FinalReply } from '../../../protocol/channel.ts';
import { composeError } from '../../../protocol/compose-message.ts';
import { replaceValue } from '../../../protocol/json/edit.ts';
import { findMember, readRawValue } from '../../../protocol/json/scan.ts';
import { toSingleLine, toSingleLineMessage } from '../../../protocol/lines/single-line.ts';
import type { Message } from '../../../protocol/message.ts';
import { sessionScopeKey } from '../../../sessions/narrowed-sessions.ts';
import type { StdioServer } from '../../definition.ts';
import type { Caller } from '../caller.ts';
import type { Opening } from '../handshake.ts';
import type { BaseLink, OnServerMessage, ServerMessage, UpstreamCall } from '../link.ts';
import type { LinkUsers } from '../link-pool.ts';
import { createPendingCall, createPendingCalls, failCall, type PendingCalls } from '../relay/pending-calls.ts';
import { type Binding, bindToSession, toUpstreamNotification, toUpstreamRequest } from '../relay/towards-upstream.ts';
import { explainEffect, silenceError } from '../upstream-errors.ts';
import { canAnswer, createEarlyPushes, createIncoming, type EarlyPushes } from './incoming.ts';
import { createLinkProcess, type LinkProcess, type SpareProcess } from './link-process.ts';
import { createCancelMessage, createOwnRequests } from './own-requests.ts';
import { type DroppedMessageCounter, droppedMessageCounter } from './record-output.ts';
import type { ProcessOptions, ServerProcess } from './server-process.ts';
import { createSharers, type ProcessSharers, sessionIdOf } from './sharers.ts';

interface StdioLinkOptions {
  readonly server: StdioServer;
  readonly era: Era;
  readonly processOptions: ProcessOptions;
  readonly binding: Binding;
  readonly users: LinkUsers;
  /** A process that the link of the other era has started; used instead of a new one. */
  readonly spare?: SpareProcess | undefined;
  /** The exchange with a fresh process before calls may reach it. */
  readonly opening: Opening;
  readonly onServerMessage: OnServerMessage;
  readonly limits: { readonly notificationsPerSecond: number; readonly pendingPerUpstream: number };
  readonly lifetimes: { readonly startMs: number; readonly idleMs: number; readonly maxMs: number };
}

/** The parts of one link that its functions share. */
interface LinkParts extends StdioLinkOptions {
  readonly pending: PendingCalls;
  readonly callers: Set<Caller>;
  readonly linkProcess: LinkProcess;
  readonly dropped: DroppedMessageCounter;
  readonly earlyPushes: EarlyPushes;
  /** Undefined where the process serves one session. */
  readonly sharers: ProcessSharers | undefined;
  readonly usage: {
    lastUsedAt: number;
    /** The number of calls that wait for the process to be ready. */
    waitingForStart: number;
  };
}

const stdinBacklogLimit = 32 << 20;
const newline = '\n';
const newlineBytes = Buffer.from(newline);

/** A link to the process of one server, which one session or several use. */
export function createStdioLink(options: StdioLinkOptions): BaseLink {
  const { server, era, processOptions, users, limits } = options;
  const { sessionId } = processOptions;
  const pending = createPendingCalls();
  const ownRequests = createOwnRequests(pending.nextId);
  const callers = new Set<Caller>();
  const dropped = droppedMessageCounter(processOptions.journal, { sessionId, server: server.name });
  const sharers = users.isShared ? createSharers(users, limits.pendingPerUpstream) : undefined;
  const usage = { lastUsedAt: Date.now(), waitingForStart: 0 };
  const forward = (message: Message) => forwardMessage(message);
  const earlyPushes = createEarlyPushes(forward);
  const incoming = createIncoming({
    server,
    era,
    pending,
    ownRequests,
    callers,
    dropped,
    earlyPushes,
    notificationsPerSecond: limits.notificationsPerSecond,
    onAnswer() {
      usage.lastUsedAt = Date.now();
      linkProcess.succeeded();
    },
    forward,
  });
  const linkProcess = createLinkProcess({
    ...options,
    ...incoming,
    pending,
    ownRequests,
    startMs: options.lifetimes.startMs,
    idleSince: () => (usage.waitingForStart + pending.size() === 0 ? usage.lastUsedAt : undefined),
    hasClients: () => callers.size > 0,
    onStart: () => sharers?.startOver(),
    onExit() {
      dropped.record();
      earlyPushes.clear();
      for (const caller of callers) {
        for (const [id, push] of caller.pushes) if (push.link === link) caller.pushes.delete(id);
      }
    },
  });
  const parts: LinkParts = { ...options, pending, callers, linkProcess, dropped, earlyPushes, sharers, usage };
  const link = createLinkMethods(parts);
  const forwardMessage = createForwarder(parts, link);
  return link;
}

function createLinkMethods(parts: LinkParts): BaseLink {
  const { server, era, binding, users, opening, pending, callers, linkProcess, dropped, earlyPushes, usage } = parts;
  const send = createSender(parts);

  function bindingOf(call: UpstreamCall): Binding {
    return parts.sharers === undefined ? binding : bindToSession(binding, sessionIdOf(call));
  }

  async function sendWhenReady(call: UpstreamCall): Promise<FinalReply> {
    usage.waitingForStart++;
    let started: ServerProcess;
    try {
      started = await linkProcess.ready(call.acting?.correlationId);
    } catch (error) {
      throw explainEffect(error as Error, call.message.method, false);
    } finally {
      usage.waitingForStart--;
    }
    return send(started, call);
  }

  const link: BaseLink = {
    sessionId: parts.processOptions.sessionId,
    scopeKey: users.isShared ? undefined : sessionScopeKey(users.latest),
    server: server.name,
    era,
    isBusy: () =>
      usage.waitingForStart > 0 || pending.findYoungest((call) => call.method !== 'subscriptions/listen') !== undefined,
    isClosed: () => linkProcess.closedFor() !== undefined,
    isReady: () => linkProcess.running() !== undefined,
    pending,
    ready: async (callId) => void (await linkProcess.ready(callId)),
    releaseProcess: linkProcess.release,
    adoptProcess: linkProcess.adopt,

    request(call) {
      const closed = linkProcess.closedFor();
      if (closed !== undefined) return Promise.reject(closed);
      const known = opening.answer(call.message);
      if (known !== undefined) return Promise.resolve(known);
      const running = linkProcess.running();
      return running === undefined ? sendWhenReady(call) : send(running, call);
    },

    notify(call) {
      if (linkProcess.running() === undefined || opening.isRedundant(call.message)) return;
      try {
        const message = toSingleLineMessage(call.message);
        writeOrDrop(parts, toUpstreamNotification(message, call.edits, bindingOf(call), newline));
      } catch (error) {
        if (!isAmbitError(error)) dropped.add('a notification about a foreign handle');
      }
    },

    answer(upstreamId, message, pipelineEdits, sessionId) {
      const id = findMember(message.shape, 'id');
      if (linkProcess.running() === undefined || id === undefined) return;
      const edits = [...pipelineEdits, replaceValue(id, upstreamId)];
      const owner = bindToSession(binding, sessionId);
      writeOrDrop(parts, toUpstreamNotification(toSingleLineMessage(message), edits, owner, newline));
    },

    cancel(from, requestId, message) {
      const call = pending.find(from, requestId);
      if (call === undefined || linkProcess.running() === undefined) return;
      const reason = findMember(message.params?.shape, 'reason');
      // A line break inside the reason would end the message and begin another, past every stage of the pipeline.
      const rawReason = reason && readRawValue(toSingleLine(message.bytes), reason);
      writeOrDrop(parts, createCancelMessage(call.upstreamId, undefined, rawReason));
      // A client that cancels expects no answer. One that still comes is dropped.
      pending.take(call.upstreamId);
      call.settle({ kind: 'accepted' });
    },

    callerCount: () => callers.size,
    attach: (caller) => void callers.add(caller),
    detach(caller) {
      callers.delete(caller);
      for (const [id, push] of caller.pushes) {
        if (push.link !== link) continue;
        caller.pushes.delete(id);
        writeOrDrop(parts, withNewline(composeError(push.upstreamId, -32603, 'The client has disconnected')));
      }
    },
    dropSession(sessionId, reason) {
      for (const call of pending.ofSession(sessionId)) {
        pending.take(call.upstreamId);
        writeOrDrop(parts, createCancelMessage(call.upstreamId, 'the session has ended'));
        failCall(call, reason);
      }
      for (const caller of callers) if (caller.sessionId === sessionId) link.detach(caller);
    },
    openStream() {},
    listen() {
      earlyPushes.releaseAll();
    },

    sweep(now) {
      dropped.record();
      const overdue = pending.findOverdue(now);
      for (const call of overdue) {
        pending.take(call.upstreamId);
        writeOrDrop(parts, createCancelMessage(call.upstreamId, 'timed out'));
        failCall(call, silenceError(server.name, call.timeoutMs));
      }
      const idle = linkProcess.findIdle();
      if (idle === undefined || pending.size() > 0) return;
      const { idleMs, maxMs } = parts.lifetimes;
      const hasNotStarted = overdue.some((call) => call.method === 'initialize');
      if (hasNotStarted || now - usage.lastUsedAt > idleMs || now - idle.startedAt > maxMs) linkProcess.stop();
    },

    close: linkProcess.close,
  };
  return link;
}

/** Creates the function that writes a call to the process and resolves with its answer. */
function createSender(parts: LinkParts): (to: ServerProcess, call: UpstreamCall) => Promise<FinalReply> {
  const { server, binding, limits, pending, callers, earlyPushes, sharers, usage } = parts;
  const { startMs } = parts.lifetimes;

  function cancelAbandoned(upstreamId: number): void {
    const call = pending.take(upstreamId);
    if (call === undefined) return;
    writeOrDrop(parts, createCancelMessage(upstreamId, 'the caller has disconnected'));
    call.settle({ kind: 'accepted' });
  }

  return function send(to, call) {
    return new Promise<FinalReply>((settle, fail) => {
      if (pending.size() >= limits.pendingPerUpstream || to.backlog() > stdinBacklogLimit) {
        throw new AmbitError('OVERLOADED');
      }
      const owner = sharers === undefined ? binding : bindToSession(binding, sharers.assertAdmitted(call, pending));
      const upstreamId = pending.nextId();
      const message = toSingleLineMessage(call.message);
      const outgoing = toUpstreamRequest(message, call.edits, upstreamId, owner, call.acting, newline, to.contextKey);
      const { name } = outgoing;
      // The handshake of a client is part of the start.
      const timeoutMs = message.method === 'initialize' ? Math.min(server.timeoutMs, startMs) : server.timeoutMs;
      const waiting = createPendingCall(call, message, name, upstreamId, owner, timeoutMs, settle, fail);
      waiting.hasUnknownTask = outgoing.hasUnknownTask;
      pending.add(waiting);
      if (!earlyPushes.isEmpty() && canAnswer(callers, pending)) earlyPushes.releaseAll();
      usage.lastUsedAt = waiting.lastHeardAt;
      if (call.acting?.entry !== undefined) call.acting.entry.pid = to.pid;
      to.write(outgoing.bytes);
      waiting.isSent = true;
      // In the modern era a closed response stream is the cancellation; before, a client sends one. The caller may have
      // left while the process started, so the call must be pending before it can be cancelled.
      if (call.cancelOnGone) call.channel.onGone(() => cancelAbandoned(upstreamId));
    });
  };
}

/** Creates the function that passes a request or notification of the server on. */
function createForwarder(parts: LinkParts, link: BaseLink): (message: Message) => void {
  const { server, era, binding, onServerMessage, pending, callers, sharers, dropped } = parts;
  /** Handles a caller that does not read fast enough: a shared process must not wait for one session. */
  const onFullChannel: (full: Channel) => void = sharers?.skipChannel ?? createPauser(parts.linkProcess.running);

  return function forward(message) {
    const respond = (bytes: Buffer) => writeOrDrop(parts, withNewline(bytes));
    if (era === 'modern' && message.kind === 'request') {
      respond(composeError(message.id as string, -32601, 'Servers cannot send requests in this protocol version'));
      return;
    }
    const sent: ServerMessage = {
      upstream: server,
      link,
      message,
      pending,
      callers: [...callers],
      binding,
      call: undefined,
      respond,
      soleSessionId: sharers?.soleSessionId(),
      fullChannels: sharers?.fullChannels,
    };
    onServerMessage(sent).then(
      ({ full }) => {
        if (full !== undefined && !full.isGone()) onFullChannel(full);
      },
      () => dropped.add('could not be passed on'),
    );
  };
}

/** Creates a function that pauses the process until a full channel has room again. */
function createPauser(running: () => { pause(): void; resume(): void } | undefined): (full: Channel) => void {
  let blockedBy: Channel | undefined;
  function resume(): void {
    blockedBy = undefined;
    running()?.resume();
  }
  return function pauseFor(full) {
    if (full === blockedBy) return;
    blockedBy = full;
    running()?.pause();
    full.onDrain(resume);
    full.onGone(resume);
  };
}

/** Writes a message that nobody waits for. A process that does not read must not fill the memory. */
function writeOrDrop({ linkProcess, dropped }: LinkParts, bytes: Buffer): void {
  const running = linkProcess.running();
  if ((running?.backlog() ?? 0) > stdinBacklogLimit) dropped.add('it does not read its input');
  else running?.write(bytes);
}

function withNewline(bytes: Buffer): Buffer {
  return Buffer.concat([bytes, newlineBytes]);
}
