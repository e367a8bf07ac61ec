import type { WorkspaceBackend } from '../backend.ts';
import { type FilesContainerOptions, startFilesContainer } from './files-container.ts';
import { openContainer } from './open-container.ts';
import type { FilesSettings } from './requests.ts';
import { type SharedContainer, shareContainer } from './shared-container.ts';

export interface ContainerBackends {
  /** Costs nothing until something is asked of it. Closed, it gives up its part of the container; the volume stays. */
  open(volume: string, settings: FilesSettings): WorkspaceBackend;
}

export type ContainerBackendsOptions = Omit<FilesContainerOptions, 'volume' | 'fileBytes'>;

/** Workspaces in volumes of podman or docker. */
export function createContainerBackends(options: ContainerBackendsOptions): ContainerBackends {
  const shared = new Map<string, SharedContainer>();
  return {
    open(volume, settings) {
      const { fileBytes } = settings;
      // How much memory a container may take depends on how large files are.
      const key = `${volume} ${fileBytes}`;
      const container =
        shared.get(key) ??
        shareContainer((onFailed) => startFilesContainer({ ...options, volume, fileBytes }, onFailed));
      shared.set(key, container);
      return openContainer(container, settings);
    },
  };
}
