import { randomBytes } from 'node:crypto';
import { AmbitError } from '../../../errors.ts';
import type { FinalReply } from '../../../protocol/channel.ts';
import { composeError, composeResult } from '../../../protocol/compose-message.ts';
import { findMember, readRawValue, readShape, readStringValue } from '../../../protocol/json/scan.ts';
import { applyMessageEdits, type Message, readMessage } from '../../../protocol/message.ts';
import { stripReservedMeta } from '../../../protocol/reserved-meta.ts';
import { maxPushes } from '../caller.ts';
import { closedChannel, type ServerMessage, type UpstreamCall } from '../link.ts';
import { type PendingCall, type PendingCalls, questionCarriers } from '../relay/pending-calls.ts';
import { prefixAsker } from '../relay/questions.ts';
import {
  type Binding,
  bindToSession,
  readProgressToken,
  readTargetName,
  stateBindings,
} from '../relay/towards-upstream.ts';
import { sessionIdOf } from '../stdio/sharers.ts';
import { explainEffect } from '../upstream-errors.ts';
import { replaceId } from './era-translation.ts';

/** One question of the upstream, with the function that sends it the answer. */
interface HeldQuestion {
  readonly key: string;
  readonly method: string;
  readonly params: string | undefined;
  readonly upstreamId: string;
  respond(message: Buffer): void;
}

/** A call of a client that is away. Its timeout counts again once the client is back. */
interface HeldCall extends Pick<PendingCall, 'binding' | 'upstreamId' | 'method' | 'name' | 'timeoutMs'> {
  questions: HeldQuestion[];
  readonly until: number;
  /** The upstream's answer, when it came before the client returned. */
  finished: FinalReply | Error | undefined;
}

const prefix = 'held:';
const maxHeld = 32;
/** The length of all questions that wait for clients. A single one may be as long as a message. */
const maxCharacters = 16 * 1024 * 1024;
const holdMs = 10 * 60 * 1000;
/** The time in which further questions are gathered: servers push several right after one another. */
const gatherMs = 20;

/**
 * Bridges a server that pushes its questions and a client that gets them in an answer. The server's call stays open, the
 * client gets `input_required` with a state of Ambit's own, and its retry answers the question.
 */
