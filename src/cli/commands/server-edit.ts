import { dirname } from 'node:path';
import {
  type Addition,
  addServers,
  mayHoldSecrets,
  readServerEntry,
  removeServer,
} from '../../config/edit/edit-servers.ts';
import {
  newConfiguration,
  type OpenedConfiguration,
  openConfiguration,
  saveConfiguration,
} from '../../config/edit/replace-configuration.ts';
import { suggestClosest } from '../../config/explain/suggest.ts';
import { resolveArgs, resolveCommand } from '../../config/load/configured-paths.ts';
import { loadConfig } from '../../config/load/load.ts';
import { normalizeServerName } from '../../config/load/mcp-servers-file.ts';
import { isMap, serverName } from '../../config/schema/schema-parts.ts';
import { AmbitError } from '../../errors.ts';
import { createApprovals } from '../../upstreams/pins/approvals.ts';
import { previewAdditions } from '../../upstreams/pins/preview-additions.ts';
import { renderEntryLines } from '../../upstreams/pins/show-server.ts';
import {
  type Command,
  type Invocation,
  jsonFlag,
  readFlag,
  readListFlag,
  requirePositional,
  UsageError,
} from '../command.ts';
import { askConfirmation, printLines, yesFlag } from '../io/ask.ts';
import { findConfigPaths } from '../io/config-paths.ts';
import { describeReload } from '../io/find-gateway.ts';
import { printData, renderTable } from '../io/output.ts';
import {
  type RegistryEntry,
  readRegistryEntry,
  readRegistryUrl,
  registryFlag,
  searchRegistry,
} from '../registry/ask-registry.ts';
import { type EntryPlan, listOffers, offerKinds } from '../registry/plan-entry.ts';

const entryName = /^([A-Za-z0-9.-]+\/[A-Za-z0-9._-]+)(?:@([\x21-\x7e]{1,255}))?$/;
const namesCommand = 'give one of "-- COMMAND ARGS…", --url URL and --from ENTRY';

export const serverAdd: Command = {
  operands: 'NAME [-- CMD ARGS…]',
  help: 'Add a server to the configuration',
  flags: {
    url: { type: 'string', value: 'URL', help: 'URL of an HTTP server' },
    from: { type: 'string', value: 'ENTRY', help: 'Entry of the MCP registry, found by "ambit server search"' },
    env: {
      type: 'string',
      value: 'NAME[=VALUE]',
      help: 'Environment variable; without a value, yours is used',
      multiple: true,
    },
    header: { type: 'string', value: 'NAME=VALUE', help: 'HTTP header, with --url', multiple: true },
    kind: { type: 'string', value: 'KIND', help: 'Kind of package, with --from', choices: offerKinds },
    registry: registryFlag,
    yes: yesFlag,
    json: jsonFlag,
  },
  async run(invocation) {
    const given = readFlag(invocation, 'from');
    const name = readNewName(invocation, given);
    const url = readFlag(invocation, 'url');
    if (url !== undefined && given !== undefined) throw new UsageError(namesCommand);
    if (given === undefined) {
      for (const flag of ['kind', 'registry']) {
        if (readFlag(invocation, flag) !== undefined) throw new UsageError(`--${flag} goes with --from`);
      }
    }
    const addition = given === undefined ? describeOwnServer(invocation, name, url) : undefined;
    const opened = await openConfiguration(findConfigPaths(invocation));
    assertNewName(opened, name);
    return addition === undefined
      ? addFromRegistry(invocation, opened, name, given as string)
      : addOwnServer(invocation, opened, addition);
  },
};

/** Reads the name of a new server. An invalid one is refused with a name that would be valid. */
function readNewName(invocation: Invocation, from: string | undefined): string {
  if (invocation.positionals.length === 0 && from !== undefined) {
    const suggestion = suggestName(from);
    const hint = suggestion === undefined ? undefined : `Write: ambit server add ${suggestion} --from ${from}`;
    throw new UsageError('the name that the server gets is missing', hint);
  }
  const name = requirePositional(invocation, 'the name of the server');
  if (serverName.test(name) && name !== 'ambit') return name;
  const suggestion = normalizeServerName(name);
  const hint = suggestion === undefined ? undefined : `Call it "${suggestion}", for example.`;
  const rule = name === 'ambit' ? 'is reserved' : 'is not valid: it takes 1 to 40 of a-z, 0-9 and "-"';
  throw new UsageError(`the name "${name}" ${rule}`, hint);
}

const maxNameLength = 40;

/** The name that an entry of the registry could have here; undefined where its own is of no use. */
function suggestName(entry: string): string | undefined {
  const [, name = ''] = entry.split('@', 1)[0]?.split('/') ?? [];
  return normalizeServerName(name.slice(0, maxNameLength));
}

