import type { AmbitError } from '../../errors.ts';
import { refusalText, refusedResult } from '../../protocol/compose-message.ts';

/** What is not the call of a tool is refused with a JSON-RPC error: the SDK takes code and data from what is thrown. */
export function refusedRequest(error: AmbitError): Error {
  const data = refusedResult(error)._meta['ambit/error'];
  return Object.assign(new Error(refusalText(error), { cause: error }), { code: error.row.rpc, data });
}
