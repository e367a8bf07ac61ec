import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { basename } from 'node:path';
import { createContainerRunner } from '../../../src/runners/container/container.ts';
import type { WorkspaceBackend } from '../../../src/workspaces/backend.ts';
import type { FilesContainerOptions } from '../../../src/workspaces/container/files-container.ts';
import { openContainer } from '../../../src/workspaces/container/open-container.ts';
import { volumeNameOf } from '../../../src/workspaces/container/volume-name.ts';
import { pathRules } from '../../../src/workspaces/path-rules.ts';
import { createSandboxHarness } from '../../runners/bwrap/sandbox-harness.ts';

export interface VolumeHarness {
  readonly folder: string;
  /** Of this instance, or of the one named: asked of podman itself. */
  containers(instance?: string): string[];
  /** A workspace nobody has used before, in a volume that is removed with the harness. */
  freshVolume(): string;
  /** Engines are looked for on another PATH where one is given. */
  open(volume: string, options?: Partial<FilesContainerOptions>, path?: () => string): WorkspaceBackend;
  /** Where a volume lies on this machine, for planting what sessions cannot. */
  placeOf(volume: string): string;
  closeAll(): Promise<void>;
  stop(): Promise<void>;
}

export const podman = (...args: string[]): string => execFileSync('podman', args, { encoding: 'utf8' }).trim();

export async function createVolumeHarness(): Promise<VolumeHarness> {
  const harness = await createSandboxHarness(undefined, undefined, createContainerRunner);
  const { root: tmpRoot } = harness;
  const volumes: string[] = [];
  const opened: WorkspaceBackend[] = [];
  const rules = pathRules({ hide: [], keep: [], open: [] });
  const fileBytes = 80 * 1024 * 1024;
  const closeAll = async () => {
    await Promise.all(opened.splice(0).map((backend) => backend.close()));
  };
  return {
    folder: harness.folder,
    freshVolume() {
      const volume = volumeNameOf(harness.folder, `w${randomBytes(4).toString('hex')}`);
      volumes.push(volume);
      return volume;
    },
    open(volume, options = {}, searchPath) {
      const runner =
        searchPath === undefined
          ? harness.runner
          : createContainerRunner({ warden: harness.warden, tmpRoot, searchPath });
      const backend = openContainer({ runner, tmpRoot, volume, rules, durable: false, fileBytes, ...options });
      opened.push(backend);
      return backend;
    },
    containers(instance = basename(tmpRoot)) {
      const filter = `label=ambit.instance=${instance}`;
      return podman('ps', '--all', '--filter', filter, '--format', '{{.Names}}')
        .split('\n')
        .filter((name) => name !== '');
    },
    placeOf: (volume) => podman('volume', 'inspect', '--format', '{{.Mountpoint}}', volume),
    closeAll,
    async stop() {
      await closeAll();
      await harness.stop();
      const left = podman('volume', 'ls', '--quiet').split('\n');
      const ours = volumes.filter((volume) => left.includes(volume));
      if (ours.length > 0) podman('volume', 'rm', '--force', ...ours);
    },
  };
}
