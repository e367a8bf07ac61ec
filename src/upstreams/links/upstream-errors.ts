import { AmbitError, isAmbitError } from '../../errors.ts';
import type { MessageError } from '../../protocol/message.ts';
import type { Exit } from '../../sandbox/runner.ts';

/** The error for a message with so many parts that reading it would delay all other sessions. */
export function tooDenseError(server: string, fault: MessageError): AmbitError {
  return new AmbitError('UPSTREAM_TOO_LARGE', {
    what: `The server "${server}" answered with a message that has too many parts: ${fault.message}.`,
    hint: 'Request less at a time, or as a single text, which is only limited by limits.messageBytes.',
  });
}

/**
 * The last lines of a server's stderr, as the cause of an error. Callers see no causes: the lines are for the operator.
 */
export class StderrLines extends Error {
  /** The message of the error without the words of the server. */
  readonly plainMessage: string;
  readonly lines: readonly string[];
  /** True if a signal ended the process: the server did not decide to end. */
  readonly wasKilled: boolean;

  constructor(plainMessage: string, lines: readonly string[], wasKilled = false) {
    super('The server wrote to stderr before it failed.');
    this.name = 'StderrLines';
    this.plainMessage = plainMessage;
    this.lines = lines;
    this.wasKilled = wasKilled;
  }
}

/** The output of a process that failed. `quote` is undefined where other sessions use the process too. */
interface FailedOutput {
  readonly lines: readonly string[];
  readonly quote: string | undefined;
}

/** Exit codes above this one stand for a signal. Sandboxes report the signal of a server like this. */
const signalCodes = 128;

export function exitError(server: string, { code, signal, reason }: Exit, output: FailedOutput): AmbitError {
  const how = signal === null ? `with code ${code}` : `by ${signal}`;
  const wasKilled = signal !== null || (code ?? 0) > signalCodes;
  if (reason === undefined)
    return failureWithOutput(`The server "${server}" ended ${how} before it answered.`, { ...output, wasKilled });
  const what = `The server "${server}" was ended: ${reason}.`;
  return new AmbitError('UPSTREAM_FAILED', { what, cause: new StderrLines(what, output.lines, true) });
}

/** Tells whether an error is about a process that did not end by itself. */
export function wasKilled(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof StderrLines && cause.wasKilled;
}

/** The error for a process that answers nothing after its start. */
export function startTimeoutError(server: string, startMs: number, output: FailedOutput): AmbitError {
  const what = `The server "${server}" did not answer within ${startMs / 1000} s of its start.`;
  const hint = 'Try again. The operator can raise processes.startSeconds.';
  return failureWithOutput(what, output, hint);
}

/** Adds the words of the server to an error: in one line, in quotes and marked as its own, since a model reads them. */
function failureWithOutput(
  what: string,
  { lines, quote, wasKilled }: FailedOutput & { readonly wasKilled?: boolean },
  timeoutHint?: string,
): AmbitError {
  const words = quote === undefined ? '' : ` It wrote to stderr: "${quote.replaceAll('"', "'")}".`;
  const details = { what: `${what}${words}`, cause: new StderrLines(what, lines, wasKilled) };
  if (timeoutHint === undefined) return new AmbitError('UPSTREAM_FAILED', details);
  return new AmbitError('UPSTREAM_TIMEOUT', { ...details, hint: timeoutHint });
}

/** The last lines of stderr of the server that an error is about; empty where there are none. */
export function readStderrLines(error: unknown): readonly string[] {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof StderrLines ? cause.lines : [];
}

/** The same error without the words of the server, for sessions that its process does not serve. */
export function withoutServerWords(error: Error): Error {
  const { cause } = error;
  if (!isAmbitError(error) || !(cause instanceof StderrLines)) return error;
  return new AmbitError(error.code, { what: cause.plainMessage, hint: error.hint });
}

export function silenceError(server: string, forMs: number): AmbitError {
  return new AmbitError('UPSTREAM_TIMEOUT', {
    what: `The server "${server}" did not answer for ${forMs / 1000} seconds.`,
    hint: `Try again with a smaller request. The operator can raise servers.${server}.timeoutSeconds.`,
  });
}

/** The error for a request of Ambit's own that got no answer. */
export function noReplyError(server: string, method: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', { what: `The server "${server}" did not answer the request ${method}.` });
}

export function unreadableError(server: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The server "${server}" answered with something that is not an MCP message.`,
  });
}

/** Errors after which a call certainly had no effect: it was not sent, or the server refused it. */
const harmless = new WeakMap<Error, 'unsent' | 'refused'>();

/** Marks an error: the call that it ends had no effect. */
export function markHarmless<Marked extends Error>(error: Marked, why: 'unsent' | 'refused'): Marked {
  harmless.set(error, why);
  return error;
}

/**
 * Adds to the error of a failed tool call whether the call may have had an effect, because a caller that simply repeats
 * it could act twice. Errors that do not come from the server, and those of requests that only read, stay as they are.
 */
export function explainEffect(error: Error, method: string, isSent: boolean): Error {
  if (method !== 'tools/call' || !isAmbitError(error)) return error;
  const { code, rule, retryAfterMs, cause } = error;
  if (code !== 'UPSTREAM_FAILED' && code !== 'UPSTREAM_TIMEOUT') return error;
  const why = isSent ? harmless.get(error) : 'unsent';
  if (why === 'refused') return error;
  const effect = why === 'unsent' ? 'The call was not sent.' : 'The call may have taken effect.';
  if (error.message.endsWith(effect)) return error;
  const hint = why === 'unsent' ? error.hint : `${checkEffect} ${error.hint.replace(/^Try again[^.]*\. */, '')}`.trim();
  return new AmbitError(code, {
    what: `${error.message} ${effect}`,
    hint,
    ...(rule === undefined ? {} : { rule }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    cause: cause instanceof StderrLines ? new StderrLines(`${cause.plainMessage} ${effect}`, cause.lines) : cause,
  });
}

const checkEffect = 'Check whether it did before you repeat it.';