/** The server that the command line describes. Names of files start from the working directory. */
function describeOwnServer(invocation: Invocation, name: string, url: string | undefined): Addition {
  const [program, ...args] = invocation.passthrough;
  if ((program === undefined) === (url === undefined)) throw new UsageError(namesCommand);
  if (url !== undefined && !(URL.canParse(url) && /^https?:$/.test(new URL(url).protocol))) {
    throw new UsageError('--url takes a URL that starts with http:// or https://');
  }
  const env = readVariables(invocation);
  const headers = readPairs(invocation, 'header');
  const hasEnv = Object.keys(env).length > 0;
  const hasHeaders = Object.keys(headers).length > 0;
  if (program === undefined) {
    if (hasEnv) throw new UsageError('--env goes with a command, not with --url');
    return { name, origin: '', entry: { url, ...(hasHeaders ? { headers } : {}) } };
  }
  if (hasHeaders) throw new UsageError('--header goes with --url, not with a command');
  if (program === '') throw new UsageError('the command is empty');
  const command = resolveCommand(program, process.cwd());
  const resolved = resolveArgs({ command: program, args }, process.cwd());
  const entry = { command, ...(args.length === 0 ? {} : { args: resolved }), ...(hasEnv ? { env } : {}) };
  return { name, origin: '', entry };
}

/** Reads `--env NAME=VALUE`, and `--env NAME` with the value that the variable has here. */
function readVariables(invocation: Invocation): Record<string, string> {
  const words = (readListFlag(invocation, 'env') ?? []).map((word) => {
    if (word.includes('=')) return word;
    const value = invocation.env[word];
    if (value === undefined)
      throw new UsageError(`--env ${word}: there is no such variable; write --env ${word}=VALUE`);
    return `${word}=${value}`;
  });
  return toPairs(words, 'env');
}

const readPairs = (invocation: Invocation, flag: string): Record<string, string> =>
  toPairs(readListFlag(invocation, flag) ?? [], flag);

function toPairs(words: readonly string[], flag: string): Record<string, string> {
  const pairs = words.map((word) => {
    const at = word.indexOf('=');
    // The word is not repeated: it may be a secret.
    if (at <= 0) throw new UsageError(`--${flag} takes NAME=VALUE`);
    return [word.slice(0, at), word.slice(at + 1)] as const;
  });
  return Object.fromEntries(pairs);
}

function assertNewName({ config }: OpenedConfiguration, name: string): void {
  if (!Object.hasOwn(config.servers, name)) return;
  const { source, file } = config.servers[name] as { source: string; file?: string };
  throw new AmbitError(
    'CONFIG_INVALID',
    source === 'project'
      ? {
          what: `There is a server "${name}" already, in ${file}, which the configuration includes.`,
          hint: 'Choose another name.',
        }
      : {
          what: `There is a server "${name}" already.`,
          hint: `Choose another name, or remove it first: ambit server remove ${name}`,
        },
  );
}

async function addOwnServer(invocation: Invocation, opened: OpenedConfiguration, addition: Addition): Promise<number> {
  const { paths, before } = opened;
  const { name, entry } = addition;
  const text = addServers(before ?? newConfiguration, [addition]);
  const { pinned } = await previewAdditions([addition], { text, paths, searchPath: invocation.env['PATH'] });
  const pins = pinned.get(name);
  const args = Array.isArray(entry['args']) ? (entry['args'] as string[]) : [];
  printLines([
    `${paths.configFile}:`,
    ...renderEntryLines('+', name, entry),
    ...(pins?.kind === 'stdio' && 'missing' in pins.program
      ? [`Warning: ${entry['command']}: ${pins.program.missing}.`]
      : []),
    ...args
      .filter((arg) => /^\.{1,2}\/./.test(arg))
      .map((arg) => `Warning: there is no ${arg} here. It is written as it is, relative to the configuration.`),
    ...(typeof entry['url'] === 'string' && entry['url'].startsWith('http://') && !isLoopback(entry['url'])
      ? ['Warning: this URL is not encrypted. Others on the network can read and change what is sent.']
      : []),
  ]);
  const saved = saveConfiguration(opened, text, mayHoldSecrets(addition));
  printData(invocation, { added: name, ...saved.data, approval: 'not needed' }, () => `Added: ${name}.`);
  printLines([
    ...saved.lines,
    ...(await describeReload(invocation, paths)),
    ...describeTrust(entry),
    `Try it: ambit server check ${name}`,
  ]);
  return 0;
}

/** Says that a server with a URL is closed to sandboxed sessions, which most sessions are. */
function describeTrust(entry: Readonly<Record<string, unknown>>): string[] {
  if (entry['url'] === undefined || entry['trust'] !== undefined) return [];
  return ['Only direct sessions may use it. To change that, add "trust: [direct, sandboxed]" to its entry.'];
}

