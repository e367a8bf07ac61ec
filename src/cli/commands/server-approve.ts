import { fetchPackage } from '../../gateway/inspect/fetch-package.ts';
import { inspectServer } from '../../gateway/inspect/inspect-server.ts';
import type { Log } from '../../observability/log/log.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Approvals } from '../../upstreams/pins/approvals.ts';
import { assertApproved } from '../../upstreams/pins/assert-approved.ts';
import { whatIsNotPinned } from '../../upstreams/pins/not-pinned.ts';
import { pinsOf } from '../../upstreams/pins/tool-pins.ts';
import { type Command, type Invocation, jsonFlag, onlyWord } from '../command.ts';
import { agreed, isTerminal, tell, yesFlag } from '../io/ask.ts';
import { facts, print } from '../io/output.ts';
import { originOf, whatWouldRun, whoCouldExchange } from '../io/show-server.ts';
import { type Declared, declaredServers, serverNamed } from './server.ts';

export const serverCheck: Command = {
  path: ['server', 'check'],
  operands: 'NAME',
  help: 'start it once and say what it offers; exit 1 when it does not start',
  flags: { json: jsonFlag },
  async run(invocation) {
    const name = onlyWord(invocation, 'the name of the server');
    const { servers, approvals, config, places } = await declaredServers(invocation);
    const server = serverNamed(servers, name);
    const verdict = approvals.check(server);
    if (verdict.state !== 'approved') tell(verdict.changes.map(({ line }) => `  ${line}`));
    assertApproved(approvals, server);
    const { era, tools, unsound, seconds } = await inspectServer({
      config,
      dataDir: places.dataDir,
      server,
      approvals,
    });
    const changes = approvals
      .toolsChanged(server, pinsOf(tools))
      .flatMap((tool) => tool.changes.map(({ line }) => line));
    const approval = server.source === 'operator' ? 'not needed' : 'approved';
    const found = { name, transport: server.kind, era, tools: tools.length, seconds, approval, changes };
    print(invocation, found, () =>
      facts([
        ['name', name],
        ['transport', server.kind],
        ['era', era],
        ['tools', String(tools.length)],
        ['answered in', `${seconds.toFixed(2)} s`],
        ['approval', approval],
        ...changes.map((line) => ['changed', line] as const),
      ]),
    );
    if (changes.length > 0) {
      tell(['Tools that changed are withheld until they are approved:', `  ambit server approve ${name}`]);
    }
    if (unsound > 0) {
      tell([`Entries of its list that are withheld, since readers take them differently: ${unsound}.`]);
      tell(['  A tool needs one name, members spelled as in MCP, and no key twice.']);
    }
    return 0;
  },
};

export const serverApprove: Command = {
  path: ['server', 'approve'],
  operands: 'NAME',
  help: 'let a server of a project or imported file start, as it is now',
  flags: { yes: yesFlag, json: jsonFlag },
  async run(invocation) {
    const name = onlyWord(invocation, 'the name of the server');
    const declared = await declaredServers(invocation);
    const server = serverNamed(declared.servers, name);
    if (server.source === 'operator')
      return done(invocation, name, 'not needed', 'It is your own: no approval needed.');
    const verdict = declared.approvals.check(server);
    if (verdict.state === 'approved') return approveTools(invocation, declared, server);
    await fetched(declared, server);
    // What is shown is what gets pinned, whatever happens to the files while the person reads.
    const shown = declared.approvals.preview(server);
    tell([`${name}, from ${originOf(server, declared.places)}`, ...whatWouldRun(shown, server)]);
    const exchangeable = whoCouldExchange(shown, declared.config);
    const notes = [...whatIsNotPinned(shown, server).map((line) => `  ${line}`), ...exchangeable];
    if (notes.length > 0) tell(['Note:', ...notes]);
    if (verdict.changes.length > 0) {
      const [approval] = approvedAt(declared.approvals, name);
      tell([approval === undefined || verdict.state === 'exposed' ? 'Note:' : `Since it was approved (${approval}):`]);
      tell(verdict.changes.map(({ line }) => `  ${line}`));
    }
    if (!(await agreed(invocation, `May "${name}" start like this?`))) return refused(name);
    await declared.approvals.approve(server, shown);
    return done(invocation, name, 'approved', 'Approved. A running gateway knows within a second.');
  },
};

/** A package is approved as the one it is now. Where it cannot be had, the first sandbox that needs it decides. */
async function fetched({ places }: Declared, server: ServerDefinition): Promise<void> {
  if (server.kind !== 'stdio' || !server.trust.includes('sandboxed')) return;
  await fetchPackage(places.dataDir, server).catch((error: unknown) => {
    tell([`Note: ${error instanceof Error ? error.message : error}`]);
  });
}

/** The server itself is approved: what may have changed is what it says of its tools. */
async function approveTools(invocation: Invocation, declared: Declared, server: ServerDefinition): Promise<number> {
  const { approvals, config, places } = declared;
  const { name } = server;
  if (!approvals.hasPinnedTools(name)) return done(invocation, name, 'approved', 'It is approved as it stands.');
  const { tools } = await inspectServer({ config, dataDir: places.dataDir, server, approvals });
  const pins = pinsOf(tools);
  const changes = approvals.toolsChanged(server, pins);
  if (changes.length === 0) return done(invocation, name, 'approved', 'It is approved as it stands, with its tools.');
  tell([`${name} describes its tools otherwise than when they were approved:`]);
  for (const change of changes) {
    tell(change.changes.map(({ line }) => `  ${line}`));
    if (change.kind !== 'removed') tell(descriptionsOf(tools, change.tool).map((line) => `      ${line}`));
  }
  if (!(await agreed(invocation, `May models see the tools of "${name}" like this?`))) return refused(name);
  await approvals.pinTools(server, pins, { replace: true });
  return done(invocation, name, 'approved', 'Approved with these tools.');
}

function descriptionsOf(tools: readonly unknown[], name: string): string[] {
  return tools
    .map((tool) => tool as { readonly name?: unknown; readonly description?: unknown })
    .filter((tool) => tool.name === name && typeof tool.description === 'string')
    .flatMap((tool) => (tool.description as string).split('\n'));
}

function approvedAt(approvals: Approvals, name: string): string[] {
  return approvals.list().flatMap((approval) => (approval.name === name ? [approval.approvedAt] : []));
}

function refused(name: string): number {
  tell([`Nothing was approved; "${name}" does not start.`]);
  return 1;
}

function done(invocation: Invocation, name: string, approval: string, words: string): number {
  print(invocation, { name, approval }, () => `${name}: ${words}`);
  return 0;
}

/** Before the gateway opens: a person at the terminal is asked about what is not approved; elsewhere it is only named. */
export async function askForApprovals(invocation: Invocation, log: Log): Promise<void> {
  const { servers, approvals } = await declaredServers(invocation);
  try {
    for (const server of servers.values()) {
      if (approvals.check(server).state === 'approved') continue;
      if (isTerminal()) await serverApprove.run({ ...invocation, words: [server.name], flags: globalsOf(invocation) });
      else log.warn('server not approved', { server: server.name, hint: `ambit server approve ${server.name}` });
    }
  } finally {
    approvals.close();
  }
}

function globalsOf({ flags }: Invocation): Invocation['flags'] {
  return { config: flags['config'], 'data-dir': flags['data-dir'] };
}
