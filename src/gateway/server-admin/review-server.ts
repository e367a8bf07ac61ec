import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import { sha256Hex, toCanonicalJson } from '../../lib/json/canonical-json.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import { type Approvals, assertApproved } from '../../upstreams/pins/approvals.ts';
import { createToolDiffs, limitTexts, type ToolPart } from '../../upstreams/pins/approved-texts.ts';
import { findPinProblem, type ToolPins, type ToolTexts } from '../../upstreams/pins/pinned-tools.ts';
import { describeUnpinned } from '../../upstreams/pins/server-pins.ts';
import { describeRewriters, hideSecrets, renderVariable } from '../../upstreams/pins/show-server.ts';
import type { Sandbox } from '../assembly/open-sandbox.ts';
import { type ServerCheck, summarizeFailure, summarizeInspection } from '../inspect/check-server.ts';
import { inspectInSandbox, type ServerInspection } from '../inspect/inspect-server.ts';
import { type DefinitionView, describeDefinition, diffDefinitions, hashPins } from './describe-server.ts';

/** A tool that differs from the approved one. */
interface ReviewedTool {
  readonly tool: string;
  readonly kind: 'added' | 'changed' | 'removed';
  readonly changes: readonly string[];
  /** The members that differ, or all members of a new or removed tool. */
  readonly parts: readonly ToolPart[];
  /** Its present description. */
  readonly description: string | null;
  readonly isShortened: boolean;
}

/** Everything that a person should see before approving a server, and the hashes that say what was seen. */
export interface ServerReview {
  readonly name: string;
  readonly source: ServerDefinition['source'];
  readonly file: string | null;
  readonly approval: 'not needed' | 'approved' | 'changed' | 'exposed' | 'unapproved';
  readonly approvedAt: string | null;
  /** The differences between the server and its approval. */
  readonly changes: readonly string[];
  /** The command and its arguments, or the URL, exactly as they are pinned. */
  readonly definition: DefinitionView;
  /** The lines of the definition that changed since the approval; null if there was no approval or no change. */
  readonly definitionDiff: string | null;
  /** Its variables. Values that look like credentials are replaced by `…`. */
  readonly env: readonly { readonly name: string; readonly value: string }[];
  /** Things that may decide what runs but are not pinned, and files that a session could replace. */
  readonly notes: readonly string[];
  /** The tools that differ from the approved ones. Only an approved server is started to list them. */
  readonly tools: readonly ReviewedTool[];
  readonly definitionHash: string;
  readonly pinsHash: string;
  /** The hash of the listed tools; null if there is nothing to approve about them. */
  readonly toolsHash: string | null;
}

/** The hashes of a review, which say what the person approves. */
export interface ReviewedHashes {
  readonly definitionHash: string;
  readonly pinsHash: string;
  readonly toolsHash?: string | null | undefined;
}

export interface ServerReviews {
  /** Starts or calls an approved server once. */
  check(server: ServerDefinition): Promise<ServerCheck>;
  review(server: ServerDefinition): Promise<ServerReview>;
  /** Approves exactly what was reviewed. Throws APPROVAL_STALE if the server is different now. */
  approve(server: ServerDefinition, seen: ReviewedHashes): Promise<'not needed' | 'approved'>;
}

interface ShownTools {
  readonly pins: ToolPins;
  readonly texts: ToolTexts;
}

interface ReviewParts {
  readonly config: () => Config;
  readonly approvals: Approvals;
  readonly openSandbox: () => Promise<Pick<Sandbox, 'tmpRoot' | 'runners'>>;
}

/** A start takes memory and processor time of the calls of sessions. */
const maxChecks = 2;
/** The time for a check with the installation of a package. */
const checkMs = 180_000;
const maxReviews = 50;
const maxDescriptionLength = 20_000;