function isLoopback(url: string): boolean {
  return ['localhost', '127.0.0.1', '[::1]'].includes(new URL(url).hostname);
}

/** Adds an entry of the registry. Others wrote it, so it is marked as imported and starts only as it was approved. */
async function addFromRegistry(
  invocation: Invocation,
  opened: OpenedConfiguration,
  name: string,
  from: string,
): Promise<number> {
  const { paths, before } = opened;
  const [, wanted, version] = entryName.exec(from) ?? [];
  if (wanted === undefined) throw new UsageError('--from takes the name of an entry, such as io.github.user/weather');
  const registry = readRegistryUrl(invocation);
  const found = await readRegistryEntry(registry, wanted, version);
  const { plan, others } = chooseOffer(invocation, found, dirname(paths.configFile));
  const origin = `registry ${wanted}@${found.server.version}`;
  const addition = { name, origin, entry: { ...plan.entry, imported: origin } };
  const text = addServers(before ?? newConfiguration, [addition]);
  const previews = await previewAdditions([addition], { text, paths, searchPath: invocation.env['PATH'] });
  printLines([...previews.lines, ...plan.notes.map((line) => `  note     ${line}`), ...describeStatus(found)]);
  printLines(describeInputs(plan));
  if (others.length > 0) printLines([`It is also offered as: ${others.join(', ')}. Choose with --kind.`]);
  if (!(await askConfirmation(invocation, 'Add this server, and approve it as shown?'))) {
    printLines(['Nothing was added.']);
    return 1;
  }
  const saved = saveConfiguration(opened, text, mayHoldSecrets(addition));
  const [unapproved] = await previews.approve();
  if (unapproved !== undefined) printLines([`! ${unapproved.reason}`]);
  const missing = plan.missing.map((each) => each.name);
  const approval = unapproved === undefined ? 'approved' : 'unapproved';
  printData(invocation, { added: name, from: origin, ...saved.data, approval, missing }, () => `Added: ${name}.`);
  printLines([...saved.lines, ...(await describeReload(invocation, paths)), ...describeMissing(name, plan)]);
  printLines(describeTrust(addition.entry));
  const next = approval === 'approved' ? 'Try it: ambit server check' : 'It is not approved yet: ambit server approve';
  printLines([`${next} ${name}`]);
  return 0;
}

/** Chooses the first way to use a server that is supported; packages come before URLs. */
function chooseOffer(
  invocation: Invocation,
  { server, status }: RegistryEntry,
  folder: string,
): { readonly plan: EntryPlan; readonly others: readonly string[] } {
  const kind = readFlag(invocation, 'kind');
  const args = resolveArgs({ command: '', args: invocation.passthrough }, process.cwd());
  const given = { env: readVariables(invocation), headers: readPairs(invocation, 'header'), args, folder };
  const all = listOffers(server, given);
  const wanted = all.filter((offer) => kind === undefined || offer.kind === kind);
  const plan = status === 'deleted' ? undefined : wanted.find((offer) => offer.plan !== undefined)?.plan;
  if (plan !== undefined) {
    const usable = all.flatMap((offer) => (offer.plan === undefined ? [] : [offer.kind]));
    return { plan, others: [...new Set(usable)].filter((each) => each !== plan.kind) };
  }
  const reasons = wanted.map((offer) => offer.problem).filter((problem) => problem !== undefined);
  const fallback = kind === undefined ? 'it names no package and no URL' : `it is not offered as ${kind}`;
  const why = status === 'deleted' ? 'it was deleted there' : reasons.length > 0 ? reasons.join('; ') : fallback;
  throw new AmbitError('SERVER_NOT_AVAILABLE', {
    what: `"${server.name}" cannot be added from the registry: ${why}.`,
    hint: 'If you know how to start it, add it yourself: ambit server add NAME -- COMMAND ARGS…',
  });
}

function describeStatus({ status, statusMessage }: RegistryEntry): string[] {
  if (status === 'active') return [];
  return [`Warning: the registry calls this version "${status}"${statusMessage ? `: ${statusMessage}` : '.'}`];
}

function describeInputs({ missing, optional }: EntryPlan): string[] {
  const lines = missing.map(
    ({ name, isSecret, description }) =>
      `  needs    ${name}${isSecret ? ' (secret)' : ''}${description === '' ? '' : `: ${description}`}`,
  );
  return [...lines, ...(optional.length === 0 ? [] : [`  may get  ${optional.join(', ')}`])];
}

