import { AmbitError, isAmbitError } from '../../../errors.ts';
import type { Era, Reply } from '../../../protocol/channel.ts';
import { errorMessage } from '../../../protocol/compose.ts';
import { isUnreadable, readServerMessage } from '../../../protocol/envelope-keys.ts';
import { replaceValue } from '../../../protocol/json/edit.ts';
import { memberOf, rawAt } from '../../../protocol/json/scan.ts';
import { oneLine, onOneLine } from '../../../protocol/lines/one-line.ts';
import { type Message, MessageFault } from '../../../protocol/message.ts';
import type { Exit } from '../../../sandbox/runner.ts';
import { placeOf } from '../../../sessions/session-views.ts';
import type { StdioServer } from '../../definition.ts';
import type { Caller } from '../caller.ts';
import type { Tenancy } from '../kept-links.ts';
import type { BaseLink, Call } from '../link.ts';
import { createAsks } from '../relay/asks.ts';
import { createPendingCalls, type PendingCall } from '../relay/pending.ts';
import { createRateLimit } from '../relay/rate-limit.ts';
import { statusOfError } from '../relay/status-of-error.ts';
import { responseTowardsClient } from '../relay/towards-client.ts';
import { type Binding, boundTo, notificationTowardsUpstream, towardsUpstream } from '../relay/towards-upstream.ts';
import type { Outward } from '../sent.ts';
import { settleCall } from '../settle-call.ts';
import { tooDense } from '../too-dense.ts';
import { createBackoff } from './backoff.ts';
import { canAnswer } from './can-answer.ts';
import { cancelled } from './cancelled.ts';
import { bridgedEarlyMs, createEarlyPushes, earlyMs } from './early-pushes.ts';
import { createHoldBack } from './hold-back.ts';
import { howEnded, wasSilent, wasUnreadable } from './how-it-failed.ts';
import { createNoise } from './noise.ts';
import type { Opening } from './opening.ts';
import { tellingFailure } from './process-watch.ts';
import { type ProcessPlace, type ServerProcess, startServer } from './server-process.ts';
import { createSharers, sessionOf } from './sharers.ts';
import { idOfTooLong, isNoAnswer } from './too-long.ts';

export interface StdioLinkOptions {
  readonly server: StdioServer;
  readonly era: Era;
  readonly place: ProcessPlace;
  readonly binding: Binding;
  readonly tenancy: Tenancy;
  /** What has to be said to a fresh process before calls may reach it. */
  readonly opening: Opening;
  readonly outward: Outward;
  readonly limits: { readonly notificationsPerSecond: number; readonly pendingPerUpstream: number };
  readonly lifetimes: { readonly startMs: number; readonly idleMs: number; readonly maxMs: number };
}

const stdinBacklogLimit = 32 << 20;
const newline = '\n';

