import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ClientName, clientNames, clients, type Era } from '../clients/connect/connect-client.ts';
import { repository } from '../start-ambit.ts';
import { type Feature, featureNames } from './feature-checks.ts';
import type { Outcome, Result } from './results.ts';
import { versionOf } from './servers/install.ts';
import type { Upstream } from './upstreams.ts';

export const pagePath = join(repository, 'docs', 'reference', 'compatibility.md');

const titles: Readonly<Record<Feature, string>> = {
  tools: 'list tools',
  call: 'call a tool',
  progress: 'progress, in order',
  cancel: 'cancel a call',
  logging: 'log messages',
  resources: 'list and read resources',
  templates: 'resource templates',
  subscribe: 'subscribe to a resource',
  prompts: 'list and get prompts',
  completion: 'completion',
  elicitation: 'elicitation',
  sampling: 'sampling',
  roots: 'roots',
  listChanged: 'list_changed',
};
const eraTitles: Readonly<Record<Era, string>> = {
  handshake: 'handshake-era',
  modern: 'modern',
};

/** docs/reference/compatibility.md, as the results say. */
export function writePage(results: readonly Result[], upstreams: readonly Upstream[]): string {
  const reasons: string[] = [];
  const number = (reason: string) => {
    if (!reasons.includes(reason)) reasons.push(reason);
    return String(reasons.indexOf(reason) + 1);
  };
  const tables = (['handshake', 'modern'] as const).flatMap((clientEra) =>
    (['handshake', 'modern'] as const).flatMap((serverEra) =>
      writeTable(clientEra, serverEra, results, upstreams, number),
    ),
  );
  return `${[
    '# Compatibility',
    '',
    'This page shows which MCP features work through Ambit, for combinations of clients and servers. MCP has two protocol eras:',
    'the handshake era (versions up to 2025-11-25) and the modern era (2026-07-28). Ambit translates between them, so there are four',
    'combinations. The test `test/journeys/cells` runs the real packages, generates this page, and fails if a result changes.',
    '',
    'The columns are servers, and [versions](#versions) lists their packages and the tested clients. Each combination was tested at',
    '`/mcp` together with other servers. If the eras differ, it was also tested at `/mcp/{server}` and through `ambit stdio`.',
    '✓ means that the feature works with both tested clients of the era and on all these paths. A number refers to a',
    '[reason](#reasons).',
    '',
    'See also: [operating systems](../../README.md#platforms), and [client programs](../how-to/connect-a-client.md) such as Claude',
    'Code and Cursor. Ambit needs Node 20.19 or later.',
    '',
    ...tables,
    '## Reasons',
    '',
    ...reasons.map((reason, index) => `${index + 1}. ${reason}`),
    '',
    '## Versions',
    '',
    ...listVersions(upstreams),
  ].join('\n')}\n`;
}

function writeTable(
  clientEra: Era,
  serverEra: Era,
  results: readonly Result[],
  upstreams: readonly Upstream[],
  number: (reason: string) => string,
): string[] {
  const columns = upstreams.filter(({ era }) => era === serverEra);
  const names = clientNames.filter((name) => clients[name].era === clientEra);
  const rows = featureNames.map((feature) => {
    const cells = columns.map(({ name }) => {
      const marks = results
        .filter((result) => result.upstream === name && names.includes(result.client))
        .map(({ outcomes }) => writeMark(outcomes.get(feature), number));
      return [...new Set(marks)].join(', ');
    });
    return `| ${[titles[feature], ...cells].join(' | ')} |`;
  });
  return [
    `## ${capitalize(eraTitles[clientEra])} client, ${eraTitles[serverEra]} server`,
    '',
    `| | ${columns.map(({ title }) => title).join(' | ')} |`,
    `|---|${columns.map(() => '---|').join('')}`,
    ...rows,
    '',
  ];
}

function capitalize(word: string): string {
  return `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`;
}

function writeMark(outcome: Outcome | undefined, number: (reason: string) => string): string {
  if (outcome === undefined) return 'not tried';
  if (outcome.kind === 'named') return number(outcome.reason);
  return outcome.kind === 'works' ? '✓' : '✗';
}

function listVersions(upstreams: readonly Upstream[]): string[] {
  const lock = JSON.parse(readFileSync(join(repository, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version: string } | undefined>;
  };
  const versionAt = (name: string) => lock.packages[`node_modules/${name}`]?.version ?? versionOf(name);
  const client = (name: ClientName) => {
    const [, found = ''] = /`([^`]+)`/.exec(clients[name].title) ?? [];
    return `${clients[name].title}: ${versionAt(found)}, a ${eraTitles[clients[name].era]} client`;
  };
  const packages = [...new Set(upstreams.flatMap((upstream) => upstream.packages))].sort();
  return [
    ...clientNames.map((name) => `- ${client(name)}`),
    ...packages.map((name) => `- \`${name}\`: ${versionAt(name)}`),
  ];
}
