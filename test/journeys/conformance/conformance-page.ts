import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Difference } from './compare-runs.ts';
import type { Revision } from './run-conformance.ts';

export const resultsPath = join(import.meta.dirname, 'results.json');

/** A comparison at one address over one transport, as results.json keeps it. */
export interface ComparedRow {
  readonly server: string;
  readonly revision: Revision;
  readonly address: string;
  readonly transport: string;
  readonly total: number;
  readonly differences: readonly Difference[];
}

/** Why a scenario is not the same through Ambit. A scenario without an entry fails the test of the page. */
const reasons: Readonly<Record<string, string>> = {
  'server-sse-multiple-streams':
    'The fixture answers with JSON over HTTP. Where Ambit makes the answer itself, it uses the type that the client names first in `Accept`. Here that is an event stream, so one more check passes than directly.',
  'server-sse-polling':
    'Over HTTP, the fixture closes the stream of a call early. A stdio server has no stream to close, so the suite has nothing to resume.',
};

export function readComparedRows(): ComparedRow[] {
  return JSON.parse(readFileSync(resultsPath, 'utf8')) as ComparedRow[];
}

/** Writes the part of the compatibility page about the conformance suite. */
export function writeConformancePart(rows: readonly ComparedRow[]): string {
  const lines = rows.map(({ revision, address, transport, total, differences }) => {
    const named = differences.map(({ scenario }) => `\`${scenario}\``).join(', ');
    return `| ${revision} | \`${address}\` | ${transport} | ${total - differences.length} of ${total} | ${named} |`;
  });
  const explained = rows.flatMap(({ differences }) =>
    differences.map(({ scenario }) => `- \`${scenario}\`: ${explainDifference(scenario)}`),
  );
  return `${[
    '\n## Conformance suite',
    '',
    'The official conformance suite (`--suite all`, with its extension scenarios) runs against one server directly and through',
    'Ambit. A scenario is equal if every check has the same result both times. At `/mcp`, a proxy removes the server prefix from',
    'names, because the suite expects fixed tool names. Warnings and skipped checks count. `npm run proof` repeats the comparison.',
    '',
    '| revision | address | transport | equal | different |',
    '|---|---|---|---|---|',
    ...lines,
    ...(explained.length === 0 ? [] : ['', 'The differences:', '']),
    ...[...new Set(explained)].sort(),
  ].join('\n')}\n`;
}

function explainDifference(scenario: string): string {
  const reason = reasons[scenario];
  if (reason === undefined) throw new Error(`conformance-page.ts has no reason for the difference in ${scenario}`);
  return reason;
}
