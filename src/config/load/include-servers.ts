import { relative } from 'node:path';
import { isAmbitError } from '../../errors.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import type { ConfigDraft } from '../schema/schema.ts';
import { findConfiguredFiles } from './configured-paths.ts';
import { readMcpServers } from './mcp-servers-file.ts';
import { readConfigFile } from './read-config-file.ts';
import { isInside, resolveSymlinks } from './resolve-symlinks.ts';

type ServerDrafts = ConfigDraft['servers'];

interface IncludedServers {
  readonly servers: ServerDrafts;
  readonly warnings: string[];
}

/** Reads the servers of included files. They belong to projects: a mistake costs their servers, never the start. */
export async function includeServers(config: ConfigDraft, folder: string): Promise<IncludedServers> {
  const servers: ServerDrafts = {};
  const warnings: string[] = [];
  const from = new Map<string, string>();
  for (const file of config.include) {
    const shownFile = escapeControls(relative(folder, file) || file);
    const warn = (line: string): void => void warnings.push(`${shownFile}: ${line}`);
    const text = await readConfigFile(file).catch((error: unknown) => error);
    if (typeof text !== 'string') {
      if (!isAmbitError(text)) throw text;
      warn(`${text.message.slice(text.message.lastIndexOf(': ') + 2)}; its servers are not loaded`);
      continue;
    }
    const read = readMcpServers(text, config.context.envPrefixes);
    for (const problem of read.problems) warn(problem);
    for (const { name, server } of read.servers) {
      if (Object.hasOwn(config.servers, name)) {
        warn(`${name}: the configuration already has a server with this name, which is used instead`);
      } else if (from.has(name)) {
        warn(`${name}: ${from.get(name)} already has a server with this name, which is used instead`);
      } else {
        from.set(name, shownFile);
        servers[name] = { ...server, source: 'project', file };
      }
    }
  }
  return { servers, warnings };
}

/**
 * Hides included files from the file tools of the workspaces that contain them, because they may contain secrets of
 * servers. A file at the top of a workspace is hidden by its name in every folder.
 */
export function hideIncludedFiles(config: ConfigDraft): ConfigDraft {
  const includedPaths = findConfiguredFiles(config, 'included').flatMap(({ path }) => tryResolve(path));
  type Workspace = ConfigDraft['workspaces'][string];
  const workspaces = Object.entries(config.workspaces).map(([slug, workspace]): [string, Workspace] => {
    const folder = workspace.path === undefined ? undefined : tryResolve(workspace.path).at(-1);
    if (folder === undefined) return [slug, workspace];
    const inside = includedPaths.filter((includedPath) => includedPath !== folder && isInside(includedPath, folder));
    const hide = [...workspace.files.hide, ...inside.map((includedPath) => escapeGlob(relative(folder, includedPath)))];
    return [slug, { ...workspace, files: { ...workspace.files, hide: [...new Set(hide)] } }];
  });
  return { ...config, workspaces: Object.fromEntries(workspaces) };
}

/** Resolves the links of a path; empty when that fails, since then nobody can read it. */
function tryResolve(path: string): string[] {
  try {
    return resolveSymlinks(path);
  } catch {
    return [];
  }
}

const escapeGlob = (path: string): string => path.replace(/[\\*?[\]{}!,]/g, '\\$&');