export function createHeldCalls(binding: Binding) {
  const held = new Map<number, HeldCall>();
  /** The prefix of this bridge's states: several bridges may serve one session. */
  const own = `${prefix}${randomBytes(6).toString('hex')}:`;
  let count = 0;

  function openState(call: UpstreamCall): string | undefined {
    const { message } = call;
    const state = readStringValue(message.bytes, findMember(message.params?.shape, 'requestState'));
    if (state === undefined) return undefined;
    const owner = binding.sessionId === '' ? bindToSession(binding, sessionIdOf(call)) : binding;
    const bindings = stateBindings(owner, message.method, readTargetName(message));
    return binding.seals.open(state, bindings, Date.now());
  }

  function parseHeldId(value: string): number | undefined {
    return value.startsWith(own) ? Number(value.slice(own.length)) : undefined;
  }

  function stateOf(id: number, call: HeldCall): string {
    return binding.seals.seal(`${own}${id}`, stateBindings(call.binding, call.method, call.name), call.until);
  }

  function detachCaller(id: number, carrier: PendingCall, pending: PendingCalls): void {
    const finish = (outcome: FinalReply | Error) => {
      const call = held.get(id);
      if (call !== undefined) call.finished = outcome;
    };
    const away = { channel: closedChannel, progressToken: undefined, timeoutMs: holdMs };
    pending.replace(carrier.upstreamId, { ...away, settle: finish, fail: finish });
  }

  /**
   * Answers the caller with the questions. The answer of the call may have come meanwhile, but the server still waits for
   * the client's: some servers ask for roots at their start, and serve nobody before they have them.
   */
  function releaseCaller(id: number, call: HeldCall, { settle, fail, clientId }: PendingCall): void {
    if (call.finished instanceof Error) {
      held.delete(id);
      fail(call.finished);
    } else settle(createInputRequired(stateOf(id, call), call, clientId));
  }

  return {
    /** Answers the caller with the question and keeps the upstream's call open. False when there is no caller to ask. */
    hold({ message: asked, pending, respond, call: known }: ServerMessage): boolean {
      // The question becomes part of a result of Ambit's own, which no stage edits again.
      const message = applyMessageEdits(asked, stripReservedMeta(asked, binding.keys?.()));
      // Over HTTP a question comes with the answer of its call. Over stdio the youngest call is the best guess.
      const fits = (id: number) => known === undefined || known.upstreamId === id;
      const waiting = [...held.values()].findLast((call) => call.finished === undefined && fits(call.upstreamId));
      const carrier = pending.findYoungest(
        (call) => questionCarriers.has(call.method) && !call.channel.isGone() && fits(call.upstreamId),
      );
      const question: HeldQuestion = {
        key: `ask-${++count}`,
        method: message.method,
        params: questionParams(binding.server, message, carrier?.namesAsker === true),
        upstreamId: message.id as string,
        respond,
      };
      if (carrier === undefined) {
        // The client is away to answer the last question. This one waits for its return.
        if (waiting === undefined) return false;
        assertRoom(held, waiting.questions, question);
        waiting.questions.push(question);
        return true;
      }
      assertRoom(held, [], question);
      if (held.size >= maxHeld) throw new AmbitError('OVERLOADED');
      const { binding: owner, upstreamId, method, name, timeoutMs } = carrier;
      const origin = { binding: owner, upstreamId, method, name, timeoutMs };
      const call: HeldCall = { ...origin, questions: [question], until: Date.now() + holdMs, finished: undefined };
      const id = count;
      held.set(id, call);
      detachCaller(id, carrier, pending);
      setTimeout(() => releaseCaller(id, call, carrier), gatherMs);
      return true;
    },

    /** Undefined when this is not the retry of a held call. */
    resume(call: UpstreamCall, pending: PendingCalls): Promise<FinalReply> | undefined {
      const { message } = call;
      const params = message.params?.shape;
      const value = openState(call);
      if (value === undefined || !value.startsWith(prefix)) return undefined;
      const id = parseHeldId(value);
      const found = id === undefined ? undefined : held.get(id);
      if (found === undefined || id === undefined)
        throw explainEffect(
          new AmbitError('UPSTREAM_FAILED', { what: 'The request is no longer open.' }),
          message.method,
          true,
        );
      const clientId = message.id as string;
      const answers = findMember(params, 'inputResponses');
      const given = answers === undefined ? undefined : readShape(message.bytes, answers);
      found.questions = found.questions.filter((question) => {
        const answer = findMember(given, question.key);
        if (answer === undefined) return true;
        question.respond(composeResult(question.upstreamId, readRawValue(message.bytes, answer)));
        return false;
      });
      if (found.questions.length > 0) return Promise.resolve(createInputRequired(stateOf(id, found), found, clientId));
      held.delete(id);
      if (found.finished !== undefined) return Promise.resolve(deliverOutcome(found.finished, clientId));
      return new Promise<FinalReply>((settle, fail) => {
        const { upstreamId, timeoutMs } = found;
        const progressToken = readProgressToken(message);
        pending.replace(upstreamId, { clientId, channel: call.channel, progressToken, settle, fail, timeoutMs });
      });
    },

    /** True when this call is the retry of a held one; without a call, when any call is held. */
    holds(call?: UpstreamCall): boolean {
      if (call === undefined) return held.size > 0;
      const value = openState(call);
      return value !== undefined && held.has(parseHeldId(value) ?? 0);
    },

    /** Drops the calls of a session that has ended; the upstream gets an error for its questions. */
    dropSession(sessionId: string): void {
      for (const [id, call] of held) {
        if (call.binding.sessionId !== sessionId) continue;
        held.delete(id);
        rejectQuestions(call, 'The client has disconnected');
      }
    },

    sweep(now: number, pending: PendingCalls): void {
      for (const [id, call] of held) {
        if (now < call.until) continue;
        held.delete(id);
        pending.take(call.upstreamId);
        rejectQuestions(call, 'Nobody answered in time');
      }
    },
  };
}

/** Bounds the questions: a server may ask on and on while the client is away. */
function assertRoom(
  held: ReadonlyMap<number, HeldCall>,
  questions: readonly HeldQuestion[],
  { params: added = '' }: HeldQuestion,
): void {
  const others = [...held.values()].flatMap((call) => call.questions);
  const characters = others.reduce((sum, { params = '' }) => sum + params.length, 0);
  const isTooLong = characters > 0 && characters + added.length > maxCharacters;
  if (questions.length >= maxPushes || isTooLong) throw new AmbitError('OVERLOADED');
}

function createInputRequired(requestState: string, { questions }: HeldCall, clientId: string): FinalReply {
  const inputRequests = Object.fromEntries(
    questions.map(({ key, method, params }) => [
      key,
      params === undefined ? { method } : { method, params: JSON.parse(params) as unknown },
    ]),
  );
  const result = { resultType: 'input_required', inputRequests, requestState };
  return { kind: 'message', bytes: composeResult(clientId, JSON.stringify(result)), status: 200 };
}

function questionParams(server: string, { bytes, method, params }: Message, namesAsker: boolean): string | undefined {
  if (params === undefined) return undefined;
  return namesAsker ? prefixAsker(server, method, readRawValue(bytes, params)) : readRawValue(bytes, params);
}

function rejectQuestions({ questions }: HeldCall, why: string): void {
  for (const { respond, upstreamId } of questions) respond(composeError(upstreamId, -32603, why));
}

function deliverOutcome(outcome: FinalReply | Error, clientId: string): FinalReply {
  if (outcome instanceof Error) throw outcome;
  if (outcome.kind !== 'message') return outcome;
  return { ...outcome, bytes: replaceId(readMessage(outcome.bytes), clientId) };
}
