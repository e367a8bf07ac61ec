import { randomBytes } from 'node:crypto';
import { AmbitError } from '../../../errors.ts';
import type { Channel, Reply } from '../../../protocol/channel.ts';
import { errorMessage, resultMessage } from '../../../protocol/compose.ts';
import { memberOf, rawAt, shapeAt, stringAt } from '../../../protocol/json/scan.ts';
import { edited, type Message, readMessage } from '../../../protocol/message.ts';
import { stripOurKeys } from '../../../protocol/our-keys.ts';
import { mostPushes } from '../caller.ts';
import type { Call, Sent } from '../link.ts';
import { type PendingCall, type PendingCalls, questionCarriers } from '../relay/pending-calls.ts';
import { nameAsker } from '../relay/questions.ts';
import { type Binding, boundTo, readTargetName, stateBindings } from '../relay/towards-upstream.ts';
import { sessionIdOf } from '../stdio/sharers.ts';
import { replaceId } from './era-translation.ts';

/** One question of the upstream's, and how to tell it the answer. */
interface HeldQuestion {
  readonly key: string;
  readonly method: string;
  readonly params: string | undefined;
  readonly upstreamId: string;
  respond(message: Buffer): void;
}

interface HeldCall {
  /** Whose it is. */
  readonly binding: Binding;
  readonly upstreamId: number;
  readonly method: string;
  readonly name: string;
  /** How long the upstream may stay silent once the client is back. */
  readonly timeoutMs: number;
  questions: HeldQuestion[];
  readonly until: number;
  /** The upstream's answer, when it came before the client did. */
  finished: Reply | Error | undefined;
}

export interface HeldCalls {
  /** Lets the caller go with the question, and keeps the upstream's call open. False when there is no caller to ask. */
  hold(sent: Sent): boolean;
  /** Undefined when this is not the retry of a held call. */
  resume(call: Call, pending: PendingCalls): Promise<Reply> | undefined;
  sweep(now: number, pending: PendingCalls): void;
  /** Whether this call is the retry of a held one; without a call, whether there is any. */
  holds(call?: Call): boolean;
  /** A session has left: its questions need no answer. */
  dropSession(sessionId: string): void;
}

const prefix = 'held:';
const maxHeld = 32;
/** Questions that wait for clients, in characters; a single one may be as long as a message. */
const maxCharacters = 16 * 1024 * 1024;
const holdMs = 10 * 60 * 1000;
/** Servers that have several questions push them one right after the other; the client gets them together. */
const gatherMs = 20;
const nobody: Channel = {
  owner: {},
  isGone: () => true,
  emit: () => true,
  onDrain() {},
  onGone() {},
  close() {},
};

/**
 * The bridge between a server that asks by pushing and a client that is asked by an answer: the server's call stays
 * open, the client gets `input_required` with a state of ours, and its retry answers the question.
 */
