import type { IncomingMessage } from 'node:http';
import { AmbitError, isAmbitError } from '../../errors.ts';
import type { MessageError } from '../../protocol/message.ts';
import type { Exit } from '../../sandbox/runner.ts';
import type { HttpServer } from '../definition.ts';

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

/** A reason in words, and what the operator can do about it. */
type Reason = readonly [why: string, hint: string];

const checkUrl = 'Check the url of the server in the configuration.';
const checkNetwork = 'Check the network of this machine, and the url of the server in the configuration.';
const checkLog = 'Try again later. If it keeps failing, check the log of the server, and proxies between it and Ambit.';
const trustAuthority =
  'If its certificate comes from an authority of your own, start Ambit with NODE_EXTRA_CA_CERTS set to the file of that authority.';
const renewCertificate = 'Its operator must renew the certificate; check also the clock of this machine.';

/** The errors of sockets and TLS, by their codes. */
const connectionReasons: Readonly<Record<string, Reason>> = {
  ENOTFOUND: ['its host name cannot be resolved', `${checkUrl} This machine must be able to resolve its name.`],
  EAI_AGAIN: ['the name server did not answer', checkNetwork],
  ECONNREFUSED: ['nothing listens at its address', `Start the server. ${checkUrl}`],
  ECONNRESET: ['it closed the connection without an answer', checkUrl],
  EPIPE: ['it closed the connection while the request was being sent', checkUrl],
  ETIMEDOUT: ['its address does not answer', `${checkNetwork} A firewall may drop the connection.`],
  EHOSTUNREACH: ['there is no route to its address', checkNetwork],
  ENETUNREACH: ['there is no route to its network', checkNetwork],
  EADDRNOTAVAIL: ['its address cannot be used from here', checkUrl],
  EACCES: ['this machine does not allow the connection', 'Check the firewall of this machine.'],
  EPERM: ['this machine does not allow the connection', 'Check the firewall of this machine.'],
  DEPTH_ZERO_SELF_SIGNED_CERT: ['its certificate is self-signed', trustAuthority],
  SELF_SIGNED_CERT_IN_CHAIN: ['its certificate comes from an unknown authority', trustAuthority],
  UNABLE_TO_GET_ISSUER_CERT: ['its certificate comes from an unknown authority', trustAuthority],
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: ['its certificate comes from an unknown authority', trustAuthority],
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: ['its certificate comes from an unknown authority', trustAuthority],
  CERT_HAS_EXPIRED: ['its certificate has expired', renewCertificate],
  CERT_NOT_YET_VALID: ['its certificate is not valid yet', renewCertificate],
  CERT_REVOKED: ['its certificate was revoked', renewCertificate],
  ERR_TLS_CERT_ALTNAME_INVALID: [
    'its certificate is for another host name',
    'Use a host name of the certificate in the url of the server.',
  ],
};

const speaksPlain: Reason = [
  'it does not speak TLS',
  'If it speaks plain HTTP, write http:// instead of https:// in its url.',
];
const speaksOther: Reason = ['its answer is not HTTP', checkUrl];
const mayNeedTls = 'If it speaks HTTPS, write https:// instead of http:// in its url.';

/** The error for a request that got no answer. Callers learn the reason, but not the address. */
export function unreachableError(
  { name, url }: Pick<HttpServer, 'name' | 'url'>,
  cause: Error | undefined,
  isConnected: boolean,
): AmbitError {
  const { code = '', message = '' } = (cause ?? {}) as NodeJS.ErrnoException;
  const [why, hint] = findConnectionReason(code, message) ?? ['the connection failed', checkNetwork];
  const isPlain = url.protocol === 'http:' && (code === 'ECONNRESET' || code.startsWith('HPE_'));
  const error = new AmbitError('UPSTREAM_FAILED', {
    what: `The server "${name}" cannot be reached: ${why}${code === '' ? '' : ` (${code})`}.`,
    hint: isPlain ? `${hint} ${mayNeedTls}` : hint,
    cause,
  });
  return isConnected ? error : markHarmless(error, 'unsent');
}

function findConnectionReason(code: string, message: string): Reason | undefined {
  if (Object.hasOwn(connectionReasons, code)) return connectionReasons[code];
  if (code.startsWith('HPE_')) return speaksOther;
  if (/wrong version number|packet length too long|unknown protocol/.test(message)) return speaksPlain;
  if (code === 'EPROTO' || code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_'))
    return ['the TLS handshake failed', 'It may need a client certificate, or use an old version of TLS.'];
  return undefined;
}

/** The answers that are no MCP, by their status. */
const statusReasons: Readonly<Record<number, Reason>> = {
  400: ['it considers the request invalid', checkUrl],
  401: [
    'it requires a credential',
    'The operator can provide one with "ambit login", "ambit credential set" or headers in the configuration.',
  ],
  403: [
    'it does not allow the request',
    'The credential may lack a permission, or the server does not allow requests from here.',
  ],
  404: [
    'there is nothing at its path',
    'Check the path in the url of the server in the configuration; many servers use /mcp.',
  ],
  405: [
    'it does not accept POST at this path',
    'Check the path in the url of the server in the configuration; many servers use /mcp, and /sse for the HTTP+SSE transport.',
  ],
  406: ['it cannot answer with JSON or server-sent events', checkUrl],
  407: ['a proxy requires a credential', 'Check the proxy of this machine.'],
  410: ['there is no longer anything at its path', checkUrl],
  413: ['the request is too large for it, or for a proxy in front of it', 'Send a smaller request.'],
  415: ['it does not accept JSON at this path', `${checkUrl} Many servers use /mcp.`],
  429: ['it has too many requests', 'Try again later.'],
};

const noSse: Reason = [
  'it does not speak the HTTP+SSE transport at this path',
  `${checkUrl} Many servers of this transport use /sse; without "type: sse" Ambit detects the transport.`,
];

/** The error for an answer that is no MCP message. */
export function notMcpError(
  server: string,
  { statusCode: status = 0, headers }: IncomingMessage,
  method: 'POST' | 'GET' = 'POST',
): AmbitError {
  const [why, hint] =
    method === 'GET' && (status < 300 || status === 404 || status === 405)
      ? noSse
      : findStatusReason(status, headers['content-type'] ?? '');
  const what = `The server "${server}" answered with HTTP ${status} instead of an MCP message: ${why}.`;
  const error = new NotMcpError(status, { what, hint });
  return status >= 300 && status < 500 ? markHarmless(error, 'refused') : error;
}

/** The error for an answer that is no MCP message, with the status of the answer. */
export class NotMcpError extends AmbitError {
  readonly httpStatus: number;

  constructor(httpStatus: number, details: ConstructorParameters<typeof AmbitError>[1]) {
    super('UPSTREAM_FAILED', details);
    this.httpStatus = httpStatus;
  }
}

function findStatusReason(status: number, type: string): Reason {
  const known = statusReasons[status];
  if (known !== undefined) return known;
  if (status >= 300 && status < 400)
    return [
      'it redirects to another address',
      'Use the final address as the url of the server. Redirects are not followed.',
    ];
  if (status >= 500) return ['it failed, or a proxy in front of it did', checkLog];
  if (/^text\/html\b/i.test(type)) return ['it sent a web page', `${checkUrl} It may also be a sign-in page.`];
  return [
    type === '' ? 'its answer has no content type' : 'its answer is neither JSON nor server-sent events',
    `${checkUrl} Many servers use /mcp.`,
  ];
}
