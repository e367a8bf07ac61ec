import { AmbitError } from '../errors.ts';
import type { SessionDraft } from './session.ts';

const keyPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

export function checkMetadata(metadata: SessionDraft['metadata'], mostBytes: number): void {
  if (metadata === undefined) return;
  const odd = Object.keys(metadata).find((key) => !keyPattern.test(key));
  if (odd !== undefined) {
    throw new AmbitError('REQUEST_INVALID', {
      what: `"${odd.slice(0, 64)}" cannot name metadata; take up to 64 of letters, digits, ".", "_" and "-".`,
    });
  }
  const bytes = Buffer.byteLength(JSON.stringify(metadata));
  if (bytes <= mostBytes) return;
  throw new AmbitError('METADATA_TOO_LARGE', { what: `The metadata has ${bytes} bytes; ${mostBytes} are allowed.` });
}
