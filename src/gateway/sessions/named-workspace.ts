import { isAbsolute, resolve } from 'node:path';
import type { Config } from '../../config/schema/schema.ts';
import { isAtMost } from '../../rules/trust-level.ts';
import type { Session } from '../../sessions/session.ts';

const slugsByPath = new WeakMap<Config['workspaces'], ReadonlyMap<string, readonly string[]>>();

/**
 * The workspace that a name means, if this session may work there. The name is a slug, or the absolute path of a
 * configured workspace: paths are compared as they are written, so that nobody learns from it which files exist.
 */
export function admittedWorkspace({ workspaces }: Config, session: Session, name: string): string | undefined {
  return slugsFor(workspaces, name).find((slug) =>
    isAtMost(session.trustLevel, workspaces[slug]?.trust ?? 'sandboxed'),
  );
}

/** All that a name means, whoever may use them. */
export function slugsNamed({ workspaces }: Config, name: string): readonly string[] {
  return slugsFor(workspaces, name);
}

function slugsFor(workspaces: Config['workspaces'], name: string): readonly string[] {
  if (Object.hasOwn(workspaces, name)) return [name];
  if (!isAbsolute(name)) return [];
  let byPath = slugsByPath.get(workspaces);
  if (byPath === undefined) {
    const found = new Map<string, string[]>();
    for (const [slug, { path }] of Object.entries(workspaces)) {
      if (path === undefined) continue;
      const normal = resolve(path);
      found.set(normal, [...(found.get(normal) ?? []), slug]);
    }
    byPath = found;
    slugsByPath.set(workspaces, found);
  }
  return byPath.get(resolve(name)) ?? [];
}
