import { z } from 'zod';
import { secureUrl } from '../../config/schema/schema-parts.ts';
import { AmbitError } from '../../errors.ts';
import { hasHidden } from '../../lib/text/hidden-characters.ts';
import { type Flag, type Invocation, readFlag, UsageError } from '../command.ts';
import { shortenEnd } from '../io/output.ts';

const officialRegistry = 'https://registry.modelcontextprotocol.io';
const officialMeta = 'io.modelcontextprotocol.registry/official';
const timeoutMs = 15_000;
/** A wait that is longer than this is explained to the person. */
const patienceMs = 2000;
const maxAnswerBytes = 4 * 1024 * 1024;
const pageSize = 100;
const maxPages = 5;
const maxWords = 3;
const maxProseLength = 1000;

export const registryFlag: Flag = {
  type: 'string',
  value: 'URL',
  help: 'URL of another MCP registry (AMBIT_REGISTRY)',
};

/** A value that becomes part of a command, an address or a variable. Nobody could see what other characters do there. */
const plainText = z
  .string()
  .max(4096)
  .refine((text) => !hasHidden(text));
/** Text for people. It becomes one line: with line ends it could forge lines of Ambit itself. */
const prose = z
  .string()
  .max(10_000)
  .transform((text) => shortenEnd(text.replace(/[\s\u0085]+/g, ' ').trim(), maxProseLength))
  .nullish();
const flag = z.boolean().nullish();

