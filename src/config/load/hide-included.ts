import { relative } from 'node:path';
import { filesNamedIn } from '../schema/file-keys.ts';
import type { ConfigDraft } from '../schema/schema.ts';
import { isInside, stationsOf } from './stations.ts';

/**
 * Hides included files from the file tools of each workspace they lie in: they may hold what servers are given, and that is
 * not for sessions. A file at the top of a workspace is hidden by its name, in whatever folder.
 */
export function hideIncluded(config: ConfigDraft): ConfigDraft {
  const places = filesNamedIn(config, 'included').flatMap(({ path }) => follow(path));
  type Workspace = ConfigDraft['workspaces'][string];
  const workspaces = Object.entries(config.workspaces).map(([slug, workspace]): [string, Workspace] => {
    const folder = workspace.path === undefined ? undefined : follow(workspace.path).at(-1);
    if (folder === undefined) return [slug, workspace];
    const inside = places.filter((place) => place !== folder && isInside(place, folder));
    const hide = [...workspace.files.hide, ...inside.map((place) => asPattern(relative(folder, place)))];
    return [slug, { ...workspace, files: { ...workspace.files, hide: [...new Set(hide)] } }];
  });
  return { ...config, workspaces: Object.fromEntries(workspaces) };
}

/** The places that a path leads through, link by link. A path that cannot be resolved has none: nobody can read it. */
function follow(path: string): string[] {
  try {
    return stationsOf(path);
  } catch {
    return [];
  }
}

const asPattern = (path: string): string => path.replace(/[\\*?[\]{}!,]/g, '\\$&');
