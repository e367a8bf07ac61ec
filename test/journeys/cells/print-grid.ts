import { clientNames } from '../clients/connect/connect-client.ts';
import { featureNames } from './feature-checks.ts';
import { entrances, type Result } from './results.ts';

/** Features down, clients across, grouped by upstream, one block for each entrance; a letter names a reason. */
export function printGrid(results: readonly Result[], upstreams: readonly string[]): string {
  const reasons: string[] = [];
  const mark = (result: Result | undefined, feature: (typeof featureNames)[number]) => {
    const outcome = result?.outcomes.get(feature);
    if (outcome === undefined) return ' ';
    if (outcome.kind !== 'named') return outcome.kind === 'works' ? '✓' : '✗';
    if (!reasons.includes(outcome.reason)) reasons.push(outcome.reason);
    return String.fromCharCode(97 + reasons.indexOf(outcome.reason));
  };
  const lines: string[] = [];
  for (const entrance of entrances) {
    lines.push('', `through ${entrance}; clients: ${clientNames.join(', ')}`);
    lines.push(...upstreams.map((name, index) => `${' '.repeat(13)}${'│    '.repeat(index)}╭ ${name}`));
    for (const feature of featureNames) {
      const cells = upstreams.map((upstream) => {
        const of = (client: string) =>
          results.find((each) => each.entrance === entrance && each.upstream === upstream && each.client === client);
        return clientNames.map((client) => mark(of(client), feature)).join('');
      });
      lines.push(`${feature.padEnd(13)}${cells.join(' ')}`.trimEnd());
    }
  }
  return [...lines, '', ...reasons.map((reason, index) => `${String.fromCharCode(97 + index)} ${reason}`)].join('\n');
}
