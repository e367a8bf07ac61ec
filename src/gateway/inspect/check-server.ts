import type { ErrorCode } from '../../errors.ts';
import { createScrubber, listSecretArguments, listSecretValues } from '../../observability/log/scrub.ts';
import { nameTransport, type ServerDefinition, type Transport } from '../../upstreams/definition.ts';
import { readStderrLines } from '../../upstreams/links/upstream-errors.ts';
import type { Approvals } from '../../upstreams/pins/approvals.ts';
import { asAmbitError } from '../refusal.ts';
import type { ServerInspection } from './inspect-server.ts';

/** The result of starting or calling a server once. */
export interface ServerCheck {
  readonly name: string;
  readonly transport: Transport;
  /** Null, like the next two, if the server did not answer. */
  readonly era: 'modern' | 'handshake' | null;
  /** The number of its tools. */
  readonly tools: number | null;
  readonly seconds: number | null;
  readonly approval: 'not needed' | 'approved';
  /** The differences between its tools and the approved ones. */
  readonly changes: readonly string[];
  /** The reason why the tools for clients with more capabilities could not be listed. */
  readonly missing: string | null;
  /** The number of tools that are hidden because clients could read them in different ways. */
  readonly unsound: number;
  /** The reason why the server did not answer. */
  readonly error: { readonly code: ErrorCode; readonly message: string; readonly hint: string } | null;
  /** The last lines that it wrote to stderr, if it did not answer. */
  readonly stderr: readonly string[];
}

function startCheck(server: ServerDefinition): ServerCheck {
  return {
    name: server.name,
    transport: nameTransport(server),
    ...{ era: null, tools: null, seconds: null },
    approval: server.source === 'operator' ? 'not needed' : 'approved',
    ...{ changes: [], missing: null, unsound: 0, error: null, stderr: [] },
  };
}

/** Summarizes the inspection of a server for people. */
export function summarizeInspection(
  server: ServerDefinition,
  approvals: Pick<Approvals, 'toolsChanged'>,
  { era, transport, tools, pins, missing, unsound, seconds }: ServerInspection,
): ServerCheck {
  const changes = approvals
    .toolsChanged(server, pins)
    .filter(({ kind }) => missing === undefined || kind !== 'removed')
    .flatMap((tool) => tool.changes.map(({ line }) => line));
  const count = server.source === 'operator' ? tools.length : Object.keys(pins).length;
  return { ...startCheck(server), transport, era, tools: count, seconds, changes, missing: missing ?? null, unsound };
}

/** Summarizes why a server did not answer. Its configured secrets are removed from what it wrote. */
export function summarizeFailure(server: ServerDefinition, error: unknown): ServerCheck {
  const secrets =
    server.kind === 'http'
      ? listSecretValues({ ...server.headers, url: server.url.href })
      : [...listSecretValues(server.env), ...listSecretArguments(server.args)];
  const scrub = createScrubber(secrets);
  const { code, message, hint } = asAmbitError(error);
  const shown = { code, message: scrub(message), hint };
  return { ...startCheck(server), error: shown, stderr: readStderrLines(error).map(scrub) };
}
