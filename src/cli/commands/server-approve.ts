import { isAmbitError } from '../../errors.ts';
import { summarizeFailure, summarizeInspection } from '../../gateway/inspect/check-server.ts';
import { fetchPackage, inspectServer } from '../../gateway/inspect/inspect-server.ts';
import { toPlainLine } from '../../lib/text/escape-controls.ts';
import { formatCount } from '../../lib/text/format-count.ts';
import type { Log } from '../../observability/log/log.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import { readStderrLines } from '../../upstreams/links/upstream-errors.ts';
import { assertApproved } from '../../upstreams/pins/approvals.ts';
import { createToolDiffs } from '../../upstreams/pins/approved-texts.ts';
import { describeUnpinned } from '../../upstreams/pins/server-pins.ts';
import { describeCommand, describeRewriters, serverOrigin } from '../../upstreams/pins/show-server.ts';
import { type Command, type Invocation, jsonFlag, requirePositional } from '../command.ts';
import { askConfirmation, isTerminal, printLines, yesFlag } from '../io/ask.ts';
import type { ConfigPaths } from '../io/config-paths.ts';
import { watchInstalls } from '../io/install-progress.ts';
import { printData, renderPairs, renderToolPart } from '../io/output.ts';
import { showProgress } from '../io/progress.ts';
import { loadServers, loadTargetServers, requireServer, type ServerSetup } from './server.ts';

export const serverCheck: Command = {
  operands: 'NAME',
  help: 'Start a server once and show what it offers',
  flags: { json: jsonFlag },
  async run(invocation) {
    const name = requirePositional(invocation, 'NAME');
    const { servers, approvals, config, paths } = await loadTargetServers(invocation);
    const server = requireServer(servers, name);
    const verdict = approvals.check(server);
    if (verdict.state !== 'approved') printLines(verdict.changes.map(({ line }) => `  ${line}`));
    assertApproved(approvals, server);
    const { dataDir } = paths;
    const onInstall = watchInstalls(invocation);
    const inspecting = inspectServer({ config, dataDir, server, approvals, onInstall });
    const inspected = showProgress(`Starting ${name}`, inspecting);
    const inspection = await inspected.catch((error: unknown) => {
      printFailure(invocation, server, error);
      throw error;
    });
    const { missing, unsound } = inspection;
    const found = summarizeInspection(server, approvals, inspection);
    const { transport, era, tools, seconds, approval, changes } = found;
    printData(invocation, found, () =>
      renderPairs([
        ['name', name],
        ['transport', transport],
        ['era', era ?? '-'],
        ['tools', String(tools)],
        ['answered in', `${(seconds ?? 0).toFixed(2)} s`],
        ['approval', approval],
        ...changes.map((line) => ['changed', line] as const),
      ]),
    );
    if (changes.length > 0) {
      printLines(['Changed tools are hidden until you approve them:', `  ambit server approve ${name}`]);
    }
    printMissing(missing);
    if (unsound > 0) {
      printLines([`${formatCount(unsound, 'tool')} hidden: clients could read the definition differently.`]);
      printLines(['  A tool needs one name, keys spelled as in MCP, and no duplicate key.']);
    }
  },
};

/** Prints what a server wrote that did not start; as data with `--json`. The reason itself is printed with the exit. */
function printFailure(invocation: Invocation, server: ServerDefinition, error: unknown): void {
  const stderr = readStderrLines(error);
  if (invocation.flags.json === true && isAmbitError(error)) {
    printData(invocation, { ...summarizeFailure(server, error), stderr }, () => '');
  } else if (stderr.length > 0) printLines(['Last lines of its stderr:', ...stderr.map((line) => `  ${line}`)]);
}

/** Says why some tools are missing: those for clients that support sampling, elicitation, roots and more. */
function printMissing(reason: string | undefined): void {
  if (reason === undefined) return;
  const line = `Note: the tools for clients with more capabilities could not be listed: ${toPlainLine(reason)}`;
  printLines([line, '  Such tools are hidden if they are not approved.']);
}

export const serverApprove: Command = {
  operands: 'NAME',
  help: 'Allow an imported or project server to start as it is now',
  flags: { yes: yesFlag, json: jsonFlag },
  async run(invocation) {
    const name = requirePositional(invocation, 'NAME');
    return approveServer(invocation, await loadTargetServers(invocation), name);
  },
};

