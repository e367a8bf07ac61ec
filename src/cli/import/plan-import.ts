import { dirname, resolve } from 'node:path';
import { resolveArgs, resolveCommand } from '../../config/load/configured-paths.ts';
import { type ForeignServer, readMcpServers } from '../../config/load/mcp-servers-file.ts';
import { readConfigFile } from '../../config/load/read-config-file.ts';
import { isAmbitError } from '../../errors.ts';
import { findUserFolders, mcpClients, type Variables } from '../client/clients.ts';

const imported = mcpClients.filter(({ isImported }) => isImported);
export const clients: readonly string[] = imported.map(({ name }) => name);

interface ClientFile {
  readonly client: string;
  readonly file: string;
}

export interface ImportSource {
  readonly file: string;
  /** The origin that is recorded: the client, or the file itself. */
  readonly origin: string;
}

/** A server to be added to the configuration, in the form it has there. */
export interface Addition {
  readonly name: string;
  readonly origin: string;
  readonly entry: Readonly<Record<string, unknown>>;
}

export interface ImportPlan {
  readonly additions: readonly Addition[];
  /** Servers whose names the configuration has already. */
  readonly kept: readonly { readonly name: string; readonly origin: string }[];
  /** The servers that cannot be imported, a line each, without values. */
  readonly problems: readonly string[];
}

/** Reads the files and plans which servers to add. Writes nothing. */
export async function planImport(
  found: readonly ImportSource[],
  existing: ReadonlySet<string>,
  prefixes: readonly string[],
): Promise<ImportPlan> {
  const additions = new Map<string, Addition>();
  const kept: { name: string; origin: string }[] = [];
  const problems: string[] = [];
  for (const { file, origin } of found) {
    const text = await readConfigFile(file).catch((error: unknown) => error);
    if (typeof text !== 'string') {
      if (!isAmbitError(text)) throw text;
      problems.push(text.message);
      continue;
    }
    const read = readMcpServers(text, prefixes);
    problems.push(...read.problems.map((line) => `${file}: ${line}`));
    for (const server of read.servers) {
      const taken = existing.has(server.name) || additions.has(server.name);
      if (taken) kept.push({ name: server.name, origin });
      else additions.set(server.name, { name: server.name, origin, entry: serverEntryOf(server, file, origin) });
    }
  }
  return { additions: [...additions.values()], kept, problems };
}

/** Members that may hold keys, tokens and passwords; an address may have one in its path. */
const secretFields = ['env', 'headers', 'args', 'url'];

export function mayHoldSecrets({ entry }: Addition): boolean {
  return secretFields.some((key) => entry[key] !== undefined);
}

/** Resolves relative paths against the folder of the file they came from. */
function serverEntryOf({ written, server }: ForeignServer, file: string, origin: string): Record<string, unknown> {
  const folder = dirname(resolve(file));
  const where =
    server.transport === 'stdio'
      ? {
          command: resolveCommand(server.command, folder),
          ...(server.args.length === 0 ? {} : { args: resolveArgs(server, folder) }),
        }
      : {};
  return { ...written, ...where, imported: origin };
}

/** The files in which these clients keep the servers of a user, whether or not they exist. */
export function findClientFiles(env: Variables, platform: NodeJS.Platform = process.platform): ClientFile[] {
  const folders = findUserFolders(env, platform);
  return imported.flatMap(({ name, files, olderFile }) =>
    [...files(folders), ...(olderFile === undefined ? [] : [olderFile(folders)])].map((file) => ({
      client: name,
      file,
    })),
  );
}
