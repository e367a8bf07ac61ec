import { AmbitError } from '../../errors.ts';
import type { MessageError } from '../../protocol/message.ts';
import type { Exit } from '../../sandbox/runner.ts';

/** The error for a message with so many parts that reading it would delay all other sessions. */
export function tooDenseError(server: string, fault: MessageError): AmbitError {
  return new AmbitError('UPSTREAM_TOO_LARGE', {
    what: `The server "${server}" answered with a message of too many parts: ${fault.message}.`,
    hint: 'Ask for less of it at a time. As one text it may be as long as limits.messageBytes allows.',
  });
}

export function describeExit({ code, signal, reason }: Exit): string {
  if (reason !== undefined) return `was ended: ${reason}`;
  return `ended ${signal === null ? `with code ${code}` : `by ${signal}`} before it answered`;
}

export function silenceError(server: string, forMs: number): AmbitError {
  return new AmbitError('UPSTREAM_TIMEOUT', {
    what: `The server "${server}" was silent for ${forMs / 1000} seconds.`,
  });
}

export function unreadableError(server: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The server "${server}" answered with something that is no MCP message.`,
  });
}