/** Shows a server to the person at the terminal, and approves it as shown. */
async function approveServer(invocation: Invocation, declared: ServerSetup, name: string): Promise<number> {
  const server = requireServer(declared.servers, name);
  if (server.source === 'operator')
    return reportApproval(
      invocation,
      name,
      'not needed',
      'no approval needed, because your configuration declares it.',
    );
  const verdict = declared.approvals.check(server);
  if (verdict.state === 'approved') return approveTools(invocation, declared, server);
  await fetchServerPackage(invocation, declared, server);
  // The shown state is the one that is pinned, also when files change while the person reads.
  const shown = await declared.approvals.preview(server);
  printLines([`${name}, from ${serverOrigin(server, declared.paths)}`, ...describeCommand(shown, server)]);
  const exchangeable = describeRewriters(shown, declared.config);
  const notes = [...describeUnpinned(shown, server).map((line) => `  ${line}`), ...exchangeable];
  if (notes.length > 0) printLines(['Note:', ...notes]);
  if (verdict.changes.length > 0) {
    const approval = declared.approvals.list().find((each) => each.name === name)?.approvedAt;
    printLines([
      approval === undefined || verdict.state === 'exposed' ? 'Note:' : `Since it was approved (${approval}):`,
    ]);
    printLines(verdict.changes.map(({ line }) => `  ${line}`));
  }
  if (!(await askConfirmation(invocation, `Allow "${name}" to start like this?`))) return reportRefusal(name);
  await declared.approvals.approve(server, shown);
  return reportApproval(invocation, name, 'approved', 'approved. A running gateway applies this within a second.');
}

/**
 * Fetches the package, so that its present version is approved. If that fails, the first sandbox that needs it decides.
 */
async function fetchServerPackage(
  invocation: Invocation,
  { paths }: ServerSetup,
  server: ServerDefinition,
): Promise<void> {
  if (server.kind !== 'stdio' || !server.trust.includes('sandboxed')) return;
  await fetchPackage(paths.dataDir, server, watchInstalls(invocation)).catch((error: unknown) => {
    printLines([`Note: ${error instanceof Error ? error.message : error}`]);
  });
}

/** Approves changed descriptions of tools. The server itself is approved already. */
async function approveTools(invocation: Invocation, declared: ServerSetup, server: ServerDefinition): Promise<number> {
  const { approvals, config, paths } = declared;
  const { name } = server;
  if (!approvals.hasPinnedTools(name)) return reportApproval(invocation, name, 'approved', 'already approved.');
  const onInstall = watchInstalls(invocation);
  const inspecting = inspectServer({ config, dataDir: paths.dataDir, server, approvals, onInstall });
  const inspected = showProgress(`Starting ${name}`, inspecting);
  const { pins, texts, missing } = await inspected.catch((error: unknown) => {
    printFailure(invocation, server, error);
    throw error;
  });
  printMissing(missing);
  const changes = approvals.toolsChanged(server, pins);
  if (changes.length === 0) return reportApproval(invocation, name, 'approved', 'already approved, with its tools.');
  printLines([`The tools of ${name} changed since they were approved:`]);
  const describeParts = createToolDiffs({
    ...{ approved: approvals.find(name)?.tools ?? {}, approvedTexts: approvals.texts.read(name) },
    ...{ now: pins, nowTexts: texts },
  });
  for (const change of changes) {
    printLines(change.changes.map(({ line }) => `  ${line}`));
    printLines(describeParts(change).flatMap(renderToolPart));
  }
  if (!(await askConfirmation(invocation, `Show the tools of "${name}" to models like this?`)))
    return reportRefusal(name);
  await approvals.pinTools(server, pins, { replace: true, texts });
  return reportApproval(invocation, name, 'approved', 'approved with these tools.');
}

function reportRefusal(name: string): number {
  printLines([`Not approved; "${name}" will not start.`]);
  return 1;
}

function reportApproval(invocation: Invocation, name: string, approval: string, words: string): number {
  printData(invocation, { name, approval }, () => `${name}: ${words}`);
  return 0;
}

/**
 * Asks the person at the terminal about unapproved servers before the gateway opens. Without a terminal they are
 * logged.
 */
export async function askForApprovals(invocation: Invocation, paths: ConfigPaths, log: Log): Promise<void> {
  const declared = await loadServers(invocation, paths);
  const { servers, approvals } = declared;
  try {
    for (const server of servers.values()) {
      if (approvals.check(server).state === 'approved') continue;
      if (isTerminal()) await approveServer({ ...invocation, flags: {} }, declared, server.name);
      else log.warn('server not approved', { server: server.name, hint: `ambit server approve ${server.name}` });
    }
  } finally {
    approvals.close();
  }
}
