import { lookup } from 'node:dns/promises';
import { isIPv4, isIPv6 } from 'node:net';
import { domainToASCII } from 'node:url';

/** A destination in canonical form, so that it can be compared. */
export interface HostAndPort {
  /** A name in lower-case ASCII without a final dot, or an address in its shortest form. */
  readonly host: string;
  readonly port: number;
  /** Whether the host is an address, not a name. */
  readonly literal: boolean;
}

const labelPattern = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
const maxNameLength = 253;

/** Parses `host:port`. Undefined for anything else, so that no two programs can read it differently. */
export function parseHostAndPort(text: string): HostAndPort | undefined {
  const [, bracketed, plain, digits] = /^(?:\[([^[\]]+)\]|([^:[\]]+)):([1-9][0-9]{0,4})$/.exec(text) ?? [];
  const port = Number(digits);
  if (digits === undefined || port > 65_535) return undefined;
  const host = bracketed === undefined ? canonicalizeName(plain as string) : canonicalizeAddress(bracketed);
  return host === undefined ? undefined : { host, port, literal: isIPv4(host) || isIPv6(host) };
}

export function formatHostAndPort({ host, port }: Pick<HostAndPort, 'host' | 'port'>): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Returns an address in its shortest form; an IPv4-mapped IPv6 address becomes IPv4. Zones are refused. */
export function canonicalizeAddress(text: string): string | undefined {
  if (isIPv4(text)) return text;
  if (!isIPv6(text) || text.includes('%')) return undefined;
  const short = new URL(`http://[${text}]`).hostname.slice(1, -1);
  const [, high, low] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(short) ?? [];
  return high === undefined || low === undefined ? short : formatIpv4(high, low);
}

/** Formats an IPv4 address from its two halves in hexadecimal. */
export function formatIpv4(high: string, low: string): string {
  const [one, other] = [Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return [one >> 8, one & 255, other >> 8, other & 255].join('.');
}

function canonicalizeName(text: string): string | undefined {
  if (isIPv4(text)) return text;
  // These characters could end a name early, or hide a part of it, for some readers.
  if (/[\u0000-\u0020\u007f-\u00a0\u00ad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff%@/\\?#<>^|]/.test(text))
    return undefined;
  const name = domainToASCII(text).replace(/\.$/, '');
  if (name === '' || name.length > maxNameLength) return undefined;
  const labels = name.split('.');
  if (!labels.every((each) => labelPattern.test(each))) return undefined;
  // `127.1`, `0x7f.1` and `2130706433` are addresses to some programs and names to others.
  return /^(?:[0-9]+|0x[0-9a-f]*)$/.test(labels.at(-1) as string) ? undefined : name;
}

export type ResolveHost = (host: string) => Promise<readonly string[]>;

export const resolveHost: ResolveHost = async (host) =>
  (await lookup(host, { all: true, verbatim: true })).map(({ address }) => address);

/** Returns an IPv4 address, or the half of an IPv6 address that identifies its owner. */
export function networkOf(address: string): string {
  if (address.includes('.')) return address.replace(/^::ffff:/i, '');
  const [before = '', after] = address.toLowerCase().replace(/%.*$/s, '').split('::', 2);
  const groups = before === '' ? [] : before.split(':');
  if (after !== undefined) {
    const rest = after === '' ? [] : after.split(':');
    while (groups.length + rest.length < 8) groups.push('0');
    groups.push(...rest);
  }
  return groups.slice(0, 4).join(':');
}