export function createServerReviews({ config, approvals, openSandbox }: ReviewParts): ServerReviews {
  /** The tools that were shown, by the hashes of the review. Exactly these are pinned, whatever the server lists later. */
  const shownTools = new Map<string, ShownTools>();
  let running = 0;

  async function inspect(server: ServerDefinition): Promise<ServerInspection> {
    assertApproved(approvals, server);
    if (running >= maxChecks) {
      throw new AmbitError('OVERLOADED', { what: `${maxChecks} servers are being checked already.` });
    }
    running++;
    // The place is taken until the work has ended, also after the time limit.
    const work = openSandbox()
      .then((sandbox) => inspectInSandbox(sandbox, { config: config(), server, approvals }))
      .finally(() => running--);
    return withTimeout(work, checkMs, `The check of "${server.name}" took longer than ${checkMs / 1000} s.`);
  }

  /** Fetches the package, so that its present version is approved. Returns the reason if that fails. */
  async function fetchPackage(server: ServerDefinition): Promise<string[]> {
    if (server.kind !== 'stdio' || !server.trust.includes('sandboxed')) return [];
    try {
      const { runners } = await openSandbox();
      const fetching = runners.packages.ready(server.command, server.args).then(() => {});
      await withTimeout(fetching, checkMs, `The package of "${server.name}" was not downloaded in time.`);
      return [];
    } catch (error) {
      return [hideSecrets((error as Error).message)];
    }
  }

  function rememberTools(key: string, shown: ShownTools): void {
    shownTools.set(key, shown);
    for (const oldest of shownTools.keys()) {
      if (shownTools.size <= maxReviews) break;
      shownTools.delete(oldest);
    }
  }

  /** Lists the tools of an approved server and compares them with the approved ones. */
  async function reviewTools(server: ServerDefinition, pinsHash: string) {
    const { tools, pins, texts, missing } = await inspect(server);
    const notes = missing === undefined ? [] : [`Tools for clients with more capabilities are not listed: ${missing}`];
    const changes = approvals.toolsChanged(server, pins);
    const problem = findPinProblem(pins);
    if (changes.length === 0) return { tools: [], notes, toolsHash: null };
    if (problem !== undefined)
      return { tools: [], notes: [...notes, `The tools cannot be approved: ${problem}.`], toolsHash: null };
    const toolsHash = sha256Hex(toCanonicalJson(pins));
    rememberTools(reviewKey(server, { definitionHash: server.definitionHash, pinsHash, toolsHash }), {
      pins,
      texts: limitTexts(texts),
    });
    const describeParts = createToolDiffs({
      ...{ approved: approvals.find(server.name)?.tools ?? {}, approvedTexts: approvals.texts.read(server.name) },
      ...{ now: pins, nowTexts: texts },
    });
    const shown = changes.map((change) => {
      const { tool, kind, changes: lines } = change;
      const description = kind === 'removed' ? null : readDescription(tools, tool);
      return {
        ...{ tool, kind, changes: lines.map(({ line }) => line), parts: describeParts(change) },
        description: description?.slice(0, maxDescriptionLength).replace(/\p{Surrogate}/gu, '') ?? null,
        isShortened: (description?.length ?? 0) > maxDescriptionLength,
      };
    });
    return { tools: shown, notes, toolsHash };
  }

  return {
    async check(server) {
      assertApproved(approvals, server);
      try {
        return summarizeInspection(server, approvals, await inspect(server));
      } catch (error) {
        if (error instanceof AmbitError && error.code === 'OVERLOADED') throw error;
        return summarizeFailure(server, error);
      }
    },

    async review(server) {
      const isKnown = (await approvals.checkInPieces(server)).state === 'approved';
      const fetched = isKnown ? [] : await fetchPackage(server);
      const pins = await approvals.preview(server);
      const verdict = await approvals.checkInPieces(server);
      const pinsHash = hashPins(pins);
      const isApproved = server.source !== 'operator' && verdict.state === 'approved';
      const listed =
        isApproved && approvals.hasPinnedTools(server.name)
          ? await reviewTools(server, pinsHash)
          : { tools: [], notes: [], toolsHash: null };
      const approved = server.source === 'operator' ? undefined : approvals.find(server.name);
      const approvedAt = approvals.list().find(({ name }) => name === server.name)?.approvedAt ?? null;
      const rewriters = describeRewriters(pins, config()).map((line) => line.trim());
      return {
        ...{ name: server.name, source: server.source, file: server.file ?? null },
        approval: server.source === 'operator' ? 'not needed' : verdict.state,
        approvedAt: server.source === 'operator' ? null : approvedAt,
        changes: verdict.state === 'approved' ? [] : verdict.changes.map(({ line }) => line),
        definition: describeDefinition(pins, 'reviewer'),
        definitionDiff: (approved === undefined ? '' : diffDefinitions(approved.pinned, pins)) || null,
        env:
          server.kind === 'http' ? [] : Object.entries(server.env).map(([name, value]) => renderVariable(name, value)),
        notes: [...fetched, ...describeUnpinned(pins, server).map(hideSecrets), ...rewriters, ...listed.notes],
        tools: listed.tools,
        definitionHash: server.definitionHash,
        pinsHash,
        toolsHash: listed.toolsHash,
      };
    },

    async approve(server, seen) {
      if (server.source === 'operator') return 'not needed';
      // What is hashed here is what is pinned, also if a file changes right after this line.
      const pins = await approvals.preview(server);
      const isSame = server.definitionHash === seen.definitionHash && hashPins(pins) === seen.pinsHash;
      if (!isSame) throw new AmbitError('APPROVAL_STALE');
      if ((await approvals.checkInPieces(server)).state !== 'approved') {
        await approvals.approve(server, pins);
        return 'approved';
      }
      if (seen.toolsHash === undefined || seen.toolsHash === null) return 'approved';
      const shown = shownTools.get(reviewKey(server, seen));
      if (shown === undefined) throw new AmbitError('APPROVAL_STALE');
      await approvals.pinTools(server, shown.pins, { replace: true, texts: shown.texts });
      return 'approved';
    },
  };
}

function reviewKey({ name }: ServerDefinition, { definitionHash, pinsHash, toolsHash }: ReviewedHashes): string {
  return `${name} ${definitionHash} ${pinsHash} ${toolsHash}`;
}

function readDescription(tools: readonly unknown[], name: string): string | undefined {
  const texts = tools
    .map((tool) => tool as { readonly name?: unknown; readonly description?: unknown })
    .flatMap((tool) => (tool.name === name && typeof tool.description === 'string' ? [tool.description] : []));
  // A server may describe a tool to clients with more capabilities in another way.
  return texts.length === 0 ? undefined : [...new Set(texts)].join('\n\n');
}
