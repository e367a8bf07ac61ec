import {
  canonicalizeAddress,
  formatHostAndPort,
  type HostAndPort,
  parseHostAndPort,
  type ResolveHost,
  resolveHost,
} from '../../lib/net/host-and-port.ts';
import { isPrivateAddress } from '../../lib/net/private-addresses.ts';

/** The hosts that the configuration lists for a process. */
interface AllowList {
  /** Whether a host is listed with this port, by its name or by a `*.` entry. */
  has(wanted: HostAndPort): boolean;
  /** Whether an address is listed itself. Only then may it be private. */
  hasAddress(address: string, port: number): boolean;
}

const wildcardPrefix = '*.';

const keyOf = (host: string, port: number): string => `${host} ${port}`;

const isLoopback = (address: string): boolean => address === '127.0.0.1' || address === '::1';

type ConnectDecision =
  /** Addresses to try in this order, without resolving the name again. */
  { readonly addresses: readonly string[] } | { readonly refused: string } | { readonly failed: string };

const maxAddresses = 4;
const maxLookups = 4;

/**
 * Returns a function that decides which addresses a connection may use. A name is resolved once, and the connection
 * uses the checked addresses, so a DNS answer that changes in between has no effect.
 */
export function createConnectCheck(
  allowed: AllowList,
  resolve: ResolveHost = resolveHost,
  ownAddresses?: () => readonly string[],
): (wanted: HostAndPort) => Promise<ConnectDecision> {
  /** Requests for the same name share one lookup: lookups take threads. */
  const asked = new Map<string, Promise<readonly string[]>>();

  function resolveOnce(host: string): Promise<readonly string[]> {
    const known = asked.get(host);
    if (known !== undefined) return known;
    if (asked.size >= maxLookups) return Promise.reject(new Error('too many names at once'));
    const asking = resolve(host).finally(() => asked.delete(host));
    asked.set(host, asking);
    return asking;
  }

  return async (wanted) => {
    const { host, port, literal } = wanted;
    if (!allowed.has(wanted)) return { refused: 'not listed' };
    if (literal) return { addresses: [host] };
    // The name means the machine itself, whatever DNS answers.
    if (host === 'localhost') return { addresses: ['127.0.0.1', '::1'] };
    let found: readonly string[];
    try {
      found = await resolveOnce(host);
    } catch (error) {
      return { failed: (error as NodeJS.ErrnoException).code ?? (error as Error).message };
    }
    const known = found.flatMap((address) => canonicalizeAddress(address) ?? []);
    const open = known.filter(
      (address) => allowed.hasAddress(address, port) || !isPrivateAddress(address, ownAddresses),
    );
    if (open.length > 0) return { addresses: open.slice(0, maxAddresses) };
    const [closed] = known;
    if (closed === undefined) return { failed: 'no address' };
    const entry = formatHostAndPort({ host: closed, port });
    return { refused: `resolves to ${entry}, which is not a public address and is not listed itself` };
  };
}

/** Entries that cannot be parsed allow nothing. */
export function createAllowList(entries: readonly string[]): AllowList {
  const exact = new Set<string>();
  const below = new Set<string>();
  for (const entry of entries) {
    const wide = entry.startsWith(wildcardPrefix);
    const read = parseHostAndPort(wide ? entry.slice(wildcardPrefix.length) : entry);
    if (read !== undefined && !(wide && read.literal)) (wide ? below : exact).add(keyOf(read.host, read.port));
  }
  return {
    has({ host, port, literal }) {
      if (exact.has(keyOf(host, port))) return true;
      return !literal && listParentDomains(host).some((name) => below.has(keyOf(name, port)));
    },
    hasAddress: (address, port) =>
      exact.has(keyOf(address, port)) || (isLoopback(address) && exact.has(keyOf('localhost', port))),
  };
}

function listParentDomains(host: string): string[] {
  const labels = host.split('.');
  return labels.slice(1).map((_, index) => labels.slice(index + 1).join('.'));
}