/** Says how to set what an entry needs. Nothing is written in its place: a placeholder could be taken for a value. */
function describeMissing(name: string, { missing, kind }: EntryPlan): string[] {
  const [first] = missing;
  if (first === undefined) return [];
  const flag = kind === 'remote' ? 'header' : 'env';
  const given = kind === 'remote' ? `--header ${first.name}=VALUE` : `--env ${first.name}`;
  return [
    `Set ${missing.map((each) => each.name).join(', ')} before you use it.`,
    'For one user, encrypted (reads the value from stdin):',
    `  ambit credential set --user local --server ${name} --${flag} ${first.name}`,
    `For all users, in the configuration: remove "${name}" and add it again with`,
    `  ${given}`,
  ];
}

export const serverRemove: Command = {
  operands: 'NAME',
  help: 'Remove a server from the configuration',
  flags: { json: jsonFlag },
  async run(invocation) {
    const name = requirePositional(invocation, 'the name of the server');
    const opened = await openConfiguration(findConfigPaths(invocation));
    const { config, paths, before = newConfiguration } = opened;
    const server = Object.hasOwn(config.servers, name) ? config.servers[name] : undefined;
    if (server === undefined) {
      throw new AmbitError('SERVER_NOT_AVAILABLE', {
        what: `The configuration has no server "${name}"${suggestClosest(name, Object.keys(config.servers)) || '.'}`,
        hint: 'List them with "ambit server list".',
      });
    }
    if (server.source === 'project') {
      throw new AmbitError('CONFIG_INVALID', {
        what: `"${name}" is declared in ${server.file}, which the configuration includes. That file is not changed.`,
        hint: 'Remove the server from that file, or take the file out of "include".',
      });
    }
    const text = removeServer(before, name);
    const after = await loadConfig({ text, file: paths.configFile });
    const entry = readServerEntry(before, name);
    printLines([`${paths.configFile}:`, ...renderEntryLines('-', name, isMap(entry) ? entry : {})]);
    const saved = saveConfiguration(opened, text, false);
    const approvals = createApprovals({ dataDir: paths.dataDir });
    if (approvals.list().some((each) => each.name === name)) await approvals.revoke(name);
    printData(invocation, { removed: name, ...saved.data }, () => `Removed: ${name}.`);
    const now = Object.hasOwn(after.config.servers, name) ? after.config.servers[name]?.file : undefined;
    printLines([
      ...after.warnings.filter((line) => line.includes(`"${name}`)).map((line) => `Warning: ${line}`),
      ...(now === undefined ? [] : [`"${name}" is now the server of ${now}, which needs an approval.`]),
      ...saved.lines,
      'Undo with: ambit import --undo',
      ...(await describeReload(invocation, paths)),
    ]);
  },
};

export const serverSearch: Command = {
  operands: 'WORDS…',
  help: 'Search the MCP registry',
  flags: {
    limit: { type: 'string', value: 'N', help: 'Show at most N entries; default: 20' },
    registry: registryFlag,
    json: jsonFlag,
  },
  async run(invocation) {
    const words = invocation.positionals.flatMap((each) => each.split(/\s+/)).filter((each) => each !== '');
    if (words.length === 0) throw new UsageError('the words to look for are missing');
    const limit = readFlag(invocation, 'limit') ?? '20';
    if (!/^[1-9][0-9]?$|^100$/.test(limit)) throw new UsageError('--limit takes a number from 1 to 100');
    const registry = readRegistryUrl(invocation);
    const { entries, invalid, hasMore } = await searchRegistry(registry, words, Number(limit));
    const rows = entries.map(({ server, status }) => {
      const offers = listOffers(server);
      const { name, version, title, description } = server;
      return {
        ...{ name, version, title: title ?? null, description: description ?? '', status },
        kinds: [...new Set(offers.map(({ kind }) => kind))],
      };
    });
    printData(invocation, { registry: registry.href, servers: rows, hasMore }, () =>
      rows.length === 0
        ? `Nothing in ${registry.host} fits "${words.join(' ')}".`
        : renderTable(
            ['NAME', 'VERSION', 'KIND', 'DESCRIPTION'],
            rows.map(({ name, version, kinds, status, description }) => [
              name,
              version,
              kinds.join(',') || '-',
              `${status === 'active' ? '' : `(${status}) `}${description.replace(/\s+/g, ' ').trim()}`,
            ]),
            { keepWidth: ['NAME', 'VERSION', 'KIND'] },
          ),
    );
    const [first] = rows;
    const short = suggestName(first?.name ?? '') ?? 'NAME';
    printLines([
      ...(invalid > 0
        ? [`Entries that are left out because they are not in the format of the registry: ${invalid}.`]
        : []),
      ...(hasMore ? ['There are more. Add a word, or show more with --limit 100.'] : []),
      ...(rows.length === 0 ? ['The registry looks for words in names. Try another one.'] : []),
      ...(first === undefined ? [] : [`Add one: ambit server add ${short} --from ${first.name}`]),
    ]);
  },
};
