import { lookup } from 'node:dns/promises';
import { AmbitError } from '../../../errors.ts';
import { canonicalAddress, type HostAndPort, readHostAndPort } from '../../../lib/net/host-and-port.ts';
import { isSpecial } from '../../../lib/net/private-addresses.ts';

/** Every address of a name. */
export type Resolve = (host: string) => Promise<readonly string[]>;

/** Where the requests of a login may go. Their addresses come from whoever runs the server, and from those it names. */
export interface Reach {
  /** The addresses to connect to, looked at and never resolved again; throws when it may not be reached. */
  addressesOf(url: URL): Promise<readonly string[]>;
  /** Throws when a browser must not be sent there. */
  assertForBrowser(url: URL): void;
}

export interface ReachOptions {
  /** The address of the server itself: the operator wrote it, and what lies on the same machine may be reached. */
  readonly server: URL;
  /** Further hosts that may be on a private network, as `host:port`. */
  readonly hosts: readonly string[];
  readonly resolve?: Resolve;
}

const resolveByHost: Resolve = async (host) =>
  (await lookup(host, { all: true, verbatim: true })).map(({ address }) => address);

export function createReach({ server, hosts, resolve = resolveByHost }: ReachOptions): Reach {
  const listed = new Set(hosts.flatMap((entry) => keyOf(readHostAndPort(entry)) ?? []));
  const local = isLoopbackHost(readUrl(server)?.host ?? '');

  async function find(host: string, literal: boolean): Promise<readonly string[]> {
    if (literal) return [host];
    // This name means the machine itself, whatever anybody answers.
    if (host === 'localhost') return ['127.0.0.1', '::1'];
    const found = await resolve(host).catch((cause) => {
      throw new AmbitError('LOGIN_FAILED', { what: `The host ${host} cannot be found.`, cause });
    });
    return found.flatMap((address) => canonicalAddress(address) ?? []);
  }

  function assertPlain(url: URL): HostAndPort {
    const read = readUrl(url);
    if (read === undefined || url.username !== '' || url.password !== '') throw refused(url, 'it is no plain address');
    if (url.protocol !== 'https:' && !(url.protocol === 'http:' && local && isLoopbackHost(read.host))) {
      throw refused(url, 'it is not https');
    }
    return read;
  }

  return {
    assertForBrowser: (url) => void assertPlain(url),
    async addressesOf(url) {
      const { host, port, literal } = assertPlain(url);
      const found = await find(host, literal);
      if (listed.has(`${host} ${port}`)) return found;
      const home = readUrl(server);
      const own = home === undefined ? [] : await find(home.host, home.literal).catch(() => []);
      const open = found.filter(
        (address) => !isSpecial(address) || own.includes(address) || (local && isLoopbackHost(address)),
      );
      if (open.length === 0) throw refused(url, 'it leads to no public address');
      return open;
    },
  };
}

function readUrl(url: URL): HostAndPort | undefined {
  return readHostAndPort(`${url.hostname}:${url.port || (url.protocol === 'http:' ? 80 : 443)}`);
}

function keyOf(read: HostAndPort | undefined): string | undefined {
  return read === undefined ? undefined : `${read.host} ${read.port}`;
}

function isLoopbackHost(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.\d+\.\d+\.\d+$/.test(host);
}

function refused(url: URL, why: string): AmbitError {
  return new AmbitError('LOGIN_FAILED', {
    what: `The login of this server leads to ${url.origin}, which is not asked: ${why}.`,
    hint: 'The operator can list the host in servers.<name>.oauth.hosts, if it is meant to be asked.',
  });
}
