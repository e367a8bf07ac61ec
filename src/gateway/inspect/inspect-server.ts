import type { Config } from '../../config/schema/schema.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import { claimDataDir } from '../../lib/fs/private-files.ts';
import { toPlainLine } from '../../lib/text/escape-controls.ts';
import type { Journal, JournalEntry } from '../../observability/journal/journal.ts';
import { scrubSecrets } from '../../observability/log/scrub.ts';
import { ProtocolError } from '../../protocol/protocol-error.ts';
import { baseEnvironment } from '../../sandbox/common/base-environment.ts';
import type { OnInstall } from '../../sandbox/packages/package-store.ts';
import { readPackagePin } from '../../sandbox/packages/packages.ts';
import type { Runners } from '../../sandbox/runner.ts';
import { newSessionOf, type Session, sessionOf } from '../../sessions/session.ts';
import { packagesFolder } from '../../upstreams/access/confinement.ts';
import { prepareLaunch } from '../../upstreams/access/launch.ts';
import { describeFailure, fetchList, isUnambiguousTool } from '../../upstreams/catalog/offer.ts';
import { nameTransport, type ServerDefinition, type StdioServer, type Transport } from '../../upstreams/definition.ts';
import { createConnector } from '../../upstreams/links/connector.ts';
import { createEraVerdicts } from '../../upstreams/links/era-verdicts.ts';
import { createWidestCapabilities } from '../../upstreams/links/handshake.ts';
import { createLinks, ignoreServerMessage, type Links } from '../../upstreams/links/links.ts';
import { createProcessSlots } from '../../upstreams/links/process-slots.ts';
import { createSeals } from '../../upstreams/links/relay/seals.ts';
import { readStderrLines, StderrLines } from '../../upstreams/links/upstream-errors.ts';
import { type Approvals, assertApproved } from '../../upstreams/pins/approvals.ts';
import {
  createToolPins,
  createToolTexts,
  mergeToolPins,
  type ToolPins,
  type ToolTexts,
} from '../../upstreams/pins/pinned-tools.ts';
import type { FindFetchedPackage } from '../../upstreams/pins/server-pins.ts';
import { type Sandbox, withSandbox } from '../assembly/open-sandbox.ts';
import { askAsModern, askOverLink, createDescription } from '../routing/server-callers.ts';

/** Finds packages that were fetched into a data directory. */
export const createFetchedPackage =
  (dataDir: string): FindFetchedPackage =>
  (command, args) =>
    readPackagePin(packagesFolder(dataDir), command, args);

export interface ServerInspection {
  readonly era: 'modern' | 'handshake';
  readonly transport: Transport;
  /**
   * All tools of the server. If it needs an approval, only the tools that can be approved, with those that it offers to
   * clients with more capabilities.
   */
  readonly tools: readonly unknown[];
  readonly pins: ToolPins;
  /** The texts behind the pins. */
  readonly texts: ToolTexts;
  /** The reason why the tools for clients with more capabilities are missing. */
  readonly missing: string | undefined;
  /** The number of tools that were left out because they can be read in several ways. */
  readonly unsound: number;
  readonly seconds: number;
}

interface InspectOptions {
  readonly config: Config;
  readonly dataDir: string;
  readonly server: ServerDefinition;
  readonly approvals: Approvals;
  readonly onInstall?: OnInstall | undefined;
}

/**
 * Starts or calls a server as a direct session would, lists its tools, and ends it. Only an approved server is started.
 */
export async function inspectServer(options: InspectOptions): Promise<ServerInspection> {
  claimDataDir(options.dataDir);
  return withSandbox(options.dataDir, (sandbox) => inspectInSandbox(sandbox, options), options.onInstall);
}

/** Inspects a server with the sandbox of this process. The links of sessions are not used. */
export async function inspectInSandbox(
  { tmpRoot, runners }: Pick<Sandbox, 'tmpRoot' | 'runners'>,
  { config, server, approvals }: Omit<InspectOptions, 'dataDir' | 'onInstall'>,
): Promise<ServerInspection> {
  const output = collectOutput();
  const verdicts = createEraVerdicts();
  verdicts.applyDefinition(server.name, server.era, server.definitionHash);
  const links = createLinks({
    connect: createConnector({
      config: () => config,
      tmpRoot,
      runners,
      journal: output.journal,
      seals: createSeals(),
      contexts: undefined,
      assertApproved: (each) => assertApproved(approvals, each),
      admit: (session) => session,
      slots: createProcessSlots(() => config.processes),
      prepareLaunch: (session, each) =>
        prepareLaunch(session, each, config, { dataDir: tmpRoot, configFile: tmpRoot, signing: undefined }),
    }),
    verdicts,
    onServerMessage: ignoreServerMessage,
    messageBytes: config.limits.messageBytes,
    requireAccess: (session) => ({ session, server }),
  });
  try {
    await installPackage(runners, server, approvals);
    const started = performance.now();
    const timeoutMs = config.processes.startSeconds * 1000;
    const list = (capabilities: string) =>
      withTimeout(
        listTools(links, server, capabilities),
        timeoutMs,
        `The server "${server.name}" did not answer in ${timeoutMs / 1000} s.`,
      );
    const plain = await list('{}');
    const seconds = (performance.now() - started) / 1000;
    const era = verdicts.get(server.name) ?? 'handshake';
    const transport = nameTransport(server, verdicts.usesSse(server.name));
    return { era, transport, seconds, ...(await addToolsOfOthers(server, plain, list)) };
  } catch (error) {
    throw explainFailure(error, server, output.lines());
  } finally {
    await links.close();
  }
}

