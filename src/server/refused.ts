import type { AmbitError } from '../errors.ts';

/** A refusal of a tool call is a result: only then does the model read the reason. */
export function refusedResult(error: AmbitError): Record<string, unknown> {
  return {
    content: [{ type: 'text', text: textOf(error) }],
    isError: true,
    _meta: { 'ambit/error': factsOf(error) },
  };
}

/** Every other refusal is a JSON-RPC error; the SDK takes code and data from what is thrown. */
export function refusedRequest(error: AmbitError): Error {
  return Object.assign(new Error(textOf(error), { cause: error }), { code: error.row.rpc, data: factsOf(error) });
}

function textOf({ code, message, hint }: AmbitError): string {
  return `${code}: ${message} ${hint}`;
}

function factsOf({ code, rule, hint, retryAfterMs }: AmbitError): Record<string, unknown> {
  return {
    code,
    ...(rule === undefined ? {} : { rule }),
    hint,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}
