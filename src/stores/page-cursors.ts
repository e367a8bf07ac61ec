import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { AmbitError } from '../errors.ts';
import type { Documents } from './documents.ts';

/**
 * Encrypts the positions of pages. A cursor shows nothing and works only with its bindings: the list, and the session
 * that got it. All gateways of a store share the key, because the next page may be asked of another one.
 */
export interface PageCursors {
  seal(position: string, bindings: readonly string[]): Promise<string>;
  /** Returns the position; undefined if the cursor was made up, changed, has expired or belongs to something else. */
  open(cursor: string, bindings: readonly string[]): Promise<string | undefined>;
}

const [collection, keyName] = ['cursors', 'key'];
const algorithm = 'aes-256-gcm';
const [keyBytes, ivBytes, tagBytes, expiryBytes] = [32, 12, 16, 6];
const lifeMs = 60 * 60_000;

/** The key is read or created when the first cursor is needed: most lists have one page. */
export function createPageCursors(documents: Documents, now: () => number = Date.now): PageCursors {
  let known: Promise<Buffer> | undefined;

  function getKey(): Promise<Buffer> {
    known ??= readKey(documents).catch((error: unknown) => {
      known = undefined;
      throw error;
    });
    return known;
  }

  return {
    async seal(position, bindings) {
      const iv = randomBytes(ivBytes);
      const cipher = createCipheriv(algorithm, await getKey(), iv, { authTagLength: tagBytes });
      cipher.setAAD(Buffer.from(JSON.stringify(bindings)));
      const expiry = Buffer.alloc(expiryBytes);
      expiry.writeUIntBE(now() + lifeMs, 0, expiryBytes);
      const data = [cipher.update(expiry), cipher.update(position, 'utf8'), cipher.final()];
      return Buffer.concat([iv, ...data, cipher.getAuthTag()]).toString('base64url');
    },

    async open(cursor, bindings) {
      const bytes = Buffer.from(cursor, 'base64url');
      // The decoder ignores characters and bits that do not belong there.
      const isOurs = bytes.length >= ivBytes + expiryBytes + tagBytes && bytes.toString('base64url') === cursor;
      if (!isOurs) return undefined;
      const decipher = createDecipheriv(algorithm, await getKey(), bytes.subarray(0, ivBytes), {
        authTagLength: tagBytes,
      });
      decipher.setAAD(Buffer.from(JSON.stringify(bindings)));
      decipher.setAuthTag(bytes.subarray(-tagBytes));
      try {
        const text = Buffer.concat([decipher.update(bytes.subarray(ivBytes, -tagBytes)), decipher.final()]);
        if (text.readUIntBE(0, expiryBytes) < now()) return undefined;
        return text.toString('utf8', expiryBytes);
      } catch {
        return undefined;
      }
    },
  };
}

async function readKey(documents: Documents): Promise<Buffer> {
  const made = randomBytes(keyBytes).toString('base64url');
  const put = await documents.put(collection, keyName, made, { expectedVersion: 0 });
  const text = put.outcome === 'written' ? made : (await documents.get(collection, keyName))?.text;
  const key = Buffer.from(text ?? '', 'base64url');
  if (key.length !== keyBytes) throw new AmbitError('INTERNAL', { what: 'The key of page cursors cannot be read.' });
  return key;
}

/** The refusal of a session tool whose cursor is not one of its own. */
export function invalidCursorError(): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what: 'The cursor is not valid.',
    hint: 'Pass "next" of the previous page unchanged, or leave it out for the first page.',
  });
}