const inputSchema = z.object({
  description: prose,
  isRequired: flag,
  isSecret: flag,
  value: plainText.nullish(),
  default: plainText.nullish(),
});
const inputWithVariables = inputSchema.extend({ variables: z.record(plainText, inputSchema).nullish() });
const namedInput = inputWithVariables.extend({ name: z.string().regex(/^[A-Za-z0-9_!#$%&'*+.^`|~-]{1,256}$/) });
const argumentSchema = z.discriminatedUnion('type', [
  inputWithVariables.extend({ type: z.literal('positional'), valueHint: plainText.nullish() }),
  inputWithVariables.extend({ type: z.literal('named'), name: plainText }),
]);
const argumentList = z.array(argumentSchema).max(100).nullish();
const inputList = z.array(namedInput).max(100).nullish();
const word = z.string().regex(/^[\x21-\x7e]{1,255}$/);

const packageSchema = z.object({
  registryType: word,
  registryBaseUrl: plainText.nullish(),
  identifier: z.string().regex(/^[\x21-\x7e]{1,1024}$/),
  version: word.nullish(),
  runtimeHint: plainText.nullish(),
  transport: z.object({ type: word }),
  runtimeArguments: argumentList,
  packageArguments: argumentList,
  environmentVariables: inputList,
});
const remoteSchema = z.object({ type: word, url: plainText, headers: inputList });

/** The parts of `server.json` that are used. Other members are dropped. */
const entrySchema = z.object({
  server: z.object({
    name: z
      .string()
      .max(200)
      .regex(/^[A-Za-z0-9.-]+\/[A-Za-z0-9._-]+$/),
    version: word,
    title: prose,
    description: prose,
    packages: z.array(packageSchema).max(50).nullish(),
    remotes: z.array(remoteSchema).max(50).nullish(),
  }),
  _meta: z
    .object({
      [officialMeta]: z.object({ status: plainText.nullish(), statusMessage: prose, isLatest: flag }).nullish(),
    })
    .nullish(),
});
const listSchema = z.object({
  servers: z.array(z.unknown()).max(1000).nullable(),
  metadata: z.object({ nextCursor: z.string().max(2048).nullish() }).nullish(),
});

type ParsedEntry = z.output<typeof entrySchema>;
export type RegistryServer = ParsedEntry['server'];
export type RegistryPackage = NonNullable<RegistryServer['packages']>[number];
export type RegistryRemote = NonNullable<RegistryServer['remotes']>[number];
export type RegistryInput = z.output<typeof namedInput>;
export type RegistryArgument = z.output<typeof argumentSchema>;

/** A server as a registry describes it. */
export interface RegistryEntry {
  readonly server: RegistryServer;
  readonly status: string;
  readonly statusMessage: string | undefined;
}

interface FoundEntries {
  readonly entries: readonly RegistryEntry[];
  /** The number of entries that are not as the format says. */
  readonly invalid: number;
  /** Whether the registry has more. */
  readonly hasMore: boolean;
}

/** Reads the address of the registry. Over plain HTTP somebody on the network could replace its answers. */
export function readRegistryUrl(invocation: Invocation): URL {
  const given = readFlag(invocation, 'registry') ?? (invocation.env['AMBIT_REGISTRY'] || officialRegistry);
  const parsed = secureUrl.safeParse(given);
  if (!parsed.success) {
    throw new UsageError('the registry takes an address that starts with https://; http:// only on this machine');
  }
  const url = new URL(parsed.data);
  // People copy the address with the version of the API.
  url.pathname = url.pathname.replace(/(?<!\/)\/+$/, '').replace(/\/v0(?:\.1)?(?:\/servers)?$/, '');
  url.search = '';
  url.hash = '';
  return url;
}

/**
 * Finds the latest versions of the servers that fit all words. A registry looks for one word in names only. So it is
 * asked for one word after the other until something fits, and the other words are looked for here.
 */
export async function searchRegistry(registry: URL, words: readonly string[], limit: number): Promise<FoundEntries> {
  let found: FoundEntries = { entries: [], invalid: 0, hasMore: false };
  for (const asked of words.slice(0, maxWords)) {
    const others = words.filter((each) => each !== asked).map((each) => each.toLowerCase());
    found = await searchWord(registry, asked, others, limit);
    if (found.entries.length > 0) break;
  }
  return found;
}

async function searchWord(
  registry: URL,
  asked: string,
  others: readonly string[],
  limit: number,
): Promise<FoundEntries> {
  const entries: RegistryEntry[] = [];
  let [invalid, cursor] = [0, ''];
  for (let page = 0; page < maxPages && entries.length < limit; page++) {
    const size = others.length === 0 ? Math.min(limit, pageSize) : pageSize;
    const query = { search: asked, version: 'latest', limit: String(size), ...(cursor === '' ? {} : { cursor }) };
    const { body } = await requestJson(addressOf(registry, [], query), [200]);
    const list = listSchema.safeParse(body);
    if (!list.success) throw formatError(registry);
    for (const each of list.data.servers ?? []) {
      const parsed = entrySchema.safeParse(each);
      if (!parsed.success) invalid++;
      else if (isOffered(parsed.data) && fitsWords(parsed.data.server, others)) entries.push(toEntry(parsed.data));
    }
    const next = list.data.metadata?.nextCursor ?? '';
    const isLast = next === '' || next === cursor;
    if (isLast) return { entries: entries.slice(0, limit), invalid, hasMore: entries.length > limit };
    cursor = next;
  }
  return { entries: entries.slice(0, limit), invalid, hasMore: true };
}

function isOffered({ _meta }: ParsedEntry): boolean {
  const official = _meta?.[officialMeta];
  return official?.isLatest !== false && official?.status !== 'deleted';
}

function fitsWords({ name, title, description }: RegistryServer, words: readonly string[]): boolean {
  const text = `${name} ${title ?? ''} ${description ?? ''}`.toLowerCase();
  return words.every((each) => text.includes(each));
}

/** Reads one entry, of the latest version unless another is named. */
export async function readRegistryEntry(registry: URL, name: string, version = 'latest'): Promise<RegistryEntry> {
  const { status, body } = await requestJson(addressOf(registry, [name, 'versions', version], {}), [200, 404]);
  if (status === 404) {
    throw new AmbitError('SERVER_NOT_AVAILABLE', {
      what: `The registry ${registry.host} has no server "${name}"${version === 'latest' ? '' : ` in version ${version}`}.`,
      hint: `Look for it with "ambit server search ${name.split('/')[1] ?? name}".`,
    });
  }
  const parsed = entrySchema.safeParse(body);
  if (!parsed.success) throw formatError(registry, name);
  const { server } = parsed.data;
  // An answer about another server would be approved under the name that was asked for.
  if (server.name !== name || (version !== 'latest' && server.version !== version)) throw formatError(registry, name);
  return toEntry(parsed.data);
}

function toEntry({ server, _meta }: ParsedEntry): RegistryEntry {
  const official = _meta?.[officialMeta];
  return { server, status: official?.status ?? 'active', statusMessage: official?.statusMessage ?? undefined };
}

function addressOf(registry: URL, path: readonly string[], query: Readonly<Record<string, string>>): URL {
  const url = new URL(registry);
  const segments = ['v0.1', 'servers', ...path].map(encodeURIComponent);
  url.pathname = [url.pathname.replace(/\/$/, ''), ...segments].join('/');
  url.search = new URLSearchParams(query).toString();
  return url;
}

/** Asks the registry. Redirects are not followed, because the person named this one address. */
async function requestJson(url: URL, accepted: readonly number[]): Promise<{ status: number; body: unknown }> {
  const waiting = setTimeout(() => process.stderr.write(`Waiting for ${url.host} …\n`), patienceMs);
  try {
    const response = await fetch(url, {
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutMs),
      headers: { accept: 'application/json', 'user-agent': 'ambit' },
    });
    if (!accepted.includes(response.status)) {
      await response.body?.cancel();
      throw new Error(describeStatus(response.status));
    }
    return { status: response.status, body: JSON.parse(await readText(response)) as unknown };
  } catch (cause) {
    throw new AmbitError('REGISTRY_UNREACHABLE', {
      what: `The MCP registry ${url.host} cannot be used: ${describeFailure(cause)}.`,
      hint: 'Check the network and try again, or name another registry with --registry URL. "ambit server add NAME -- COMMAND" needs no registry.',
      cause,
    });
  } finally {
    clearTimeout(waiting);
  }
}

async function readText(response: Response): Promise<string> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body ?? []) {
    length += part.length;
    if (length > maxAnswerBytes) throw new Error('the answer is too large');
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

function describeStatus(status: number): string {
  return status >= 300 && status < 400
    ? `it redirects to another address (status ${status}), which is not followed`
    : `it answered with status ${status}`;
}

/** Describes a failure without repeating text of the registry. */
function describeFailure(error: unknown): string {
  const { name, message, cause } = error as Error & { readonly cause?: { readonly code?: string } };
  if (name === 'TimeoutError') return `no answer within ${timeoutMs / 1000} seconds`;
  if (error instanceof SyntaxError) return 'the answer is not JSON';
  return connectFailures[cause?.code ?? ''] ?? cause?.code ?? message;
}

const connectFailures: Readonly<Record<string, string>> = {
  ENOTFOUND: 'its name cannot be resolved',
  EAI_AGAIN: 'its name cannot be resolved',
  ECONNREFUSED: 'nothing answers at this address',
  ECONNRESET: 'the connection was closed',
  UND_ERR_SOCKET: 'the connection was closed',
};

function formatError({ host }: URL, name?: string): AmbitError {
  const what = name === undefined ? 'its answer' : `its entry of "${name}"`;
  return new AmbitError('REGISTRY_UNREACHABLE', {
    what: `The MCP registry ${host} cannot be used: ${what} is not in the format of the registry API (v0.1).`,
  });
}
