import { isDeepStrictEqual } from 'node:util';
import {
  type Addition,
  addServers,
  mayHoldSecrets,
  readServerEntry,
  removeServer,
} from '../../config/edit/edit-servers.ts';
import {
  type OpenedConfiguration,
  openConfiguration,
  saveConfiguration,
} from '../../config/edit/replace-configuration.ts';
import { suggestClosest } from '../../config/explain/suggest.ts';
import { loadConfig } from '../../config/load/load.ts';
import { normalizeServerName, readMcpServers } from '../../config/load/mcp-servers-file.ts';
import { assertOutOfReach } from '../../config/load/out-of-reach.ts';
import type { Config } from '../../config/schema/schema.ts';
import { isMap, serverName } from '../../config/schema/schema-parts.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { createMutex } from '../../lib/async/mutex.ts';
import type { Approvals } from '../../upstreams/pins/approvals.ts';
import { renderEntryLines } from '../../upstreams/pins/show-server.ts';

/** A server as a request describes it. */
export interface NewServer {
  readonly name: string;
  readonly command?: string | undefined;
  readonly args?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly url?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** A change of the configuration file. */
export interface ConfigurationEdit {
  /** The changed lines, with `+` or `-` before each. Added arguments and URLs are whole, other credentials are hidden. */
  readonly diff: readonly string[];
  /** False for a dry run, and if there was nothing to change. */
  readonly applied: boolean;
  /** Whether the gateway already uses the changed configuration. */
  readonly reloaded: boolean;
  /** The reason why it does not. */
  readonly reason: string | null;
  /** Remarks about servers of a pasted text: those that cannot be added, and what is ignored. */
  readonly problems: readonly string[];
}

/** The servers of a pasted text, and what happens to each. */
export interface ServerImport extends ConfigurationEdit {
  readonly plan: readonly { readonly name: string; readonly action: 'add' | 'keep'; readonly reason: string | null }[];
}

/**
 * Changes the servers in the configuration file. Only the servers that are named change; the file is checked as a whole
 * before it is replaced. Added servers are marked as imported, so none starts before it was reviewed and approved.
 */
export interface ConfigurationEditor {
  add(server: NewServer, isDryRun: boolean): Promise<ConfigurationEdit>;
  /** Adds the servers of a pasted `mcpServers` block. A server that exists already is kept as it is. */
  addPasted(text: string, isDryRun: boolean): Promise<ServerImport>;
  /** Removes a server and its approval. */
  remove(name: string, isDryRun: boolean): Promise<ConfigurationEdit>;
}

interface EditorParts {
  readonly paths: { readonly configFile: string; readonly dataDir: string };
  readonly approvals: Pick<Approvals, 'list' | 'revoke'>;
  /** Reads the file and applies it to this gateway; undefined without a gateway. */
  readonly reload: (() => Promise<unknown>) | undefined;
}

/** The origin of the servers, which marks them as imported. */
const origin = 'control API';
const maxPasted = 100;
const notWritten = { applied: false, reloaded: false, reason: null };

export function createConfigurationEditor({ paths, approvals, reload }: EditorParts): ConfigurationEditor {
  const lock = createMutex();

  /** Runs one edit at a time. */
  async function runEdit<T>(
    edit: (opened: OpenedConfiguration & { readonly before: string }) => Promise<T>,
  ): Promise<T> {
    const release = await lock();
    try {
      return await edit(await openExisting(paths));
    } catch (error) {
      throw toEditError(error);
    } finally {
      release();
    }
  }

  /** Checks the changed text as a whole and writes it. Throws if it changes anything but these servers. */
  async function writeText(opened: OpenedConfiguration, text: string, names: readonly string[], hasSecrets: boolean) {
    const { config } = await loadConfig({ text, file: paths.configFile });
    assertOutOfReach({ ...paths, config });
    assertOnlyChanged(opened.config, config, names);
    return () => {
      saveConfiguration(opened, text, hasSecrets);
      return applyFile();
    };
  }

  async function applyFile() {
    if (reload === undefined) return { applied: true, reloaded: false, reason: 'No gateway is running.' };
    try {
      await reload();
      return { applied: true, reloaded: true, reason: null };
    } catch (error) {
      return {
        applied: true,
        reloaded: false,
        reason: isAmbitError(error) ? error.message : 'Internal error in Ambit.',
      };
    }
  }

  async function addAll(
    opened: OpenedConfiguration & { readonly before: string },
    additions: readonly Addition[],
    isDryRun: boolean,
  ) {
    if (additions.length === 0) return { diff: [], ...notWritten };
    const text = addServers(opened.before, additions);
    const names = additions.map(({ name }) => name);
    const write = await writeText(opened, text, names, additions.some(mayHoldSecrets));
    const diff = additions.flatMap(({ name, entry }) => renderEntryLines('+', name, entry));
    return { diff, ...(isDryRun ? notWritten : await write()) };
  }

  return {
    add: (server, isDryRun) =>
      runEdit(async (opened) => {
        const { name, ...definition } = server;
        assertValidName(name);
        if (Object.hasOwn(opened.config.servers, name)) throw nameTakenError(opened.config, name);
        const read = readMcpServers(
          JSON.stringify({ mcpServers: { [name]: definition } }),
          opened.config.context.envPrefixes,
        );
        const [found] = read.servers;
        if (found === undefined) {
          throw new AmbitError('REQUEST_INVALID', { what: read.problems[0] ?? 'The server is not valid.' });
        }
        const addition = { name, origin, entry: { ...found.written, imported: origin } };
        return { ...(await addAll(opened, [addition], isDryRun)), problems: read.problems };
      }),

    addPasted: (text, isDryRun) =>
      runEdit(async (opened) => {
        const { servers, problems } = readMcpServers(text, opened.config.context.envPrefixes);
        if (servers.length === 0 && problems.length > 0) {
          throw new AmbitError('REQUEST_INVALID', {
            what: `Nothing can be imported: ${problems.slice(0, 20).join('\n')}`,
            hint: 'Paste JSON that contains "mcpServers" (Claude, Cursor) or "servers" (VS Code).',
          });
        }
        if (servers.length > maxPasted) {
          throw new AmbitError('REQUEST_INVALID', { what: `The text has more than ${maxPasted} servers.` });
        }
        const plan = servers.map(({ name }) => {
          const isTaken = Object.hasOwn(opened.config.servers, name);
          const action = isTaken ? ('keep' as const) : ('add' as const);
          return { name, action, reason: isTaken ? 'The configuration already has a server of this name.' : null };
        });
        const additions = servers
          .filter(({ name }) => !Object.hasOwn(opened.config.servers, name))
          .map(({ name, written }) => ({ name, origin, entry: { ...written, imported: origin } }));
        return { plan, ...(await addAll(opened, additions, isDryRun)), problems };
      }),

    remove: (name, isDryRun) =>
      runEdit(async (opened) => {
        assertRemovable(opened.config, name);
        const entry = readServerEntry(opened.before, name);
        const diff = renderEntryLines('-', name, isMap(entry) ? entry : {});
        const write = await writeText(opened, removeServer(opened.before, name), [name], false);
        if (isDryRun) return { diff, ...notWritten, problems: [] };
        const written = await write();
        // A server of this name that is added later must be approved anew.
        if (approvals.list().some((each) => each.name === name)) await approvals.revoke(name);
        return { diff, ...written, problems: [] };
      }),
  };
}

/** Opens the configuration. Unlike the command line, a request does not create one: a program may have configured us. */
async function openExisting(paths: EditorParts['paths']): Promise<OpenedConfiguration & { readonly before: string }> {
  const opened = await openConfiguration(paths);
  const { before } = opened;
  if (before === undefined) {
    throw new AmbitError('CONFIG_UNCHANGED', {
      what: 'This gateway has no configuration file, because the program that started it configured it.',
      hint: 'Change the configuration in that program.',
    });
  }
  return { ...opened, before };
}

function assertValidName(name: string): void {
  if (serverName.test(name) && name !== 'ambit') return;
  const suggestion = normalizeServerName(name.slice(0, 40));
  throw new AmbitError('REQUEST_INVALID', {
    what: 'name: a server name has 1 to 40 characters of a-z, 0-9 and "-"; "ambit" is reserved',
    ...(suggestion === undefined ? {} : { hint: `Call it "${suggestion}", for example.` }),
  });
}

function nameTakenError({ servers }: Config, name: string): AmbitError {
  const isIncluded = servers[name]?.source === 'project';
  return new AmbitError('CONFIG_UNCHANGED', {
    what: `There is a server "${name}" already${isIncluded ? `, in ${servers[name]?.file}, which the configuration includes` : ''}.`,
    hint: isIncluded ? 'Choose another name.' : 'Choose another name, or remove that server first.',
  });
}

function assertRemovable({ servers }: Config, name: string): void {
  const server = Object.hasOwn(servers, name) ? servers[name] : undefined;
  if (server === undefined) {
    throw new AmbitError('SERVER_NOT_AVAILABLE', {
      what: `The configuration has no server "${name.slice(0, 64)}"${suggestClosest(name, Object.keys(servers)) || '.'}`,
      hint: 'List them with "ambit server list".',
    });
  }
  if (server.source !== 'project') return;
  throw new AmbitError('CONFIG_UNCHANGED', {
    what: `"${name}" is declared in ${server.file}, which the configuration includes. That file is not changed.`,
    hint: 'Remove the server from that file, or take the file out of "include".',
  });
}

/** Throws if an edit would change more than the servers it names, whatever their names and values contain. */
function assertOnlyChanged(before: Config, after: Config, names: readonly string[]): void {
  const others = ({ servers, ...rest }: Config) => ({
    ...rest,
    servers: Object.fromEntries(Object.entries(servers).filter(([name]) => !names.includes(name))),
  });
  if (isDeepStrictEqual(others(before), others(after))) return;
  throw new AmbitError('CONFIG_UNCHANGED', {
    what: 'The change would alter other parts of the configuration, so nothing was written.',
    hint: 'Edit the configuration by hand.',
  });
}

/** Turns a failure of the shared code into a refusal of the request: the gateway itself goes on as before. */
function toEditError(error: unknown): unknown {
  if (isAmbitError(error)) {
    if (error.code !== 'CONFIG_INVALID') return error;
    const { message, hint } = error;
    return new AmbitError('CONFIG_UNCHANGED', { what: message, hint, cause: error });
  }
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (typeof code !== 'string' || typeof syscall !== 'string') return error;
  return new AmbitError('CONFIG_UNCHANGED', {
    what: `The configuration file cannot be replaced (${code}).`,
    hint: 'The account of the gateway needs write access to the file and its folder.',
    cause: error,
  });
}