/** Installs the package of a server, if it has one, so that the time for that does not count. */
async function installPackage(runners: Runners, server: ServerDefinition, approvals: Approvals): Promise<void> {
  if (server.kind !== 'stdio') return;
  assertApproved(approvals, server);
  const { command, args, env } = server;
  await runners.directPackages.ready({ command, args, env: baseEnvironment(process.env, '', env) });
}

interface ListedTools {
  readonly texts: readonly string[];
  readonly unsound: number;
}

/**
 * Lists the tools of a client with these capabilities. A server of the handshake era is started again for other
 * capabilities.
 */
async function listTools(links: Links, server: ServerDefinition, capabilities: string): Promise<ListedTools> {
  const session = createInspectionSession();
  const request = createDescription(capabilities);
  // The first listing learns the era.
  const separate = capabilities === '{}' ? undefined : links.openSeparately(session, server, request);
  const ask =
    separate === undefined ? askAsModern(links, session, server, request) : askOverLink(session, separate, request);
  // A server without tools need not know the method.
  let unclear = 0;
  const texts = (await fetchList(ask, 'tools/list', 'tools', undefined, () => unclear++)) ?? [];
  const shown = server.source === 'operator' ? texts : texts.filter(isUnambiguousTool);
  return { texts: shown, unsound: unclear + texts.length - shown.length };
}

/** Adds the tools of clients that support everything. A server without an approval has no pins, so it is not asked. */
async function addToolsOfOthers(
  server: ServerDefinition,
  plain: ListedTools,
  list: (capabilities: string) => Promise<ListedTools>,
): Promise<Pick<ServerInspection, 'tools' | 'pins' | 'texts' | 'unsound' | 'missing'>> {
  const parse = (texts: readonly string[]) => texts.map((text) => JSON.parse(text) as unknown);
  const tools = parse(plain.texts);
  const pins = createToolPins(tools);
  const found = { tools, pins, texts: createToolTexts([tools]), unsound: plain.unsound, missing: undefined };
  if (server.source === 'operator') return found;
  try {
    const wide = await list(createWidestCapabilities(server.push));
    const known = new Set(plain.texts);
    const others = parse(wide.texts);
    return {
      ...found,
      tools: parse([...plain.texts, ...wide.texts.filter((text) => !known.has(text))]),
      pins: mergeToolPins([pins, createToolPins(others)]),
      texts: createToolTexts([tools, others]),
      unsound: Math.max(plain.unsound, wide.unsound),
    };
  } catch (error) {
    return { ...found, missing: describeFailure(error) };
  }
}

function createInspectionSession(): Session {
  const defaults = { id: 'check', tokenDigests: [], ttlSeconds: 3600, lifetimeSeconds: 3600 };
  const now = Date.now();
  const times = { createdAt: now, lastActiveAt: now, expiresAt: now + 3_600_000, endsAt: now + 3_600_000 };
  return sessionOf({ ...newSessionOf({ userId: 'local', trustLevel: 'direct' }, defaults), ...times, version: 1 });
}

/** The number of lines that are shown of a server that does not start. */
const maxLines = 20;

/** Collects the last lines of stderr of the last process: a server whose era is unknown may be started twice. */
function collectOutput(): { readonly journal: Pick<Journal, 'record'>; lines(): readonly string[] } {
  let lines: string[] = [];
  function record({ event, line }: JournalEntry): void {
    if (event === 'started') lines = [];
    if (event === 'stderr') lines = [...lines, toPlainLine(String(line))].slice(-maxLines);
  }
  return { journal: { record }, lines: () => lines };
}

/** Explains to the operator why a server could not be asked. Unlike callers, the operator sees addresses and causes. */
function explainFailure(error: unknown, server: ServerDefinition, said: readonly string[]): AmbitError {
  if (isAmbitError(error) && error.code === 'SERVER_NOT_APPROVED') return error;
  const known = isAmbitError(error) || error instanceof ProtocolError;
  const { cause } = error as Error;
  const stderr = readStderrLines(error).length > 0 ? readStderrLines(error) : said;
  const what = cause instanceof StderrLines ? cause.plainMessage : known ? error.message : String(error);
  const details = [
    ...(server.kind === 'http' ? [`Host: ${server.url.host}`] : []),
    ...(cause === undefined || cause instanceof StderrLines ? [] : [`Cause: ${describeCause(cause)}`]),
  ];
  return new AmbitError(isAmbitError(error) ? error.code : 'UPSTREAM_FAILED', {
    what: [what, ...details].join('\n'),
    hint: chooseHint(error, server),
    cause: new StderrLines(what, stderr),
  });
}

const maxCauseLength = 2000;

function describeCause(cause: unknown): string {
  return scrubSecrets(String(cause).replace(/^Error: /, '')).slice(0, maxCauseLength);
}

/** The hint of the error where it has one of its own. */
function chooseHint(error: unknown, { kind, name }: ServerDefinition): string {
  const isOwn = isAmbitError(error) && error.hint !== error.row.hint;
  if (isOwn) return error.hint;
  return kind === 'http' ? 'Check the url of the server.' : `Run the command of "${name}" by hand to see more.`;
}

/** Fetches the package of a server, if it has one and it is not there yet. Nothing of it is run. */
export async function fetchPackage(
  dataDir: string,
  { command, args }: StdioServer,
  onInstall?: OnInstall,
): Promise<void> {
  claimDataDir(dataDir);
  await withSandbox(dataDir, ({ runners }) => runners.packages.ready(command, args), onInstall);
}
