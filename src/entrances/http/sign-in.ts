import type { IncomingMessage, ServerResponse } from 'node:http';
import { sendAnswer } from '../control/control-api.ts';
import { answerSignIn } from '../control/handle-request.ts';
import { type ControlAnswer, createProblem } from '../control/route.ts';
import { isJson } from './guards.ts';
import { type HttpParts, recordRefusal } from './http-parts.ts';
import { dropBody, readBody } from './read-body.ts';

/** A code needs about a hundred bytes. */
const bodyLimit = 1024;
const maxFailures = 20;
const failureEveryMs = 3000;
const maxAddresses = 1000;

/**
 * Exchanges a sign-in code for the token of a console. It is the only request to the control API that needs no
 * credential, so its body is short, and an address that failed often is told to wait. A valid code is always accepted:
 * it has 256 random bits, and behind a proxy a stranger has the same address as everybody else.
 */
export function createSignIn({ gateway, connections }: HttpParts) {
  const failures = createFailureLimit();

  return async function signIn(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { remoteAddress: address = '' } = request.socket;
    connections.demote(request.socket);
    if (!isJson(request)) {
      return refuse(request, response, createProblem(415, 'REQUEST_INVALID', 'Send application/json.', 'Send JSON.'));
    }
    const body = await readBody(request, response, {
      maxBytes: bodyLimit,
      onGone: (listener) => response.on('close', listener),
    });
    if (body === 'broken off') return;
    if (typeof body === 'string') {
      const detail = `The body is longer than ${bodyLimit} bytes.`;
      return refuse(request, response, createProblem(413, 'REQUEST_INVALID', detail, 'Send only the code.'));
    }
    const answer = answerSignIn(gateway, body, address);
    if (answer.isProblem === true) return refuse(request, response, answer);
    sendAnswer(response, answer);
  };

  function refuse(request: IncomingMessage, response: ServerResponse, reason: ControlAnswer): void {
    const { remoteAddress: address = '' } = request.socket;
    const waitMs = failures.getWaitMs(address);
    if (waitMs === 0) failures.add(address);
    const answer = waitMs === 0 ? reason : tooManyFailures;
    const { status, body } = answer;
    recordRefusal(gateway, request, { event: 'sign-in', status, code: (body as { readonly code?: string }).code });
    gateway.metrics.httpRefused(status);
    dropBody(request, response, true);
    sendAnswer(response, answer, waitMs === 0 ? {} : { 'retry-after': String(Math.ceil(waitMs / 1000)) });
  }
}

const tooManyFailures = createProblem(
  429,
  'QUOTA_EXCEEDED',
  'Too many sign-ins from this address failed.',
  'Wait until the time in Retry-After is over. A valid code, and signing in with the admin token, are not affected.',
);

interface FailureLimit {
  add(address: string): void;
  /** Returns how long this address must wait; 0 if it need not wait. */
  getWaitMs(address: string): number;
}

/** Allows some failures of each address at once, and then one more every few seconds. */
function createFailureLimit(): FailureLimit {
  /** The time at which all failures of an address are forgotten. */
  const forgottenAt = new Map<string, number>();
  return {
    add(address) {
      const now = performance.now();
      const before = forgottenAt.get(address) ?? now;
      forgottenAt.delete(address);
      if (forgottenAt.size >= maxAddresses) forgottenAt.delete(forgottenAt.keys().next().value as string);
      forgottenAt.set(address, Math.max(now, before) + failureEveryMs);
    },
    getWaitMs(address) {
      const left = (forgottenAt.get(address) ?? 0) - performance.now();
      return Math.max(0, left - (maxFailures - 1) * failureEveryMs);
    },
  };
}