/** The process of one server, a session's own or shared: started on first need, once, however many calls wait. */
export function createStdioLink(options: StdioLinkOptions): BaseLink {
  const { server, era, place, binding, tenancy, opening, limits, lifetimes } = options;
  const sharers = tenancy.wide ? createSharers(tenancy, limits.pendingPerUpstream) : undefined;
  const pending = createPendingCalls();
  const asks = createAsks(pending.nextId);
  const callers = new Set<Caller>();
  const backoff = createBackoff();
  const rate = createRateLimit(limits.notificationsPerSecond);
  const noise = createNoise(place.journal, { sessionId: place.sessionId, server: server.name });
  const early = createEarlyPushes((message) => say(message));
  /** What is done about a caller that does not read fast enough. */
  const slow = sharers?.passOver ?? createHoldBack(() => running);
  let current: ServerProcess | undefined;
  let running: ServerProcess | undefined;
  let starting: Promise<ServerProcess> | undefined;
  let leaving: Promise<void> | undefined;
  let closing: AmbitError | undefined;
  /** The process before ended by itself: the next is started in its place. */
  let lost = false;
  let lastUsedAt = Date.now();
  /** Calls that wait for the process to be ready. */
  let arriving = 0;

  function ready(): Promise<ServerProcess> {
    if (running !== undefined) return Promise.resolve(running);
    starting ??= tellingFailure(start(), place.watch).finally(() => {
      starting = undefined;
    });
    return starting;
  }

  async function sendWhenReady(call: Call): Promise<Reply> {
    arriving++;
    const started = await ready().finally(() => {
      arriving--;
    });
    return send(started, call);
  }

  async function start(): Promise<ServerProcess> {
    opening.check();
    await leaving;
    await backoff.wait();
    if (closing !== undefined) throw closing;
    let fresh: ServerProcess | undefined;
    sharers?.startOver();
    const began = performance.now();
    fresh = await startServer(server, place, {
      onLine: hear,
      onTooLong: tooLong,
      onSilence: () => fellSilent(fresh),
      onExit: (exit) => exited(fresh, exit),
      endable: {
        idleSince: () =>
          fresh !== undefined && fresh === running && arriving + pending.size() === 0 ? lastUsedAt : undefined,
        isAwaited: () => callers.size > 0,
        end: rest,
      },
    });
    current = fresh;
    if (closing !== undefined) {
      await fresh.end();
      throw closing;
    }
    try {
      const write = (bytes: Buffer) => fresh?.write(bytes);
      const ask = (method: string, params: string) =>
        asks.ask(method, binding.teller.introduce(method, params).params, write, lifetimes.startMs);
      await opening.perform(ask, write);
      place.mayServe?.();
    } catch (error) {
      await fresh.end();
      throw error;
    }
    running = fresh;
    place.watch.ready(fresh.pid, performance.now() - began, lost);
    lost = false;
    return fresh;
  }

  /** The process ends; the next call starts another. */
  function rest(): void {
    const idle = running;
    running = undefined;
    current = undefined;
    void idle?.end();
  }

  function send(to: ServerProcess, call: Call): Promise<Reply> {
    return new Promise<Reply>((settle, fail) => {
      if (pending.size() >= limits.pendingPerUpstream || to.backlog() > stdinBacklogLimit) {
        throw new AmbitError('OVERLOADED');
      }
      const owner = sharers === undefined ? binding : boundTo(binding, sharers.admit(call, pending));
      const upstreamId = pending.nextId();
      const message = onOneLine(call.message);
      const outgoing = towardsUpstream(message, call.edits, upstreamId, owner, call.acting, newline);
      const listening = message.method === 'subscriptions/listen';
      const now = Date.now();
      pending.add({
        upstreamId,
        clientId: message.id as string,
        method: message.method,
        name: outgoing.name,
        progressToken: outgoing.progressToken,
        wantsLogs: memberOf(message.meta, 'io.modelcontextprotocol/logLevel') !== undefined,
        channel: call.channel,
        caller: call.caller,
        binding: owner,
        namesAsker: call.namesAsker ?? false,
        settle,
        fail,
        timeoutMs: listening ? Number.POSITIVE_INFINITY : server.timeoutMs,
        lastHeardAt: now,
        lost: false,
      });
      if (early.any() && canAnswer(callers, pending)) early.releaseAll();
      lastUsedAt = now;
      if (call.acting?.entry !== undefined) call.acting.entry.pid = to.pid;
      to.write(outgoing.bytes);
      // In the modern era a closed response stream is the cancellation; before, a client says so. The caller may
      // have left while the process started: the call must stand before its cancellation.
      if (call.cancelOnGone) call.channel.onGone(() => abandon(upstreamId));
    });
  }

  function bindingOf(call: Call): Binding {
    return sharers === undefined ? binding : boundTo(binding, sessionOf(call));
  }

  /** For what nobody waits for: a process that does not read must not make us keep it all. */
  function tell(bytes: Buffer): void {
    if ((running?.backlog() ?? 0) > stdinBacklogLimit) noise.note('it does not read what it is told');
    else running?.write(bytes);
  }

  /** Whoever waits for what cannot be read need not wait for the time limit. */
  function unreadable(line: Buffer): void {
    const head = line.subarray(0, 1024);
    const id = isNoAnswer(head) ? undefined : idOfTooLong(head, line.subarray(-1024));
    if (id !== undefined) pending.take(id)?.fail(wasUnreadable(server.name));
  }

  function abandon(upstreamId: number): void {
    const call = pending.take(upstreamId);
    if (call === undefined) return;
    tell(cancelled(upstreamId, 'the caller is gone'));
    call.settle({ kind: 'accepted' });
  }

  function hear(line: Buffer): boolean {
    try {
      receive(readServerMessage(line));
      return true;
    } catch (fault) {
      if (fault instanceof MessageFault && fault.tooDense) {
        tooLong(line.subarray(0, 1024), line.subarray(-1024), tooDense(server.name, fault));
      } else if (pending.size() > 0 && isUnreadable(fault)) unreadable(line);
      noise.note('not a message');
      return false;
    }
  }

  function receive(message: Message): void {
    if (message.kind === 'response') answered(message);
    else if (!rate.admit()) noise.note('too many notifications');
    else if (era === 'modern' || canAnswer(callers, pending)) say(message);
    else if (!early.take(message, callers.size > 0 ? earlyMs : bridgedEarlyMs)) say(message);
  }

  function answered(message: Message): void {
    const id = Number(message.id);
    if (asks.answered(id, message)) return;
    const call = pending.take(id);
    if (call === undefined) {
      noise.note('an answer nobody waits for');
      return;
    }
    lastUsedAt = Date.now();
    backoff.succeeded();
    settleWith(call, message);
  }

  function settleWith(call: PendingCall, message: Message): void {
    settleCall(server, call, message, () => ({
      kind: 'message',
      bytes: responseTowardsClient(message, call, call.binding),
      status: era === 'modern' ? statusOfError(message) : 200,
    }));
  }

  function say(message: Message): void {
    const respond = (bytes: Buffer) => tell(Buffer.concat([bytes, Buffer.from(newline)]));
    if (era === 'modern' && message.kind === 'request') {
      respond(errorMessage(message.id as string, -32601, 'Servers cannot send requests in this protocol version'));
      return;
    }
    const sent = {
      upstream: server,
      link,
      message,
      pending,
      callers: [...callers],
      binding,
      call: undefined,
      respond,
      sole: sharers?.sole(),
      clogged: sharers?.clogged,
    };
    options.outward(sent).then(
      ({ full }) => {
        if (full !== undefined && !full.isGone()) slow(full);
      },
      () => noise.note('could not be passed on'),
    );
  }

  function tooLong(head: Buffer, tail: Buffer, error = new AmbitError('UPSTREAM_TOO_LARGE')): void {
    if (isNoAnswer(head)) {
      noise.note('longer than the limit');
      return;
    }
    const id = idOfTooLong(head, tail);
    asks.fail(error, id);
    if (id !== undefined) pending.take(id)?.fail(error);
    else for (const each of pending.drain()) each.fail(error);
  }

  /** Its output has ended: it may live on, but it can answer nothing any more. */
  function fellSilent(process: ServerProcess | undefined): void {
    if (process === undefined || process !== current) return;
    running = undefined;
    leaving = process.end().finally(() => {
      leaving = undefined;
    });
  }

  function exited(process: ServerProcess | undefined, exit: Exit): void {
    if (process !== current) return;
    current = undefined;
    running = undefined;
    if (closing === undefined) {
      lost = true;
      place.watch.lost(process?.pid, exit);
    }
    noise.record();
    early.drop();
    for (const caller of callers) {
      for (const [id, push] of caller.pushes) if (push.link === link) caller.pushes.delete(id);
    }
    const failure =
      closing ?? new AmbitError('UPSTREAM_FAILED', { what: `The server "${server.name}" ${howEnded(exit)}.` });
    asks.fail(failure);
    const waiting = pending.drain();
    if (waiting.length > 0 || process === undefined || Date.now() - process.startedAt < 10_000) backoff.failed();
    for (const call of waiting) call.fail(failure);
  }

  const link: BaseLink = {
    sessionId: place.sessionId,
    place: tenancy.wide ? undefined : placeOf(tenancy.latest),
    server: server.name,
    era,
    isBusy: () => arriving > 0 || pending.youngest((call) => call.method !== 'subscriptions/listen') !== undefined,
    isClosed: () => closing !== undefined,
    pending,
    ready: async () => void (await ready()),

    request(call) {
      if (closing !== undefined) return Promise.reject(closing);
      const known = opening.answer(call.message);
      if (known !== undefined) return Promise.resolve(known);
      return running === undefined ? sendWhenReady(call) : send(running, call);
    },

    notify(call) {
      if (running === undefined || opening.swallows(call.message)) return;
      try {
        tell(notificationTowardsUpstream(onOneLine(call.message), call.edits, bindingOf(call), newline));
      } catch (error) {
        if (!isAmbitError(error)) noise.note('a notification about a foreign handle');
      }
    },

    answer(upstreamId, message, pipelineEdits, sessionId) {
      const id = memberOf(message.shape, 'id');
      if (running === undefined || id === undefined) return;
      const edits = [...pipelineEdits, replaceValue(id, upstreamId)];
      tell(notificationTowardsUpstream(onOneLine(message), edits, boundTo(binding, sessionId), newline));
    },

    cancel(from, requestId, message) {
      const call = pending.find(from, requestId);
      if (call === undefined || running === undefined) return;
      const reason = memberOf(message.params?.shape, 'reason');
      // A line break inside the reason would end the message and begin another, past every stage of the pipeline.
      tell(cancelled(call.upstreamId, undefined, reason && rawAt(oneLine(message.bytes), reason)));
      // Whoever cancels expects no answer; one that comes all the same is dropped.
      pending.take(call.upstreamId);
      call.settle({ kind: 'accepted' });
    },

    attached: () => callers.size,
    attach: (caller) => void callers.add(caller),
    detach(caller) {
      callers.delete(caller);
      for (const [id, push] of caller.pushes) {
        if (push.link !== link) continue;
        caller.pushes.delete(id);
        tell(Buffer.concat([errorMessage(push.upstreamId, -32603, 'The client is gone'), Buffer.from(newline)]));
      }
    },
    leave(sessionId, reason) {
      for (const call of pending.ofSession(sessionId)) {
        pending.take(call.upstreamId);
        tell(cancelled(call.upstreamId, 'the session has ended'));
        call.fail(reason);
      }
      for (const caller of callers) if (caller.sessionId === sessionId) link.detach(caller);
    },
    openStream() {},
    listen() {
      early.releaseAll();
    },

    tend(now) {
      noise.record();
      for (const call of pending.overdue(now)) {
        pending.take(call.upstreamId);
        tell(cancelled(call.upstreamId, 'timed out'));
        call.fail(wasSilent(server.name, call.timeoutMs));
      }
      if (running === undefined || pending.size() > 0) return;
      if (now - lastUsedAt > lifetimes.idleMs || now - running.startedAt > lifetimes.maxMs) rest();
    },

    async close(reason) {
      closing ??= reason;
      for (const call of pending.drain()) call.fail(closing);
      asks.fail(closing);
      const process = running ?? (await starting?.catch(() => undefined));
      running = undefined;
      await Promise.all([process?.end(), leaving]);
    },
  };
  return link;
}
