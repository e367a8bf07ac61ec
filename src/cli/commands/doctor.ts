import { existsSync } from 'node:fs';
import { type Command, jsonFlag } from '../command.ts';
import { type Examination, examine, type Finding } from '../doctor/examine.ts';
import { configOf, placesOf } from '../io/config-paths.ts';
import { columns, print, wrap } from '../io/output.ts';

const gap = 2;

const storeName = (name: string): string => (name === 'data directory' ? name : `store ${name}`);

export const doctorCommand: Command = {
  path: ['doctor'],
  help: 'what this machine can do, and what mends what it cannot; exit 1 when something is missing',
  flags: { json: jsonFlag },
  async run(invocation) {
    const places = placesOf(invocation);
    const store = existsSync(places.configFile) ? (await configOf(places)).store : { kind: 'sqlite' as const };
    const examination = await examine({ store, dataDir: places.dataDir });
    print(invocation, examination, () => showExamination(examination));
    return examination.ok ? 0 : 1;
  },
};

/** A table no wider than a terminal, and below it what to do. */
export function showExamination({ findings }: Examination): string {
  const names = findings.map(({ kind, name }) =>
    kind === 'limit' ? `limit ${name}` : kind === 'store' ? storeName(name) : name,
  );
  const wide = Math.max(...names.map((name) => name.length));
  const states = Math.max(...findings.map(({ state }) => state.length));
  const before = wide + states + 2 * gap;
  const rows = findings.flatMap(({ state, detail }, i) => {
    const [first = '', ...more] = wrap(detail, columns - before);
    const name = (names[i] as string).padEnd(wide + gap);
    return [`${name}${state.padEnd(states + gap)}${first}`, ...more.map((line) => ' '.repeat(before) + line)];
  });
  return [...rows, ...toMend(findings, names)].map((line) => line.trimEnd()).join('\n');
}

/** The same remedy for several things is said once. */
function toMend(findings: readonly Finding[], names: readonly string[]): string[] {
  const remedies = new Map<string, string[]>();
  findings.forEach(({ remedy }, i) => {
    if (remedy !== null) remedies.set(remedy, [...(remedies.get(remedy) ?? []), names[i] as string]);
  });
  return [...remedies].flatMap(([remedy, whose]) => [
    '',
    ...wrap(`${whose.join(', ')}:`, columns),
    ...wrap(remedy, columns - gap).map((line) => ' '.repeat(gap) + line),
  ]);
}
