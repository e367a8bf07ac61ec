import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { basename } from 'node:path';
import { createContainerRunner } from '../../../../src/sandbox/container/container.ts';
import type { WorkspaceBackend } from '../../../../src/workspaces/backends/backend.ts';
import {
  type ContainerBackendsOptions,
  createContainerBackends,
} from '../../../../src/workspaces/backends/container/container-backends.ts';
import type { FilesSettings } from '../../../../src/workspaces/backends/container/files-protocol.ts';
import { createPathRules } from '../../../../src/workspaces/path-guard.ts';
import { createVolumeName } from '../../../../src/workspaces/workspace-files.ts';
import { createSandboxHarness } from '../../../sandbox/bwrap/sandbox-harness.ts';

export interface VolumeHarness {
  readonly folder: string;
  /** The containers of this or the named instance, as podman lists them. */
  containers(instance?: string): string[];
  /** A workspace nobody has used before, in a volume that is removed with the harness. */
  freshVolume(): string;
  open(volume: string, options?: Partial<FilesSettings>): WorkspaceBackend;
  /** The same, of an Ambit that is another in some way. */
  openOtherwise(volume: string, options: Partial<ContainerBackendsOptions>, path?: () => string): WorkspaceBackend;
  /** The folder of a volume on this machine, for files that sessions cannot make. */
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
  const places = new Map<string, string>();
  const settings = { rules: createPathRules({ hide: [], keep: [], open: [] }), durable: false, fileBytes: 80 << 20 };
  const log = { info() {}, warn() {} };
  const backends = createContainerBackends({ runner: harness.runner, tmpRoot, log });
  const kept = (backend: WorkspaceBackend) => {
    opened.push(backend);
    return backend;
  };
  const closeAll = async () => {
    await Promise.all(opened.splice(0).map((backend) => backend.close()));
  };
  return {
    folder: harness.folder,
    freshVolume() {
      const volume = createVolumeName(harness.folder, `w${randomBytes(4).toString('hex')}`);
      volumes.push(volume);
      return volume;
    },
    open: (volume, options = {}) => kept(backends.open(volume, { ...settings, ...options })),
    openOtherwise(volume, options, searchPath) {
      const { reaper } = harness;
      const runner =
        searchPath === undefined ? harness.runner : createContainerRunner({ reaper: reaper, tmpRoot, searchPath });
      return kept(createContainerBackends({ runner, tmpRoot, log, ...options }).open(volume, settings));
    },
    containers(instance = basename(tmpRoot)) {
      const filter = `label=ambit.instance=${instance}`;
      return podman('ps', '--all', '--filter', filter, '--format', '{{.Names}}')
        .split('\n')
        .filter((name) => name !== '');
    },
    placeOf(volume) {
      const place = places.get(volume) ?? podman('volume', 'inspect', '--format', '{{.Mountpoint}}', volume);
      places.set(volume, place);
      return place;
    },
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