export function createHeldCalls(binding: Binding): HeldCalls {
  const held = new Map<number, HeldCall>();
  /** Several of these may serve one session; a state says whose it is. */
  const own = `${prefix}${randomBytes(6).toString('hex')}:`;
  let count = 0;

  function openState(call: Call): string | undefined {
    const { message } = call;
    const state = stringAt(message.bytes, memberOf(message.params?.shape, 'requestState'));
    if (state === undefined) return undefined;
    const bindings = stateBindings(bindingOf(call), message.method, readTargetName(message));
    return binding.seals.open(state, bindings, Date.now());
  }

  function bindingOf(call: Call): Binding {
    return binding.sessionId === '' ? boundTo(binding, sessionIdOf(call)) : binding;
  }

  function parseHeldId(value: string): number | undefined {
    return value.startsWith(own) ? Number(value.slice(own.length)) : undefined;
  }

  /** A server may ask on and on while the client is away. */
  function assertRoom(questions: readonly HeldQuestion[], question: HeldQuestion): void {
    const others = [...held.values()].flatMap((call) => call.questions);
    const characters = others.reduce((sum, { params = '' }) => sum + params.length, 0);
    const isTooLong = characters > 0 && characters + (question.params?.length ?? 0) > maxCharacters;
    if (questions.length >= mostPushes || isTooLong) throw new AmbitError('OVERLOADED');
  }

  function createInputRequired(id: number, call: HeldCall, clientId: string): Reply {
    const inputRequests = Object.fromEntries(
      call.questions.map(({ key, method, params }) => [
        key,
        params === undefined ? { method } : { method, params: JSON.parse(params) as unknown },
      ]),
    );
    const requestState = binding.seals.seal(
      `${own}${id}`,
      stateBindings(call.binding, call.method, call.name),
      call.until,
    );
    const result = { resultType: 'input_required', inputRequests, requestState };
    return { kind: 'message', bytes: resultMessage(clientId, JSON.stringify(result)), status: 200 };
  }

  function detachCaller(id: number, carrier: PendingCall, pending: PendingCalls): void {
    const finish = (outcome: Reply | Error) => {
      const call = held.get(id);
      if (call !== undefined) call.finished = outcome;
    };
    pending.replace(carrier.upstreamId, {
      channel: nobody,
      progressToken: undefined,
      settle: finish,
      fail: finish,
      timeoutMs: holdMs,
    });
  }

  /**
   * The caller leaves with the questions. The answer may have come meanwhile, but who asked still waits to be told: some
   * servers ask for roots at their start, and serve nobody before they have them.
   */
  function releaseCaller(id: number, call: HeldCall, { settle, fail, clientId }: PendingCall): void {
    if (call.finished instanceof Error) {
      held.delete(id);
      fail(call.finished);
    } else settle(createInputRequired(id, call, clientId));
  }

  return {
    hold({ message: asked, pending, respond, call: known }) {
      // It travels inside a result of ours, which nobody looks through again.
      const message = edited(asked, stripOurKeys(asked, binding.keys?.()));
      // Over HTTP a question comes on the answer of the call it belongs to; over stdio the youngest call is the guess.
      const fits = (id: number) => known === undefined || known.upstreamId === id;
      const waiting = [...held.values()].findLast((call) => call.finished === undefined && fits(call.upstreamId));
      const carrier = pending.youngest(
        (call) => questionCarriers.has(call.method) && !call.channel.isGone() && fits(call.upstreamId),
      );
      const question: HeldQuestion = {
        key: `ask-${++count}`,
        method: message.method,
        params:
          message.params === undefined
            ? undefined
            : carrier?.namesAsker
              ? nameAsker(binding.server, message.method, rawAt(message.bytes, message.params))
              : rawAt(message.bytes, message.params),
        upstreamId: message.id as string,
        respond,
      };
      if (carrier === undefined) {
        // The client is away answering the last question: this one waits for its return.
        if (waiting === undefined) return false;
        assertRoom(waiting.questions, question);
        waiting.questions.push(question);
        return true;
      }
      assertRoom([], question);
      if (held.size >= maxHeld) throw new AmbitError('OVERLOADED');
      const call: HeldCall = {
        binding: carrier.binding,
        upstreamId: carrier.upstreamId,
        method: carrier.method,
        name: carrier.name,
        timeoutMs: carrier.timeoutMs,
        questions: [question],
        until: Date.now() + holdMs,
        finished: undefined,
      };
      const id = count;
      held.set(id, call);
      detachCaller(id, carrier, pending);
      setTimeout(() => releaseCaller(id, call, carrier), gatherMs);
      return true;
    },

    resume(call, pending) {
      const { message } = call;
      const params = message.params?.shape;
      const value = openState(call);
      if (value === undefined || !value.startsWith(prefix)) return undefined;
      const id = parseHeldId(value);
      const kept = id === undefined ? undefined : held.get(id);
      if (kept === undefined || id === undefined)
        throw new AmbitError('UPSTREAM_FAILED', { what: 'The question is no longer open.' });
      const clientId = message.id as string;
      const answers = memberOf(params, 'inputResponses');
      const given = answers === undefined ? undefined : shapeAt(message.bytes, answers);
      kept.questions = kept.questions.filter((question) => {
        const answer = memberOf(given, question.key);
        if (answer === undefined) return true;
        question.respond(resultMessage(question.upstreamId, rawAt(message.bytes, answer)));
        return false;
      });
      if (kept.questions.length > 0) return Promise.resolve(createInputRequired(id, kept, clientId));
      held.delete(id);
      if (kept.finished !== undefined) return Promise.resolve(deliverOutcome(kept.finished, clientId));
      return new Promise<Reply>((settle, fail) => {
        const token = memberOf(message.meta, 'progressToken');
        pending.replace(kept.upstreamId, {
          clientId,
          channel: call.channel,
          progressToken: token === undefined ? undefined : rawAt(message.bytes, token),
          settle,
          fail,
          timeoutMs: kept.timeoutMs,
        });
      });
    },

    holds(call) {
      const value = call === undefined ? undefined : openState(call);
      if (call === undefined) return held.size > 0;
      return value !== undefined && held.has(parseHeldId(value) ?? 0);
    },

    dropSession(sessionId) {
      for (const [id, call] of held) {
        if (call.binding.sessionId !== sessionId) continue;
        held.delete(id);
        rejectQuestions(call, 'The client is gone');
      }
    },

    sweep(now, pending) {
      for (const [id, call] of held) {
        if (now < call.until) continue;
        held.delete(id);
        pending.take(call.upstreamId);
        rejectQuestions(call, 'Nobody answered in time');
      }
    },
  };
}

function rejectQuestions({ questions }: HeldCall, why: string): void {
  for (const { respond, upstreamId } of questions) respond(errorMessage(upstreamId, -32603, why));
}

function deliverOutcome(outcome: Reply | Error, clientId: string): Reply {
  if (outcome instanceof Error) throw outcome;
  if (outcome.kind !== 'message') return outcome;
  const answer: Message = readMessage(outcome.bytes);
  return { ...outcome, bytes: replaceId(answer, clientId) };
}
