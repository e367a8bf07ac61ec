import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';

/**
 * Kinds of tokens. A token is `<kind>_<id>_<secret><checksum>`: the id finds the record, the secret proves it, and the
 * checksum detects typos and helps secret scanners without a lookup. Only a digest of the whole token is stored.
 */
type TokenKind = BearerKind | 'amba';
/** Kinds of tokens that belong to a record: sessions, keys, consoles, and the one-time codes that open consoles. */
type BearerKind = 'ambs' | 'ambk' | 'ambc' | 'ambo';

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const checksumLength = 6;
const secretLength = 43;
const tokenPattern = /^(ambs|ambk|ambc|ambo)_([a-z0-9-]{1,64})_[0-9A-Za-z]{49}$/;

export function mintToken(kind: TokenKind, id: string): Pick<PresentedToken, 'token' | 'digest'> {
  const head = `${kind}_${id}_${encodeBase62(randomBytes(32), secretLength)}`;
  const token = head + computeChecksum(head);
  return { token, digest: tokenDigest(token) };
}

/** A token as it was presented, with what its text tells without a lookup. */
export interface PresentedToken {
  readonly token: string;
  /** Undefined, like the id, for a text that has not the form of a token. */
  readonly kind: BearerKind | undefined;
  readonly id: string | undefined;
  readonly digest: string;
}

export function parseToken(token: string): PresentedToken {
  // The checksum is not checked here, and nothing is proven yet.
  const [, kind, id] = tokenPattern.exec(token) ?? [];
  return { token, kind: kind as BearerKind | undefined, id, digest: tokenDigest(token) };
}

/** Tells whether the checksum is right. A token whose secret verifies needs no check. */
export function hasValidChecksum(token: string): boolean {
  const cut = token.length - checksumLength;
  return computeChecksum(token.slice(0, cut)) === token.slice(cut);
}

// A plain digest is enough for 256 random bits; a slow one would let callers exhaust us.
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
