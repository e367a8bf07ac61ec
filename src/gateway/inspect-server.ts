import { join } from 'node:path';
import type { Approvals } from '../approvals/approvals.ts';
import { assertApproved } from '../approvals/assert-approved.ts';
import type { Config } from '../config/schema.ts';
import { AmbitError, isAmbitError } from '../errors.ts';
import type { Journal } from '../journal/journal.ts';
import { createPlainRunner } from '../runners/plain.ts';
import { removeFolder } from '../runners/remove-folder.ts';
import { createTmpRoot, sweepLeftovers } from '../runners/sweep-leftovers.ts';
import { createWarden } from '../runners/warden.ts';
import type { Session } from '../sessions/session.ts';
import type { ServerDefinition } from '../upstreams/definition.ts';
import { createEraVerdicts } from '../upstreams/era-verdicts.ts';
import type { Call, Link } from '../upstreams/link.ts';
import { createLinks, type Links } from '../upstreams/links.ts';
import { createSeals } from '../upstreams/relay/seals.ts';
import type { Channel } from '../wire/channel.ts';
import { readMessage } from '../wire/message.ts';
import { ProtocolFault } from '../wire/protocol-fault.ts';
import { handshakeVersions, modernVersion } from '../wire/versions.ts';

export interface Inspected {
  readonly era: 'modern' | 'handshake';
  /** Everything its `tools/list` gives, all pages. */
  readonly tools: readonly unknown[];
  readonly seconds: number;
}

export interface InspectOptions {
  readonly config: Config;
  readonly dataDir: string;
  readonly server: ServerDefinition;
  readonly approvals: Approvals;
}

const mostPages = 100;
const nowhere: Channel = {
  owner: {},
  emit: () => true,
  onDrain() {},
  gone: false,
  onGone() {},
  close() {},
};

/** Starts or calls a server as a direct session would, lists its tools, and ends it. Only what is approved starts. */
export async function inspectServer({ config, dataDir, server, approvals }: InspectOptions): Promise<Inspected> {
  const tmpParent = join(dataDir, 'tmp');
  await sweepLeftovers(tmpParent);
  const tmpRoot = await createTmpRoot(tmpParent);
  const warden = createWarden({ tmpRoot });
  const said: string[] = [];
  const links = createLinks({
    config,
    dataDir: tmpRoot,
    tmpRoot,
    runner: createPlainRunner({ warden }),
    journal: lastWords(said),
    seals: createSeals(),
    verdicts: createEraVerdicts(server.era === 'auto' ? [] : [[server.name, server.era]]),
    outward: async () => ({ delivered: false, full: undefined }),
    assertApproved: (each) => assertApproved(approvals, each),
  });
  const started = performance.now();
  try {
    const timeoutMs = config.processes.startSeconds * 1000;
    const { era, tools } = await within(timeoutMs, server.name, listTools(links, server));
    return { era, tools, seconds: (performance.now() - started) / 1000 };
  } catch (error) {
    throw explained(error, server.name, said);
  } finally {
    await links.close();
    await warden.close();
    await removeFolder(tmpRoot);
  }
}

async function listTools(links: Links, server: ServerDefinition): Promise<Pick<Inspected, 'era' | 'tools'>> {
  const session = visitor();
  try {
    const meta = {
      'io.modelcontextprotocol/protocolVersion': modernVersion,
      'io.modelcontextprotocol/clientCapabilities': {},
      'io.modelcontextprotocol/clientInfo': { name: 'ambit', version: '0' },
    };
    return { era: 'modern', tools: await pages(links.modern(session, server), { _meta: meta }) };
  } catch (error) {
    if (!(error instanceof ProtocolFault)) throw error;
  }
  const params = {
    protocolVersion: handshakeVersions[0],
    capabilities: {},
    clientInfo: { name: 'ambit', version: '0' },
  };
  const { link, version } = await links.handshake(session, server, callOf('initialize', params));
  if (version === undefined) {
    throw new AmbitError('UPSTREAM_FAILED', { what: `The server "${server.name}" refused the handshake.` });
  }
  link.notify(callOf('notifications/initialized', undefined));
  return { era: 'handshake', tools: await pages(link, {}) };
}

async function pages(link: Link, params: Record<string, unknown>): Promise<unknown[]> {
  const tools: unknown[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < mostPages; page++) {
    const reply = await link.request(callOf('tools/list', cursor === undefined ? params : { ...params, cursor }));
    const answer = reply.kind === 'message' ? (JSON.parse(reply.bytes.toString()) as Answer) : {};
    // A server without tools need not know the method.
    if (answer.error?.code === -32601) return tools;
    if (!Array.isArray(answer.result?.tools)) {
      throw new AmbitError('UPSTREAM_FAILED', { what: `The server "${link.server}" did not list its tools.` });
    }
    tools.push(...answer.result.tools);
    if (typeof answer.result.nextCursor !== 'string') return tools;
    cursor = answer.result.nextCursor;
  }
  throw new AmbitError('UPSTREAM_FAILED', { what: `The tools of "${link.server}" fill more than ${mostPages} pages.` });
}

interface Answer {
  readonly result?: { readonly tools?: unknown; readonly nextCursor?: unknown };
  readonly error?: { readonly code?: number };
}

let count = 0;
function callOf(method: string, params: Record<string, unknown> | undefined): Call {
  const id = method.startsWith('notifications/') ? {} : { id: ++count };
  const message = readMessage(Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...id, method, params })));
  return { message, edits: [], channel: nowhere, headers: {}, caller: undefined };
}

function visitor(): Session {
  const now = Date.now();
  return {
    id: 'check',
    name: undefined,
    userId: 'local',
    agentId: undefined,
    workspaceId: undefined,
    trustLevel: 'direct',
    createdAt: now,
    ttlSeconds: 3600,
    endsAt: now + 3_600_000,
    tokenDigest: '',
  };
}

/** Keeps what the server said on stderr, for whoever wants to know why it failed. */
function lastWords(said: string[]): Journal {
  return {
    record(entry) {
      if (entry['event'] === 'stderr') said.push(String(entry['line']));
      if (entry['event'] === 'start-failed') said.push(String(entry['detail']));
      if (said.length > 10) said.shift();
    },
    async close() {},
  };
}

function explained(error: unknown, name: string, said: readonly string[]): AmbitError {
  if (isAmbitError(error) && error.code === 'SERVER_NOT_APPROVED') return error;
  const reason = isAmbitError(error) || error instanceof ProtocolFault ? error.message : String(error);
  const code = isAmbitError(error) ? error.code : 'UPSTREAM_FAILED';
  const words = said.map((line) => `\n  ${line}`).join('');
  return new AmbitError(code, {
    what: `${reason}${words === '' ? '' : `\nIts last words:${words}`}`,
    hint: `Start the command of "${name}" by hand to see more.`,
    cause: error,
  });
}

async function within<T>(ms: number, name: string, work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    const error = new AmbitError('UPSTREAM_TIMEOUT', {
      what: `The server "${name}" did not answer in ${ms / 1000} s.`,
    });
    timer = setTimeout(() => reject(error), ms);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
