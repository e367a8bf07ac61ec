import { AmbitError, errorTable } from '../errors.ts';

/** Composes the messages that Ambit sends itself. `id` is the raw text of the id, so that it returns unchanged. */

export function composeResult(id: string, result: string): Buffer {
  return Buffer.from(`{"jsonrpc":"2.0","id":${id},"result":${result}}`);
}

export function composeError(id: string, code: number, message: string, data?: unknown): Buffer {
  const error = data === undefined ? { code, message } : { code, message, data };
  return Buffer.from(`{"jsonrpc":"2.0","id":${id},"error":${JSON.stringify(error)}}`);
}

export function composeNotification(method: string, params: unknown): Buffer {
  return Buffer.from(JSON.stringify({ jsonrpc: '2.0', method, params }));
}

/** Refuses a tool call. The refusal is a result, since a model reads the reason only there. */
export function composeCallRefusal(id: string, error: AmbitError, modern: boolean): Buffer {
  return composeResult(
    id,
    JSON.stringify({ ...(modern ? { resultType: 'complete' } : {}), ...createRefusalResult(error) }),
  );
}

type RefusalResult = {
  readonly content: readonly [{ readonly type: 'text'; readonly text: string }];
  readonly isError: true;
  readonly _meta: { readonly 'ambit/error': Record<string, unknown> };
};

export function createRefusalResult(error: AmbitError): RefusalResult {
  return {
    content: [{ type: 'text', text: formatRefusal(error) }],
    isError: true,
    _meta: { 'ambit/error': createRefusalData(error) },
  };
}

/** Refuses any other request with a JSON-RPC error and a code of our own. */
export function composeRequestRefusal(id: string, error: AmbitError): Buffer {
  return composeError(id, errorTable[error.code].rpc, formatRefusal(error), createRefusalData(error));
}

export function formatRefusal(error: AmbitError): string {
  return `${error.code}: ${error.message} ${error.hint}`;
}

function createRefusalData(error: AmbitError): Record<string, unknown> {
  return {
    code: error.code,
    ...(error.rule === undefined ? {} : { rule: error.rule }),
    hint: error.hint,
    ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
  };
}

/** The answer to a call whose real answer a client has missed for good. */
export function composeLostAnswer(requestId: string): Buffer {
  // The code must not be a retryable one: the call would run twice.
  const loss = new AmbitError('UPSTREAM_TOO_LARGE', {
    what: 'The connection was lost, and the messages that followed were more than Ambit keeps. The call may have taken effect.',
    hint: 'Check whether it did before you repeat it.',
  });
  return composeRequestRefusal(requestId, loss);
}
