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
    'The fixture answers with an event stream. Ambit answers with JSON where one message is the whole answer.',
  'server-sse-polling':
    'The fixture closes the stream of a call early, so that the client has to resume it. Ambit answers with JSON, so the suite cannot test the stream.',
  'http-custom-header-server-validation':
    'A stdio server does not see HTTP headers, and Ambit does not compare `Mcp-Param-*` with the arguments for it.',
  'tasks-capability-negotiation': 'Ambit refuses an unknown task id before it looks at the capabilities of the client.',
  'tasks-dispatch-and-envelope':
    'Ambit refuses the task id of a removed method before the server can refuse the method.',
};
const extensionAtShared = 'Ambit does not declare the extension at `/mcp`, and does not pass on its methods.';

export function readComparedRows(): ComparedRow[] {
  return JSON.parse(readFileSync(resultsPath, 'utf8')) as ComparedRow[];
}

/** Writes the part of the compatibility page about the conformance suite. */
export function writeConformancePart(rows: readonly ComparedRow[]): string {
  const lines = rows.map(({ revision, address, transport, total, differences }) => {
    const named = differences.map(({ scenario }) => `\`${scenario}\``).join(', ');
    return `| ${revision} | \`${address}\` | ${transport} | ${total - differences.length} of ${total} | ${named} |`;
  });
  const explained = rows.flatMap(({ address, differences }) =>
    differences.map(({ scenario }) => `- \`${scenario}\` at \`${address}\`: ${explainDifference(scenario, address)}`),
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

function explainDifference(scenario: string, address: string): string {
  if (address === '/mcp' && /^(tasks|sep-2640)-/.test(scenario)) return extensionAtShared;
  const reason = reasons[scenario];
  if (reason === undefined) throw new Error(`conformance-page.ts has no reason for the difference in ${scenario}`);
  return reason;
}
