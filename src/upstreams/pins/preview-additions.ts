import { dirname } from 'node:path';
import type { Addition } from '../../config/edit/edit-servers.ts';
import { type LoadedConfig, loadConfig } from '../../config/load/load.ts';
import { defineServers, type ServerDefinition } from '../definition.ts';
import { createApprovals } from './approvals.ts';
import { describeUnpinned, type ServerPins } from './server-pins.ts';
import { describeCommand } from './show-server.ts';

/** New servers as the gateway will see them, with everything that an approval pins. */
export interface AdditionPreviews {
  readonly loaded: LoadedConfig;
  /** Describes each server in full, because an approval allows exactly what is shown. */
  readonly lines: readonly string[];
  readonly pinned: ReadonlyMap<string, ServerPins>;
  /** Approves the servers as shown. Returns those that cannot be approved, with the reason. */
  approve(): Promise<{ readonly name: string; readonly reason: string }[]>;
}

interface PreviewOptions {
  readonly text: string;
  readonly paths: { readonly configFile: string; readonly dataDir: string };
  readonly searchPath: string | undefined;
}

/** Reads the text of a configuration before it is written, so that no invalid one is left behind. */
export async function previewAdditions(
  additions: readonly Addition[],
  { text, paths, searchPath }: PreviewOptions,
): Promise<AdditionPreviews> {
  const loaded = await loadConfig({ text, file: paths.configFile });
  const servers = defineServers(loaded.config, dirname(paths.configFile));
  const approvals = createApprovals({ dataDir: paths.dataDir, searchPath });
  const pinned = new Map<string, ServerPins>();
  const lines: string[] = [];
  for (const { name, origin } of additions) {
    lines.push(`+ ${name} (${origin})`);
    const server = servers.get(name);
    if (server === undefined) {
      lines.push('  disabled');
      continue;
    }
    const pins = await approvals.preview(server);
    pinned.set(name, pins);
    const notes = describeUnpinned(pins, server).map((line) => `  note     ${line}`);
    lines.push(...describeCommand(pins, server), ...notes);
  }
  return {
    loaded,
    lines,
    pinned,
    async approve() {
      const unapproved: { name: string; reason: string }[] = [];
      for (const [name, pins] of pinned) {
        await approvals.approve(servers.get(name) as ServerDefinition, pins).catch((error: Error) => {
          unapproved.push({ name, reason: error.message });
        });
      }
      return unapproved;
    },
  };
}
