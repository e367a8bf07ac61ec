import { type HostAndPort, readHostAndPort } from '../../lib/net/host-and-port.ts';

/** What a process may reach, as the configuration lists it. */
export interface AllowList {
  /** Whether a host is listed with this port: itself, or by a `*.` above it. */
  has(wanted: HostAndPort): boolean;
  /** Whether an address is listed itself. Only then does it matter not that it is private. */
  hasAddress(address: string, port: number): boolean;
}

const anyBelow = '*.';

/** Entries that cannot be read allow nothing. */
export function createAllowList(entries: readonly string[]): AllowList {
  const exact = new Set<string>();
  const below = new Set<string>();
  for (const entry of entries) {
    const wide = entry.startsWith(anyBelow);
    const read = readHostAndPort(wide ? entry.slice(anyBelow.length) : entry);
    if (read !== undefined && !(wide && read.literal)) (wide ? below : exact).add(keyOf(read.host, read.port));
  }
  return {
    has({ host, port, literal }) {
      if (exact.has(keyOf(host, port))) return true;
      return !literal && above(host).some((name) => below.has(keyOf(name, port)));
    },
    hasAddress: (address, port) =>
      exact.has(keyOf(address, port)) || (isLoopback(address) && exact.has(keyOf('localhost', port))),
  };
}

const keyOf = (host: string, port: number): string => `${host} ${port}`;

const isLoopback = (address: string): boolean => address === '127.0.0.1' || address === '::1';

function above(host: string): string[] {
  const labels = host.split('.');
  return labels.slice(1).map((_, index) => labels.slice(index + 1).join('.'));
}
