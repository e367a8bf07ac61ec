import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';

/**
 * Tokens are `<kind>_<id>_<secret><checksum>`: the id finds the record, the secret proves it, and the checksum lets
 * typos and secret scanners be served without a look-up. Only a digest of the whole token is ever kept.
 */
export type TokenKind = 'ambs' | 'ambk' | 'amba';
/** Those that find a record by their id: of sessions, and of keys. */
export type BearerKind = 'ambs' | 'ambk';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const checksumLength = 6;
const secretLength = 43;
const tokenPattern = /^(ambs|ambk)_([a-z0-9-]{1,64})_[0-9A-Za-z]{49}$/;

export interface MintedToken {
  readonly token: string;
  readonly digest: string;
}

export function mintToken(kind: TokenKind, id: string): MintedToken {
  const head = `${kind}_${id}_${encodeBase62(randomBytes(32), secretLength)}`;
  const token = head + computeChecksum(head);
  return { token, digest: tokenDigest(token) };
}

/** A token as it was presented, with what can be said of it without looking anything up. */
export interface PresentedToken {
  readonly token: string;
  /** Undefined, as the id, for anything that has not the shape of a token. */
  readonly kind: BearerKind | undefined;
  readonly id: string | undefined;
  readonly digest: string;
}

export function presentedToken(token: string): PresentedToken {
  // Its checksum may be right or not; nothing is proven yet.
  const [, kind, id] = tokenPattern.exec(token) ?? [];
  return { token, kind: kind as BearerKind | undefined, id, digest: tokenDigest(token) };
}

/** True when the checksum fits. A token whose secret verifies need not be asked. */
export function isWhole(token: string): boolean {
  const cut = token.length - checksumLength;
  return computeChecksum(token.slice(0, cut)) === token.slice(cut);
}

// The secret has 256 random bits: a plain digest is enough, and a slow one would only let callers exhaust us.
export function tokenDigest(token: string): string {
  return hash('sha256', token, 'hex');
}

export function digestsEqual(a: string, b: string): boolean {
  return a.length === b.length && timingSafeEqual(Buffer.from(a, 'latin1'), Buffer.from(b, 'latin1'));
}

function computeChecksum(text: string): string {
  let rest = crc32(text);
  let out = '';
  for (let i = 0; i < checksumLength; i++) {
    out = alphabet[rest % 62] + out;
    rest = Math.floor(rest / 62);
  }
  return out;
}

function encodeBase62(bytes: Buffer, length: number): string {
  let rest = BigInt(`0x${bytes.toString('hex')}`);
  let out = '';
  for (let i = 0; i < length; i++) {
    out = alphabet[Number(rest % 62n)] + out;
    rest /= 62n;
  }
  return out;
}
