import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { findWorkspaceProblems, listWorkspaceFolders } from '../../config/load/workspace-folders.ts';
import { defineServers } from '../../upstreams/definition.ts';
import { type Command, jsonFlag } from '../command.ts';
import { type Examination, examineMachine, type Finding } from '../doctor/examine.ts';
import { loadConfiguration } from '../io/config-paths.ts';
import { announceConfiguration, findGateway } from '../io/find-gateway.ts';
import { findTextWidth, paintState, paintText, printData, wrapText } from '../io/output.ts';
import { showProgress } from '../io/progress.ts';

const gap = 2;
const renderStoreName = (name: string): string => (name === 'data directory' ? name : `store ${name}`);

export const doctorCommand: Command = {
  help: 'Check what this machine supports and how to fix the rest',
  flags: { json: jsonFlag },
  async run(invocation) {
    // It examines the machine in any case, so it refuses nothing where several gateways are running.
    const paths = await findGateway(invocation, { orDefault: true });
    const config = existsSync(paths.configFile) ? await loadConfiguration(paths) : undefined;
    if (config !== undefined) announceConfiguration(invocation, paths);
    const { store = { kind: 'sqlite' as const } } = config ?? {};
    const servers = config === undefined ? [] : defineServers(config, dirname(paths.configFile)).values();
    const workspaceProblems = config === undefined ? [] : findWorkspaceProblems(config, true);
    const folders = config === undefined ? [] : listWorkspaceFolders(config);
    const examination = await showProgress(
      'Checking this machine',
      examineMachine({ store, dataDir: paths.dataDir, servers, folders, workspaceProblems }),
    );
    printData(invocation, examination, () => renderExamination(examination));
    return examination.ok ? 0 : 1;
  },
};

/** Renders the findings as a table no wider than a terminal, and the remedies below it. */
export function renderExamination({ findings }: Examination): string {
  const names = findings.map(({ kind, name }) =>
    kind === 'limit' || kind === 'server' ? `${kind} ${name}` : kind === 'store' ? renderStoreName(name) : name,
  );
  const nameWidth = Math.max(...names.map((name) => name.length));
  const stateWidth = Math.max(...findings.map(({ state }) => state.length));
  const indent = nameWidth + stateWidth + 2 * gap;
  const rows = findings.flatMap(({ state, detail }, i) => {
    const [first = '', ...more] = wrapText(detail, findTextWidth() - indent);
    const name = (names[i] as string).padEnd(nameWidth + gap);
    return [
      `${name}${paintState(state.padEnd(stateWidth + gap))}${first}`,
      ...more.map((line) => ' '.repeat(indent) + line),
    ];
  });
  return [...rows, ...renderRemedies(findings, names)].map((line) => line.trimEnd()).join('\n');
}

/** Lists each remedy once, also when it fixes several findings. */
function renderRemedies(findings: readonly Finding[], names: readonly string[]): string[] {
  const remedies = new Map<string, string[]>();
  findings.forEach(({ remedy }, i) => {
    if (remedy !== null) remedies.set(remedy, [...(remedies.get(remedy) ?? []), names[i] as string]);
  });
  return [...remedies].flatMap(([remedy, whose]) => [
    '',
    ...wrapText(`${whose.join(', ')}:`, findTextWidth()).map((line) => paintText('bold', line)),
    ...wrapText(remedy, findTextWidth() - gap).map((line) => ' '.repeat(gap) + line),
  ]);
}
