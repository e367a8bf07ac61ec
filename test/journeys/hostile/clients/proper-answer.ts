import { expect } from 'vitest';
import { type PostAnswer, readOutcome } from '../../json-mcp-client.ts';
import { expectDiscreet, type WatchedAmbit } from '../start-watched-ambit.ts';

/**
 * The id an answer has to carry, as far as the text lets it be known; null where nobody could tell. A broken
 * response is no request: its id is one of the other side's.
 */
export function findAnswerId(text: string): unknown {
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof message !== 'object' || message === null || Array.isArray(message)) return null;
  const { id, ...rest } = message as { id?: unknown };
  if (!('method' in rest) || 'result' in rest || 'error' in rest) return null;
  return typeof id === 'string' || Number.isSafeInteger(id) ? id : null;
}

/** Checks that must hold for the answer to any body. */
export function expectProperAnswer(ambit: WatchedAmbit, said: PostAnswer, what: string): void {
  const { status, text, messages } = said;
  const words = `${what}: ${status} ${text.slice(0, 500)}`;
  if (![200, 202, 400, 404].includes(status)) expect.unreachable(words);
  expectDiscreet(ambit, text);
  if (status === 202) {
    if (text !== '') expect.unreachable(words);
    return;
  }
  const last = messages.at(-1);
  const oneOfBoth = (last?.result === undefined) !== (last?.error === undefined);
  if (last?.jsonrpc !== '2.0' || !oneOfBoth || readOutcome(said) === '!INTERNAL') expect.unreachable(words);
}

export function expectId(said: PostAnswer, sent: string, what: string): void {
  if (said.status === 202) return;
  expect(said.messages.at(-1)?.id, `${what}: ${said.text}`).toBe(findAnswerId(sent));
}

/** Sends all of them, a few at a time, and looks at every answer. */
export async function sendAll(
  ambit: WatchedAmbit,
  texts: Iterable<{ readonly what: string; readonly text: string }>,
  send: (text: string) => Promise<PostAnswer>,
): Promise<number> {
  let sent = 0;
  const waiting = [...texts];
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        const said = await send(next.text);
        expectProperAnswer(ambit, said, next.what);
        expectId(said, next.text, next.what);
        sent++;
      }
    }),
  );
  return sent;
}
